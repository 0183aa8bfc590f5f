"""A Hugging Face tokenizer as `engine.api.ChatTokenizer`, and the per-token decoder that matches vLLM's own."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from engine.pieces import DecodeNext, Pieces, window_decoder


class HfChatTokenizer:
    """Implements `engine.api.ChatTokenizer`.

    Args:
        tokenizer: a `transformers` tokenizer (any class with `encode`, `decode` and `apply_chat_template`).
        stop_token_ids: ids that end a reply, from the model's generation settings.
    """

    def __init__(self, tokenizer: Any, stop_token_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._stop_token_ids = stop_token_ids

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Ids that end a reply."""
        return self._stop_token_ids

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as it stands; special tokens written out in it are recognised, none is added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out."""
        return cast(str, self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The chat template's text for `messages` and the tools on offer.

        Raises:
            ValueError: the model has no chat template, or the template refuses these messages.
        """
        from jinja2 import TemplateError

        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
            )
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses the conversation: {error}") from error
        return cast(str, text)


def pieces_for(tokenizer: Any, prompt_token_ids: Sequence[int], skip_special_tokens: bool = True) -> Pieces:
    """A `Pieces` for one reply.

    Args:
        tokenizer: a `transformers` tokenizer, as `AsyncLLM.get_tokenizer()` gives it.
        prompt_token_ids: the prompt, for context before the first token.
        skip_special_tokens: as in the request.
    """
    backend = getattr(tokenizer, "_tokenizer", None)
    if isinstance(backend, Tokenizer):
        return Pieces(_stream_decoder(backend, prompt_token_ids, skip_special_tokens))
    return Pieces(window_decoder(_Decoder(tokenizer, skip_special_tokens), prompt_token_ids))


def _stream_decoder(backend: Tokenizer, prompt_token_ids: Sequence[int], skip_special_tokens: bool) -> DecodeNext:
    """vLLM decodes with the same class and the same prompt before it, so the boundaries agree."""
    stream = DecodeStream(ids=list(prompt_token_ids), skip_special_tokens=skip_special_tokens)

    def decode_next(token_id: int) -> str:
        nonlocal stream
        # Byte tokens that never become valid UTF-8 leave the stream unusable, and it says so by a plain Exception. As
        # in vLLM, a new stream goes on from here; without one `Pieces` gives this text to a later token.
        with contextlib.suppress(OverflowError, TypeError):
            try:
                return stream.step(backend, token_id) or ""
            except Exception as error:
                if "Invalid prefix" not in str(error):
                    raise
                stream = DecodeStream(skip_special_tokens=skip_special_tokens)
                return stream.step(backend, token_id) or ""
        return ""

    return decode_next


class _Decoder:
    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids."""
        return cast(str, self._tokenizer.decode(list(token_ids), skip_special_tokens=self._skip_special_tokens))
