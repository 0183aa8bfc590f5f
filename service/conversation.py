"""A call's history as token ids, so that every prompt grows append-only and hits the prefix cache.

Pure. The history holds what was said, in the order it was said: the caller's words when they come, and of each reply
only what was heard. A reply of which nothing was heard leaves no trace; the caller's next words then join the turn that
is still unanswered. Only the new turn is templated: its text is what the model's own chat template adds between the end
of one reply and the beginning of the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import ChatTokenizer

# Stands for a reply while the template's text around it is cut out; a private-use character no model text contains.
_REPLY = "\ue000"


class PromptTooLong(Exception):
    """The caller's words alone exceed what the model can read; they have been left out of the history."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answered turn: the caller's words (None where we spoke first) and the ids of what was heard of the reply."""

    user: str | None
    reply_ids: tuple[int, ...]


class Conversation:
    """The memory of one call.

    Args:
        tokenizer: of the model.
        system_prompt: told to the model first.
        tools: offered to the model, as in the OpenAI chat API; may be set again until the first `ask`.
        max_prompt_tokens: a prompt over this drops the oldest exchanges, half of them at once, so that the following
            turns hit the prefix cache again.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        system_prompt: str,
        max_prompt_tokens: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._system = {"role": "system", "content": system_prompt}
        self._max_prompt_tokens = max_prompt_tokens
        self.tools = tools
        self._exchanges: list[Exchange] = []
        self._base: list[int] = []
        self._unanswered: list[str] = []
        self._prompt: list[int] = []
        self._going_on = False

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Answered turns that the next prompt will hold, oldest first."""
        return tuple(self._exchanges)

    def ask(self, text: str) -> tuple[int, ...]:
        """The caller has said `text`: the ids of the prompt for the reply.

        Raises:
            PromptTooLong: and the history is as it was before.
        """
        self._going_on = False
        self._unanswered.append(text)
        self._prompt = self._base + self._turn_ids(self._user_text())
        while len(self._prompt) > self._max_prompt_tokens and self._exchanges:
            self._forget_half()
        if len(self._prompt) > self._max_prompt_tokens:
            self._unanswered.pop()
            raise PromptTooLong
        return tuple(self._prompt)

    def go_on(self) -> tuple[int, ...] | None:
        """The ids of a prompt that takes the last reply up where it was last heard, or anew where nothing of it was.

        None where there is nothing to go on with, or no room for more.
        """
        if self._unanswered or not self._exchanges:
            return tuple(self._prompt) or None
        if len(self._base) > self._max_prompt_tokens:
            return None
        self._going_on = True
        self._prompt = list(self._base)
        return tuple(self._prompt)

    def called(self, reply_ids: Sequence[int], results: Sequence[str]) -> tuple[int, ...]:
        """The last reply called tools, and these are their results: the ids of the prompt for the reply to them.

        What was called and found stays in the prompts until the exchange is dropped for length.

        Raises:
            PromptTooLong: and nothing is changed.
        """
        told = [{"role": "tool", "content": result} for result in results]
        following = self._tokenizer.encode(self._after_reply(told))
        prompt = self._prompt + self._content(reply_ids) + following
        if len(prompt) > self._max_prompt_tokens:
            raise PromptTooLong
        self._prompt = prompt
        return tuple(prompt)

    @property
    def template_knows_tools(self) -> bool:
        """Whether the model's chat template shows it the tools, and their results."""
        said: list[Mapping[str, str]] = [self._system, {"role": "user", "content": "."}]
        try:
            self._after_reply([{"role": "tool", "content": "."}])
            return self._render(said) != self._tokenizer.render(said, add_generation_prompt=True)
        except ValueError:
            return False

    def preview(self, text: str, heard_ids: Sequence[int]) -> tuple[int, ...]:
        """The ids that `ask` would give if `heard_ids` of the last reply were heard and the caller said `text`; nothing
        is stored. For warming the prefix cache while the caller still speaks."""
        content = self._content(heard_ids)
        if content:
            return tuple(self._prompt + content + self._tokenizer.encode(self._following(text)))
        return tuple(self._base + self._turn_ids("\n".join([*self._unanswered, text])))

    def note(self, text: str) -> None:
        """Something the model should see with the caller's next words (a key pressed, say)."""
        self._unanswered.append(text)

    def opened_with(self, greeting: str) -> None:
        """We spoke first: `greeting` was heard before the caller said anything."""
        spoken = self._tokenizer.encode(greeting)
        self._base += self._turn_ids(None) + spoken
        self._exchanges.append(Exchange(None, tuple(spoken)))

    def answered(self, heard_ids: Sequence[int]) -> None:
        """Of the reply to the last prompt, `heard_ids` were heard; none: nothing is stored."""
        content = self._content(heard_ids)
        if not content:
            return
        if self._going_on:
            before = self._exchanges.pop()
            self._exchanges.append(Exchange(before.user, before.reply_ids + tuple(content)))
        else:
            self._exchanges.append(Exchange(self._user_text(), tuple(content)))
            self._unanswered = []
        self._base = self._prompt + content

    def _content(self, heard_ids: Sequence[int]) -> list[int]:
        stop = self._tokenizer.stop_token_ids
        return [token for token in heard_ids if token not in stop]

    def _user_text(self) -> str:
        return "\n".join(self._unanswered)

    def _turn_ids(self, user: str | None) -> list[int]:
        following = self._base and user is not None
        return self._tokenizer.encode(self._following(user or "") if following else self._opening(user))

    def _forget_half(self) -> None:
        del self._exchanges[: (len(self._exchanges) + 1) // 2]
        self._base = []
        for exchange in self._exchanges:
            self._base = self._base + self._turn_ids(exchange.user) + list(exchange.reply_ids)
        self._prompt = self._base + self._turn_ids(self._user_text())

    def _opening(self, user: str | None) -> str:
        said = [] if user is None else [{"role": "user", "content": user}]
        return self._render([self._system, *said])

    def _following(self, user: str) -> str:
        """What the template puts between the last reply's text and the next one's."""
        return self._after_reply([{"role": "user", "content": user}])

    def _after_reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        said: list[Mapping[str, str]] = [{"role": "user", "content": "."}, {"role": "assistant", "content": _REPLY}]
        return self._render([self._system, *said, *messages]).partition(_REPLY)[2]

    def _render(self, messages: list[Mapping[str, str]]) -> str:
        return self._tokenizer.render(messages, add_generation_prompt=True, tools=self.tools)
