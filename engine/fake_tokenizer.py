"""A tiny reversible tokenizer with a chat template, for the scripted engine.

Ids 0-255 are bytes, then three special tokens, then words (with the space before them) in the order they are first met.
Any text encodes to ids and back to itself. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

BEGIN, END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_SPECIAL = (BEGIN, END, END_OF_TEXT)
_FIRST_SPECIAL = 256
_FIRST_WORD = _FIRST_SPECIAL + len(_SPECIAL)
_CHUNK = re.compile("(" + "|".join(map(re.escape, _SPECIAL)) + ")|( ?[A-Za-z']+)|(.)", re.DOTALL)


class WordTokenizer:
    """Implements `engine.api.ChatTokenizer`.

    Args:
        max_words: words kept; later new words are spelled in bytes.
    """

    def __init__(self, max_words: int = 50_000) -> None:
        self._max_words = max_words
        self._words: list[str] = []
        self._ids: dict[str, int] = {text: _FIRST_SPECIAL + i for i, text in enumerate(_SPECIAL)}

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """The end-of-message and end-of-text ids."""
        return frozenset({self._ids[END], self._ids[END_OF_TEXT]})

    @property
    def end_token_id(self) -> int:
        """The id that ends a reply."""
        return self._ids[END]

    def encode(self, text: str) -> list[int]:
        """Ids of `text`: one a word, one a special token, one a byte of everything else."""
        ids: list[int] = []
        for match in _CHUNK.finditer(text):
            special, word, other = match.groups()
            if special:
                ids.append(self._ids[special])
            elif word and (token_id := self._word_id(word)) is not None:
                ids.append(token_id)
            else:
                ids += (word or other).encode()
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out; incomplete characters become U+FFFD."""
        out = bytearray()
        for token_id in token_ids:
            if token_id < _FIRST_SPECIAL:
                out.append(token_id)
            elif token_id >= _FIRST_WORD:
                out += self._words[token_id - _FIRST_WORD].encode()
        return out.decode("utf-8", errors="replace")

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """ChatML: begin, role, newline, content, end, newline; the tools as JSON in front."""
        text = json.dumps(list(tools)) if tools else ""
        text += "".join(f"{BEGIN}{message['role']}\n{message['content']}{END}\n" for message in messages)
        return text + (f"{BEGIN}assistant\n" if add_generation_prompt else "")

    def _word_id(self, word: str) -> int | None:
        token_id = self._ids.get(word)
        if token_id is None and len(self._words) < self._max_words:
            token_id = self._ids[word] = _FIRST_WORD + len(self._words)
            self._words.append(word)
        return token_id
