"""Where in our own text the listener was: positions rounded down to a word, and a bridge's report matched to the text.

Pure. Positions are counted in characters of the reply.
"""

import re
import unicodedata
from dataclasses import dataclass

# Scripts written without spaces: every character may end what was heard.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef\U00020000-\U0003ffff]"
)
MAX_WORDS = 400  # of either side in the word-by-word comparison


@dataclass(frozen=True, slots=True)
class HeardPosition:
    """A place in the reply; `estimated` where the report did not match it to the end."""

    chars: int
    estimated: bool


def round_down(text: str, position: int, complete: bool) -> int:
    """The last end of a word at or before `position`.

    Args:
        text: the reply as far as it is known.
        position: characters heard.
        complete: no more text follows, so the last word ends where the text ends.
    """
    position = min(position, len(text))
    if complete and position == len(text):
        return position
    while position > 0 and not _ends_word(text, position):
        position -= 1
    while position > 0 and text[position - 1].isspace():
        position -= 1
    return max(position, 0)


def _ends_word(text: str, position: int) -> bool:
    before = text[position - 1]
    if before.isspace() or UNSPACED.match(before):
        return True
    return position < len(text) and (text[position].isspace() or UNSPACED.match(text[position]) is not None)


def match(text: str, heard: str) -> HeardPosition:
    """The place in `text` at which `heard` ends.

    A bridge reports what it spoke, not what we sent: spacing, case, punctuation and the writing of numbers may differ,
    and some report the current sentence alone. Letters and digits are compared first, then word by word by edit
    distance; words at the end of the report that match nothing are not counted as heard.
    """
    letters, ends = _letters(text)
    wanted, _ = _letters(heard)
    if not wanted:
        return HeardPosition(0, False)
    start = 0 if letters.startswith(wanted) else _find_at_word(text, letters, ends, wanted)
    if start is not None:
        return HeardPosition(_past_punctuation(text, ends[start + len(wanted) - 1]), False)
    return _match_words(text, heard)


def _letters(text: str) -> tuple[str, list[int]]:
    """Letters, marks and digits of `text`, folded, and for each the end of the character it comes from."""
    letters: list[str] = []
    ends: list[int] = []
    for index, char in enumerate(text):
        for folded in unicodedata.normalize("NFKC", char).casefold():
            if unicodedata.category(folded)[0] in "LMN":
                letters.append(folded)
                ends.append(index + 1)
    return "".join(letters), ends


def _find_at_word(text: str, letters: str, ends: list[int], wanted: str) -> int | None:
    """First place of `wanted` that begins a word of `text`."""
    start = letters.find(wanted)
    while start >= 0:
        first = ends[start] - 1
        if first == 0 or not text[first - 1].isalnum():
            return start
        start = letters.find(wanted, start + 1)
    return None


def _past_punctuation(text: str, position: int) -> int:
    """Punctuation that closes a word belongs to it."""
    while position < len(text) and not text[position].isspace() and unicodedata.category(text[position])[0] in "PS":
        position += 1
    return position


def _match_words(text: str, heard: str) -> HeardPosition:
    spans = [(match.group(), match.end()) for match in re.finditer(r"\S+", text)]
    ours = [(letters, end) for word, end in spans if (letters := _letters(word)[0])][:MAX_WORDS]
    theirs = [letters for word in heard.split() if (letters := _letters(word)[0])][-MAX_WORDS:]
    words = [word for word, _ in ours]
    cost, matched, whole = _align(words, theirs, free_start=False)
    if cost * 2 > len(theirs):
        other = _align(words, theirs, free_start=True)
        if other[0] * 2 <= len(theirs):
            cost, matched, whole = other
    return HeardPosition(ours[matched - 1][1] if matched else 0, not whole)


def _align(ours: list[str], theirs: list[str], free_start: bool) -> tuple[int, int, bool]:
    """Edit distance of `theirs` to the nearest beginning (with `free_start`: stretch) of `ours`.

    Returns:
        The distance, the count of our words up to the last one matched, and whether the last of theirs is matched.
    """
    width = len(ours) + 1
    rows = [[0] * width if free_start else list(range(width))]
    for row_index, their in enumerate(theirs, 1):
        above = rows[-1]
        row = [row_index]
        for column in range(1, width):
            swap = above[column - 1] + (ours[column - 1] != their)
            row.append(min(swap, above[column] + 1, row[column - 1] + 1))
        rows.append(row)
    column = min(range(width), key=rows[-1].__getitem__)
    cost, row_index = rows[-1][column], len(theirs)
    while row_index and column:
        same = ours[column - 1] == theirs[row_index - 1]
        if same and rows[row_index][column] == rows[row_index - 1][column - 1]:
            return cost, column, row_index == len(theirs)
        here = rows[row_index][column]
        if here == rows[row_index - 1][column - 1] + 1:
            row_index, column = row_index - 1, column - 1
        elif here == rows[row_index - 1][column] + 1:
            row_index -= 1
        else:
            column -= 1
    return cost, 0, False
