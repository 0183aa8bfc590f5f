"""Where speech would pause in a piece of text: sentence ends, clause ends, word ends. Pure functions over strings.

Sentences are found by sentencex (Wikimedia; rules and abbreviation lists of some 300 languages). Added here are only
line ends, two kinds of end that it leaves out, a few kinds that it cuts wrongly, and what it cannot know: whether an
end still stands when more text comes.
"""

import regex
from sentencex import get_sentence_boundaries

from tts_adapter.speakable import is_speakable

# A capitalised word that starts no known phrase: what sentencex says of a text followed by it, it says of an open end.
_PROBE = "Xavier"
_TERMINATED = regex.compile(r"[\p{Sentence_Terminal}…][\p{Pe}\p{Pf}\p{Pi}\"'*_]*\s*\Z")
_NUMBER_END = regex.compile(r"\p{N}[.]\s*\Z")
_LINE_END = regex.compile(r"\n\s*(?=\S)")
_LEFT_OUT = regex.compile(r"(?:[.!?…][)\]\p{Pf}\"]+|…)\s+(?=[\p{Lu}\p{N}])")
_LIST_NUMBER = regex.compile(r"(?:^|(?<=\n)|(?<=[.!?:;]\s))\s*[(]?(?:\p{N}{1,3}|[A-Za-z])[.)]\s*\Z")
_ADDRESS = regex.compile(r"(?:www\.|\S*://|\S*@)\S*\Z", regex.IGNORECASE)
_SHORT_FORM = regex.compile(r"(?:\A|[\s(])(?:approx|est|tel|ext|ca|resp)\.\s*\Z", regex.IGNORECASE)
_WORD_AFTER = regex.compile(r"\S+")
_CLAUSE = regex.compile(
    r"[,;:–—]+[\p{Pe}\p{Pf}\"']*\s+|\s[-–—]\s|(?<=\p{L})—(?=\p{L})|[、，；：،؛]+\s*|(?<=\p{Thai})\s+(?=\p{Thai})"
)
_SPACE = regex.compile(r"\s+")
# Words that lean on the next one; a cut is better before than after them.
_LEANING_WORDS = (
    "a an the this that these those my your our their his her its and or but so because if when while which who of to "
    "for with from in on at by as is are was were be i you we they he she it not no can will would could should may do "
    "does did have has had let's i'm i'll we'll you'll it's there about"
)
_LEANING = frozenset(_LEANING_WORDS.split())


def sentence_ends(text: str, language: str = "en") -> list[int]:
    """Places in `text` where a sentence has ended for certain, as the text after them shows.

    Trailing space belongs to the sentence. Ends without anything speakable before them (from the last one) are left
    out, so that every part has something to say.
    """
    places = {boundary["end_index"] for boundary in get_sentence_boundaries(language, text)}
    places |= {found.end() for pattern in (_LINE_END, _LEFT_OUT) for found in pattern.finditer(text)}
    ends: list[int] = []
    start = 0
    for place in sorted(places):
        if place < len(text) and is_speakable(text[start:place]) and _stands(text, start, place, language):
            ends.append(place)
            start = place
    return ends


def ends_sentence(text: str, language: str = "en") -> bool:
    """Whether a sentence seems to be over at the end of `text`, before anything more is known."""
    if not _TERMINATED.search(text):
        return False
    if _LIST_NUMBER.search(text) or _SHORT_FORM.search(text):
        return False
    stem = text.rstrip() + " "
    return any(boundary["end_index"] == len(stem) for boundary in get_sentence_boundaries(language, stem + _PROBE))


def ends_in_number(text: str) -> bool:
    """Whether the full stop at the end of `text` may turn out to be a decimal point."""
    return _NUMBER_END.search(text) is not None


def clause_ends(text: str) -> list[int]:
    """Places after a comma, semicolon, colon or dash where more text follows or a space shows that the mark is one."""
    return [found.end() for found in _CLAUSE.finditer(text)]


def word_ends(text: str) -> list[int]:
    """Places after the space that shows that a word is complete."""
    return [found.end() for found in _SPACE.finditer(text) if found.start() > 0]


def leans(text: str) -> bool:
    """Whether the last word of `text` belongs so closely to the next that a pause after it sounds wrong."""
    words = text.split()
    return bool(words) and words[-1].lower() in _LEANING


def hard_cut(text: str, limit: int) -> int:
    """Place at or before `limit` to cut text that has no space: not inside a word, a number or a composed character
    where that can be had within the last third."""
    for place in range(limit, limit * 2 // 3, -1):
        if place >= len(text):
            return len(text)
        if regex.match(r"[\p{M}\u200c\u200d]", text[place]):
            continue
        if not regex.match(
            r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}\p{Devanagari}\p{N}]{2}", text[place - 1 : place + 1]
        ):
            return place
    return limit


def _stands(text: str, start: int, place: int, language: str) -> bool:
    head = text[start:place]
    if head.rstrip(" \t").endswith("\n"):
        return True
    if _LIST_NUMBER.search(head) or (_SHORT_FORM.search(head) and not text[place].isupper()):
        return False
    after = _WORD_AFTER.match(text, place)
    word = after.group() if after else ""
    word_complete = place + len(word) < len(text)
    if head[-1].isspace():
        return word_complete or ends_sentence(head, language)
    if head[-1] != ".":
        return True
    # A full stop glued to the next letter: an end (`one.Two`), or part of a name (`ASP.NET`, `www.A.org`).
    return word_complete and not word[:2].isupper() and not _ADDRESS.search(head)
