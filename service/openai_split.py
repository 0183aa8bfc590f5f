"""One output of the engine into single-token outputs, so that a client that counts chunks counts tokens.

The engine yields a burst of n tokens at once under speculation. Cut up, the n outputs leave together and in order; text
and log-probabilities go with their token, and what belongs to the whole (finish reason, statistics) with the last one.

The engine holds back as many characters as a stop string might need, wherever that falls. `WholeTokens` holds back the
rest of that token too, so that no chunk ends inside one.

Pure. The objects are vLLM's `RequestOutput` and `CompletionOutput`, of which only the attributes named here are used.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol


class PieceSplitter(Protocol):
    """Cuts a text into one string per token: `engine.pieces.Pieces`."""

    def split(self, token_ids: Sequence[int], text_delta: str) -> Sequence[str]:
        """Strings that joined are `text_delta`."""


class WholeTokens:
    """Text in whole tokens, whatever the engine held back.

    Args:
        decode_next: takes the next id of a reply and returns the text it completes; see `engine.pieces`.
    """

    def __init__(self, decode_next: Callable[[int], str]) -> None:
        self._decode_next = decode_next
        self._ends: deque[int] = deque()
        self._decoded_chars = 0
        self._released_chars = 0
        self._held = ""

    def release(self, token_ids: Sequence[int], text_delta: str, *, finished: bool) -> str:
        """What may leave now of the text so far: up to the end of a token, or all of it at the end of the reply."""
        for token_id in token_ids:
            self._decoded_chars += len(self._decode_next(token_id))
            self._ends.append(self._decoded_chars)
        text = self._held + text_delta
        cut = len(text)
        if not finished:
            end = self._released_chars
            while self._ends and self._ends[0] <= self._released_chars + len(text):
                end = self._ends.popleft()
            cut = end - self._released_chars
        self._held = text[cut:]
        self._released_chars += cut
        return text[:cut]


class ChoiceText(NamedTuple):
    """What cuts the text of one choice; `whole_tokens` None where the engine holds nothing back."""

    pieces: PieceSplitter
    whole_tokens: WholeTokens | None = None


class TokenSplitter:
    """Cuts the outputs of one request, of any number of choices.

    Args:
        new_text: makes what cuts the text of one choice from the prompt's ids; a choice has its own.
        by_token: one output per token; without it bursts stay together, and text is only held to whole tokens.
    """

    def __init__(self, new_text: Callable[[Sequence[int]], ChoiceText], *, by_token: bool) -> None:
        self._new_text = new_text
        self._by_token = by_token
        self._texts: dict[int, ChoiceText] = {}

    def split(self, output: Any) -> Iterator[Any]:
        """`output` as one output per token and choice; an output without tokens stays whole."""
        parts = [part for choice in output.outputs for part in self._split_choice(output, choice)]
        for position, part in enumerate(parts):
            single = copy.copy(output)
            single.outputs = [part]
            single.finished = output.finished and position == len(parts) - 1
            if position:
                single.prompt_logprobs = None
            yield single

    def _split_choice(self, output: Any, choice: Any) -> list[Any]:
        text = self._texts.get(choice.index)
        if text is None:
            text = self._texts[choice.index] = self._new_text(output.prompt_token_ids or ())
        if text.whole_tokens is not None:
            finished = choice.finish_reason is not None
            choice = copy.copy(choice)
            choice.text = text.whole_tokens.release(choice.token_ids, choice.text, finished=finished)
        texts = text.pieces.split(choice.token_ids, choice.text)
        count = len(choice.token_ids)
        if count < 2 or not self._by_token:
            return [choice]
        return [_single(choice, position, texts[position], last=position == count - 1) for position in range(count)]


def _single(choice: Any, position: int, text: str, *, last: bool) -> Any:
    single = copy.copy(choice)
    single.token_ids = [choice.token_ids[position]]
    single.text = text
    if choice.logprobs is not None:
        single.logprobs = choice.logprobs[position : position + 1]
    if not last:
        single.finish_reason = None
        single.stop_reason = None
        single.spec_decode_metrics = None
        single.weight_versions = None
        single.routed_experts = None
    return single
