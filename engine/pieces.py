"""Which characters of a reply belong to which token.

The engine says per step: these ids are new, this text is new. The two do not line up by themselves. A character may
need several tokens, and text that could be the start of a stop string is held back and comes with a later step.
`Pieces` decodes the ids a second time, one by one, only to learn where each token's text ends, and cuts the engine's
own text there. So whatever the decoder says, the pieces joined are the engine's text, character for character.

Pure: no vLLM, no clock. One object per running reply.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

DecodeNext = Callable[[int], str]
"""Takes the next id of a reply and returns the text it completes; "" while a character is incomplete."""


class Decoder(Protocol):
    """The only thing asked of a tokenizer here."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out."""


class Pieces:
    """Cuts the text of one reply into one string per token.

    Args:
        decode_next: a fresh decoder for this reply; see `window_decoder`.
    """

    def __init__(self, decode_next: DecodeNext) -> None:
        self._decode_next = decode_next
        self._decoded_chars = 0
        self._emitted_chars = 0

    def split(self, token_ids: Sequence[int], text_delta: str) -> tuple[str, ...]:
        """One string for each of `token_ids`; joined they are `text_delta`.

        Held-back characters of earlier tokens go to the first new token, and whatever the decoder cannot place to the
        last one. Text without a token (an engine that ends a reply early lets go of what it held back) comes as one
        piece of its own, so that no text is ever lost.
        """
        if not token_ids:
            return (text_delta,) if text_delta else ()
        pieces: list[str] = []
        cut = 0
        for token_id in token_ids:
            self._decoded_chars += len(self._decode_next(token_id))
            end = min(max(self._decoded_chars - self._emitted_chars, cut), len(text_delta))
            pieces.append(text_delta[cut:end])
            cut = end
        pieces[-1] += text_delta[cut:]
        self._emitted_chars += len(text_delta)
        return tuple(pieces)


def window_decoder(tokenizer: Decoder, prompt_token_ids: Sequence[int] = (), context_tokens: int = 6) -> DecodeNext:
    """A `DecodeNext` for any tokenizer that can only decode whole sequences.

    It decodes a short window twice, without and with the new id, and returns the difference: some tokenizers drop the
    space before the first token of a sequence, so a token's text is right only with something before it. A window that
    ends in the replacement character holds an incomplete character and waits for more.

    Args:
        tokenizer: decodes sequences of ids.
        prompt_token_ids: what precedes the reply.
        context_tokens: how many tokens before the new ones are kept for context.
    """
    context = list(prompt_token_ids[-context_tokens:])
    pending: list[int] = []

    def decode_next(token_id: int) -> str:
        nonlocal context
        pending.append(token_id)
        before = tokenizer.decode(context)
        text = tokenizer.decode(context + pending)
        if text.endswith("\ufffd") or len(text) < len(before):
            return ""
        context = (context + pending)[-context_tokens:]
        pending.clear()
        return text[len(before) :]

    return decode_next
