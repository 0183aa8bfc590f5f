"""Tools in a native call: the reply's bursts without the calls in them, and the calls that wait for their results.

The engine's parser splits a reply token by token. A token of a call stays a token, with no text: the history keeps it, and
nobody hears it. A call that was cut short, or whose results never came before the caller spoke again, is not kept.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from engine.api import ChatTokenizer, RequestRefused, TokenBurst
from service.conversation import Conversation
from service.protocols.events import ToolCall, ToolResult


class Use(Protocol):
    """One call in a reply."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> str: ...


class Reader(Protocol):
    """As `engine.tool_calls.ToolCallReader`."""

    @property
    def calls(self) -> Sequence[Use]: ...

    def push(self, token_id: int, text: str) -> str: ...

    def finish(self) -> str: ...


Tools = tuple[Mapping[str, Any], ...]
MakeReader = Callable[[Tools], Reader]


async def said(
    bursts: AsyncGenerator[TokenBurst, None], reader: Reader, stop_token_id: int
) -> AsyncGenerator[TokenBurst, None]:
    """The same bursts with the text that is to be said. `stop_token_id` carries last words that have no token left."""
    async with aclosing(bursts) as source:
        async for burst in source:
            pieces = [reader.push(*token) for token in zip(burst.token_ids, burst.pieces, strict=True)]
            token_ids = burst.token_ids
            if burst.finish_reason is not None and (rest := reader.finish()):
                if pieces:
                    pieces[-1] += rest
                else:
                    token_ids, pieces = (stop_token_id,), [rest]
            yield replace(burst, token_ids=token_ids, pieces=tuple(pieces))


@dataclass(slots=True)
class PendingCalls:
    """Calls of one reply that wait for their results.

    Attributes:
        order: ids of the calls, in the order of the reply.
    """

    order: tuple[str, ...]
    results: dict[str, str] = field(default_factory=dict)

    def take(self, tool_call_id: str, content: str) -> bool:
        """A result has come; False where no call waits for it."""
        if tool_call_id not in self.order or tool_call_id in self.results:
            return False
        self.results[tool_call_id] = content
        return True

    @property
    def complete(self) -> bool:
        """Nothing is missing any more."""
        return len(self.results) == len(self.order)

    @property
    def contents(self) -> list[str]:
        """The results in the order of the calls."""
        return [self.results[tool_call_id] for tool_call_id in self.order]


class ToolUse:
    """The tools of one call.

    Args:
        tools: as the client gave them.
        make_reader: a parser for one reply.
        stop_token_id: any id that ends a reply.
    """

    def __init__(self, tools: Tools, make_reader: MakeReader, stop_token_id: int) -> None:
        self._tools = tools
        self._make_reader = make_reader
        self._stop_token_id = stop_token_id
        self._reader: Reader | None = None
        self._pending: PendingCalls | None = None
        self._count = 0

    def read(self, bursts: AsyncGenerator[TokenBurst, None]) -> AsyncGenerator[TokenBurst, None]:
        """A reply's bursts with what is to be said of it."""
        self._reader = self._make_reader(self._tools)
        return said(bursts, self._reader, self._stop_token_id)

    def called(self, turn_id: int) -> list[ToolCall]:
        """The reply is complete: what it calls. From now on the results are waited for."""
        calls = [] if self._reader is None else list(self._reader.calls)
        names = [f"call-{self._count + number}" for number in range(len(calls))]
        self._count += len(calls)
        self._pending = PendingCalls(tuple(names)) if calls else None
        return [ToolCall(turn_id, name, use.name, use.arguments) for name, use in zip(names, calls, strict=True)]

    def take(self, result: ToolResult) -> bool:
        """A result has come; False where no call waits for it."""
        return self._pending is not None and self._pending.take(result.tool_call_id, result.content)

    def results(self) -> list[str] | None:
        """All results in the order of the calls, once none is missing; nothing is waited for then."""
        if self._pending is None or not self._pending.complete:
            return None
        contents, self._pending = self._pending.contents, None
        return contents

    def drop(self) -> None:
        """The caller went on: results that still come are not waited for."""
        self._reader = self._pending = None


def offered(
    tools: Tools, make_reader: MakeReader | None, tokenizer: ChatTokenizer, conversation: Conversation
) -> ToolUse:
    """The tools of a call whose model can call them.

    Raises:
        RequestRefused: saying why it cannot, or what is wrong with them.
    """
    stop_token_id = next(iter(tokenizer.stop_token_ids), None)
    if make_reader is None or stop_token_id is None:
        raise RequestRefused("tools", "this service runs without a tool parser")
    if not conversation.template_knows_tools:
        raise RequestRefused("tools", "the model's chat template knows no tools")
    make_reader(tools)  # so that what is wrong with them is said now
    return ToolUse(tools, make_reader, stop_token_id)
