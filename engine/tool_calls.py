"""Tool calls in a reply, found by vLLM's own tool parsers: what is to be said, and what is called.

A parser is chosen by the name vLLM gives it (`hermes`, `llama3_json`, …), which must fit the model's chat template. Its
streaming side says as early as possible what is plain text; the calls themselves are read once, from the whole reply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import RequestRefused


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call: `arguments` is JSON text."""

    name: str
    arguments: str


class ToolCallReader:
    """Reads one reply.

    Args:
        parser_name: vLLM's name of the parser.
        tokenizer: the model's, of `transformers`.
        tools: as in the OpenAI chat API.

    Raises:
        RequestRefused: vLLM has no parser of that name, or takes these tools for malformed.
    """

    def __init__(self, parser_name: str, tokenizer: Any, tools: Sequence[Mapping[str, Any]]) -> None:
        from pydantic import ValidationError
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.tool_parsers import ToolParserManager

        try:
            request = {"messages": [], "model": "", "tools": [dict(tool) for tool in tools], "tool_choice": "auto"}
            self._request: Any = ChatCompletionRequest.model_validate(request)
            kind = ToolParserManager.get_tool_parser(parser_name)
        except ValidationError:
            raise RequestRefused("tools", "not the functions of the OpenAI chat API") from None
        except KeyError:
            raise RequestRefused("tools", f"the engine has no tool parser named {parser_name}") from None
        self._streaming: Any = kind(tokenizer, self._request.tools)
        self._whole: Any = kind(tokenizer, self._request.tools)
        self._tokenizer = tokenizer
        self._special = {int(token_id) for token_id in tokenizer.all_special_ids}
        self._ids: list[int] = []
        self._text = ""
        self._said = ""
        self.calls: tuple[ToolUse, ...] = ()

    def push(self, token_id: int, text: str) -> str:
        """The next token and its text; what of the reply is now known to be said aloud."""
        if not text and token_id in self._special:
            text = self._tokenizer.decode([token_id])  # a parser's mark may be a special token
        before, self._text = self._text, self._text + text
        self._ids.append(token_id)
        delta = self._streaming.extract_tool_calls_streaming(
            before, self._text, text, self._ids[:-1], self._ids, [token_id], self._request
        )
        content = (delta.content or "") if delta is not None else ""
        self._said += content
        return content

    def finish(self) -> str:
        """The reply is complete: its last words, and `calls` is filled."""
        found = self._whole.extract_tool_calls(self._text, self._request)
        self.calls = tuple(ToolUse(call.function.name, call.function.arguments) for call in found.tool_calls)
        content = found.content or ""
        return content[len(self._said) :] if content.startswith(self._said) else ""
