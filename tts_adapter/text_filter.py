"""What a person would say of a model's text: markdown, markup, links, emoji and control marks out, every word kept.

Pure and streaming: the output does not depend on how the input was cut. At most 512 characters are held back
while it is open what they are. No letter and no digit outside a tag, an entity, a link's target or a code fence's
language is ever dropped, and a mark is dropped only where its neighbours show that it is markup.
"""

import html
from bisect import bisect_left
from typing import Literal

import regex

from tts_adapter import text_patterns as patterns

_Taken = tuple[int, str]
"""Characters of the raw text consumed, and what they become."""


_LONGEST_MARKUP = 512
"""Markup longer than this is taken for plain text."""


class _NeedMore(Exception):
    """What comes next decides."""


class TextFilter:
    """One reply.

    Args:
        code_blocks: fenced code is spoken like other text, or skipped up to its closing fence.
    """

    def __init__(self, code_blocks: Literal["speak", "skip"] = "speak") -> None:
        self._skip_code = code_blocks == "skip"
        self._pending = ""
        self._final = False
        self._raw_length = 0
        self._out_length = 0
        self._before = "\n"  # the raw character before the pending ones
        self._last_out = "\n"
        self._line_start = True
        self._gap = False
        self._table = False
        self._fence = ""
        self._inline_code = False
        self._url = False
        self._emphasis = {"*": 0, "_": 0}
        self._map = PositionMap()

    def push(self, text: str) -> str:
        """More raw text; returns what is settled by now."""
        self._pending += text
        return self._advance()

    def finish(self) -> str:
        """No more text will come; returns the rest."""
        self._final = True
        return self._advance()

    @property
    def held_back(self) -> int:
        """Characters pushed whose fate is open."""
        return len(self._pending)

    def raw_position(self, filtered_position: int) -> int:
        """How much of the raw text stands behind the first `filtered_position` characters of the output.

        Rounded down: marks after the last character are not counted, except after the very end of a finished text.
        """
        if self._final and filtered_position >= self._out_length:
            return self._raw_length
        return self._map.raw_position(filtered_position)

    def _advance(self) -> str:
        # A final line end stands in for the character that every open decision still waits for.
        text = self._pending + "\n" if self._final else self._pending
        at, end, out = 0, len(self._pending), []
        while at < end:
            try:
                length, spoken = self._take(text, at)
            except _NeedMore:
                break
            length = min(length, end - at)
            out.append(self._emit(text[at : at + length], spoken))
            self._before = text[at + length - 1]
            at += length
        self._pending = self._pending[at:]
        return "".join(out)

    def _emit(self, raw: str, spoken: str) -> str:
        if spoken and self._gap:
            self._gap = False
            if self._last_out.isalnum() and spoken[0].isalnum():
                self._map.add(self._out_length, self._raw_length, 1, 0)
                self._out_length += 1
                return " " + self._emit(raw, spoken)
        self._map.add(self._out_length, self._raw_length, len(spoken), len(raw) if raw != spoken else None)
        self._raw_length += len(raw)
        self._out_length += len(spoken)
        if spoken:
            self._last_out = spoken[-1]
        return spoken

    def _match(self, pattern: "regex.Pattern[str]", text: str, at: int) -> "regex.Match[str] | None":
        found = pattern.match(text, at, partial=not self._final)
        if found is None or len(found.group()) > _LONGEST_MARKUP:
            return None
        if found.partial:
            raise _NeedMore
        return found

    def _take(self, text: str, at: int) -> _Taken:
        character = text[at]
        if self._fence or self._inline_code:
            code = self._take_code(text, at, character)
            if code is not None:
                return code
        elif self._line_start:
            mark = self._take_line_mark(text, at, character)
            if mark is not None:
                return mark
        if character in patterns.LINE_END:
            return self._take_line_end()
        space = self._take_space(text, at)
        if space is not None:
            return space
        dropped = self._take_unspeakable(text, at, character)
        if dropped is not None:
            return dropped
        self._line_start = False
        if not (self._fence or self._inline_code):
            markup = self._take_markup(text, at, character)
            if markup is not None:
                return markup
        return self._copy(text, at)

    def _copy(self, text: str, at: int) -> _Taken:
        word = patterns.WORD.match(text, at)
        length = len(word.group()) if word else 1
        return length, "" if self._fence and self._skip_code else text[at : at + length]

    def _take_code(self, text: str, at: int, character: str) -> _Taken | None:
        if self._fence and self._line_start and character == self._fence:
            closing = self._match(patterns.FENCE, text, at)
            if closing:
                self._fence = ""
                return len(closing.group()), ""
        if self._inline_code and character == "`":
            run = self._run(patterns.BACKTICKS, text, at)
            self._inline_code = False
            return len(run), ""
        return None

    def _take_line_mark(self, text: str, at: int, character: str) -> _Taken | None:
        if character in "`~":
            fence = self._match(patterns.FENCE, text, at)
            if fence:
                self._fence = character
                return len(fence.group()), ""
        for pattern in (patterns.RULE_LINE, patterns.HEADER, patterns.QUOTE, patterns.BULLET, patterns.CHECKBOX):
            mark = self._match(pattern, text, at)
            if mark:
                return len(mark.group()), ""
        if character == "|":
            self._table = True
            self._line_start = False
            return 1, ""
        return None

    def _take_line_end(self) -> _Taken:
        self._line_start = True
        self._gap = self._table = self._inline_code = self._url = False
        self._emphasis = {"*": 0, "_": 0}
        return 1, "" if self._last_out == "\n" or (self._fence and self._skip_code) else "\n"

    def _take_space(self, text: str, at: int) -> _Taken | None:
        if self._table:
            edge = self._match(patterns.CELL_EDGE, text, at)
            if edge:
                end_of_row = text[at + len(edge.group())] in "\n|"
                return len(edge.group()), "" if end_of_row or self._last_out in "\n," else ", "
        space = patterns.SPACE.match(text, at)
        if space is None:
            return None
        self._url = self._gap = False
        return len(space.group()), "" if self._last_out.isspace() else " "

    def _take_unspeakable(self, text: str, at: int, character: str) -> _Taken | None:
        control = patterns.CONTROL.match(text, at)
        if control:
            return len(control.group()), ""
        if character in patterns.JOINERS and not patterns.WORD.fullmatch(self._before):
            return 1, ""
        picture = patterns.PICTURE.match(text, at)
        if picture:
            self._gap = True
            return len(picture.group()), ""
        return None

    def _take_markup(self, text: str, at: int, character: str) -> _Taken | None:
        if self._url:
            if character == "/" and self._match(patterns.URL_TAIL, text, at):
                return 1, ""
            if character in "_~&":
                return 1, character
        if character == "*":
            return self._take_stars(text, at)
        if character == "_":
            return self._take_underscores(text, at)
        if character == "<":
            return self._take_angle(text, at)
        if character in "[]!":
            return self._take_bracket(text, at, character)
        if character in "hHfF" and not self._before.isalnum():
            scheme = self._match(patterns.SCHEME, text, at)
            if scheme:
                self._url = True
                return len(scheme.group()), ""
        return self._take_small_mark(text, at, character)

    def _take_small_mark(self, text: str, at: int, character: str) -> _Taken | None:
        if character == "`":
            run = self._run(patterns.BACKTICKS, text, at)
            self._inline_code = True
            return len(run), ""
        if character == "~":
            run = self._run(patterns.TILDES, text, at)
            return len(run), "" if len(run) == 2 else run
        if character == "\\":
            escape = self._match(patterns.ESCAPE, text, at)
            return (2, text[at + 1]) if escape else None
        if character == "&":
            entity = self._match(patterns.ENTITY, text, at)
            if entity:
                decoded = html.unescape(entity.group())
                return len(entity.group()), " " if decoded.isspace() else decoded
        return None

    def _run(self, pattern: "regex.Pattern[str]", text: str, at: int) -> str:
        run = self._match(pattern, text, at)
        return run.group() if run else text[at]

    def _take_stars(self, text: str, at: int) -> _Taken:
        run = self._run(patterns.STARS, text, at)
        before, after = self._before, text[at + len(run)]
        if len(run) > 3 or (before.isspace() and after.isspace()):
            return len(run), run
        if self._emphasis["*"] and not before.isspace():
            self._emphasis["*"] -= 1
            return len(run), ""
        inside_word = before.isalnum() and after.isalnum()
        if after.isspace() or (inside_word and not patterns.UNSPACED.match(before + after)):
            return len(run), run
        self._emphasis["*"] += 1
        return len(run), ""

    def _take_underscores(self, text: str, at: int) -> _Taken:
        run = self._run(patterns.UNDERSCORES, text, at)
        before, after = self._before, text[at + len(run)]
        if len(run) > 3 or (before.isalnum() and after.isalnum()) or (before.isspace() and after.isspace()):
            return len(run), run
        return len(run), ""

    def _take_angle(self, text: str, at: int) -> _Taken | None:
        for pattern in (patterns.SPECIAL_TOKEN, patterns.COMMENT, patterns.AUTOLINK, patterns.TAG):
            found = self._match(pattern, text, at)
            if found is None:
                continue
            if pattern is patterns.AUTOLINK:
                return len(found.group()), patterns.SCHEME.sub("", found.group("target") + " ").rstrip()
            if patterns.SEPARATING_TAG.match(found.group()):
                self._gap = True
            return len(found.group()), ""
        return None

    def _take_bracket(self, text: str, at: int, character: str) -> _Taken | None:
        if character == "!":
            starts_word = not self._before.isalnum()
            return (2, "") if starts_word and self._match(patterns.IMAGE, text, at) else None
        self._gap = True
        if character == "]":
            target = self._match(patterns.LINK_TARGET, text, at)
            if target and patterns.URL_LIKE.match(target.group("url")):
                return len(target.group()), ""
        return 1, ""


class PositionMap:
    """Places of the output and where in the raw text they come from, as runs; positions only grow."""

    def __init__(self) -> None:
        self._out: list[int] = []
        self._raw: list[int] = []
        self._replaced: list[int | None] = []
        self._end = 0

    def add(self, out_start: int, raw_start: int, out_length: int, raw_length: int | None) -> None:
        """A piece of output, copied (`raw_length` None) or standing for `raw_length` raw characters."""
        if not out_length:
            return
        self._end = out_start + out_length
        if (
            raw_length is None
            and self._out
            and self._replaced[-1] is None
            and raw_start - self._raw[-1] == out_start - self._out[-1]
        ):
            return
        self._out.append(out_start)
        self._raw.append(raw_start)
        self._replaced.append(raw_length)

    def raw_position(self, position: int) -> int:
        """Raw characters behind the first `position` characters of output, rounded down."""
        position = min(position, self._end)
        run = bisect_left(self._out, position) - 1
        if position <= 0 or run < 0:
            return 0
        raw_length = self._replaced[run]
        if raw_length is None:
            return self._raw[run] + position - self._out[run]
        run_end = self._out[run + 1] if run + 1 < len(self._out) else self._end
        return self._raw[run] + (raw_length if position >= run_end else 0)
