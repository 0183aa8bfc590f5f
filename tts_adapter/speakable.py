"""Counting what a voice would have to say: speakable characters, and words in scripts with and without spaces. Pure."""

import regex

_SPEAKABLE = regex.compile(r"[\p{L}\p{N}]")
_WORD = regex.compile(r"[^\s]*[\p{L}\p{N}][^\s]*")
# Scripts that do not put spaces between words, with the number of characters counted as one word.
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_DENSE_PER_WORD = 2
_SYLLABIC = regex.compile(r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_SYLLABIC_PER_WORD = 5


def is_speakable(text: str) -> bool:
    """Whether `text` has a letter or a digit: several voices hang or fail on text that has none."""
    return _SPEAKABLE.search(text) is not None


def count_words(text: str) -> int:
    """Words of `text`, where two CJK characters or five of Thai, Lao, Khmer or Burmese count as one."""
    dense = len(_DENSE.findall(text))
    syllabic = len(_SYLLABIC.findall(text))
    if not dense and not syllabic:
        return len(_WORD.findall(text))
    rest = _SYLLABIC.sub(" ", _DENSE.sub(" ", text))
    return len(_WORD.findall(rest)) + dense // _DENSE_PER_WORD + syllabic // _SYLLABIC_PER_WORD
