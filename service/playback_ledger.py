"""The playback ledger: what left, and what of it the caller has heard. Only that enters the history.

Every piece of a reply that leaves is `queued` until the bridge says more: `played`, `cleared`, or `unknown` when the
call ends first. Rules, in this order:
1. A position that the bridge reports (a mark, `played`, the words up to an interruption) is taken as it is.
2. Audio whose bridge reports positions counts as heard up to the last report, and not beyond.
3. A text reply that ended and was not interrupted is heard to its end.
4. Where no position is reported, time since the text left, at a set speaking rate, is the estimate; it is marked as one
   and never passes what was sent by then.
Whatever the source, the result is rounded down to a word; nothing heard is 0.

Pure: time comes in as `now` (seconds, monotonic). Bounded: beyond `MAX_TURNS` the oldest turn is forgotten, beyond
`MAX_MARKS` a turn's oldest mark; beyond `MAX_PIECES` pieces are joined in pairs; text beyond `MAX_TEXT_CHARS` is cut.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Literal

from service.heard_text import match, round_down

State = Literal["queued", "played", "cleared", "unknown"]

MAX_TURNS = 8
MAX_PIECES = 1024
MAX_MARKS = 1024
MAX_TEXT_CHARS = 65_536
MAX_TOKENS = 16_384
CHARS_PER_WORD = 6.0  # English, the space included


@dataclass(slots=True)
class Piece:
    """A part of a reply that left: characters `start_char` to `end_char`, and the audio they became."""

    start_char: int
    end_char: int
    start_ms: float
    end_ms: float
    sent_at: float
    state: State = "queued"


@dataclass(slots=True)
class _Turn:
    text: str = ""
    pieces: list[Piece] = field(default_factory=list)
    token_ends: list[int] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)  # name -> characters sent before it
    is_audio: bool = False
    reported: int | None = None
    estimated: bool = False
    words_reported: bool = False  # the report was in words, so it ends with one
    interrupted: bool = False
    finished: bool = False

    @property
    def sent_chars(self) -> int:
        return self.pieces[-1].end_char if self.pieces else 0

    @property
    def sent_ms(self) -> float:
        return self.pieces[-1].end_ms if self.pieces else 0.0

    def append(self, text: str) -> int:
        """Add text, as far as there is room for it; the count of characters added."""
        text = text[: MAX_TEXT_CHARS - len(self.text)]
        self.text += text
        return len(text)


def mark_name(turn_id: int, number: int) -> str:
    """A name no other mark of the call has, short enough for every bridge."""
    return f"t{turn_id}:{number}"


class PlaybackLedger:
    """The ledger of one call.

    Args:
        reports_position: the dialect says what was heard. May be set again once `CallStarted` has settled it.
        speaking_rate_wpm: words per minute, for estimates.
    """

    def __init__(self, *, reports_position: bool, speaking_rate_wpm: float = 160.0) -> None:
        self.reports_position = reports_position
        self._chars_per_s = speaking_rate_wpm * CHARS_PER_WORD / 60
        self._turns: dict[int, _Turn] = {}

    # What leaves

    def add_text(self, turn_id: int, text: str) -> None:
        """The next part of the reply as the voice gets it, whole words. For audio; tokens bring their own text."""
        self._turn(turn_id).append(text)

    def sent_token(self, turn_id: int, index: int, text: str, now: float) -> None:
        """Token `index` of the reply has left as text."""
        turn = self._turn(turn_id)
        if turn.interrupted or index >= MAX_TOKENS:
            return
        start = turn.sent_chars
        end = start + turn.append(text)
        turn.token_ends += [start] * (index - len(turn.token_ends))
        turn.token_ends.append(end)
        if end > start:
            self._add(turn, Piece(start, end, 0.0, 0.0, now))

    def sent_audio(
        self, turn_id: int, start_char: int, end_char: int, audio_ms: float, now: float, mark: str | None = None
    ) -> None:
        """Audio that speaks these characters has left, and `mark` behind it if one is given."""
        turn = self._turn(turn_id)
        if turn.interrupted:
            return
        turn.is_audio = True
        start = max(start_char, turn.sent_chars)
        self._add(
            turn,
            Piece(
                start, max(start, min(end_char, MAX_TEXT_CHARS)), turn.sent_ms, turn.sent_ms + max(0.0, audio_ms), now
            ),
        )
        if mark is not None:
            self.sent_mark(turn_id, mark)

    def sent_mark(self, turn_id: int, name: str) -> None:
        """A mark has left behind everything the turn has sent so far."""
        turn = self._turn(turn_id)
        turn.marks[name] = turn.sent_chars
        if len(turn.marks) > MAX_MARKS:
            del turn.marks[next(iter(turn.marks))]

    # What the bridge says

    def mark(self, name: str, played: bool, now: float) -> None:
        """A mark came back. Late, doubled and unknown ones change nothing that is known already."""
        turn = next((turn for turn in self._turns.values() if name in turn.marks), None)
        if turn is None:
            return
        position = turn.marks.pop(name)
        if played:
            self._report(turn, position, estimated=False)
        else:
            _settle(turn, turn.reported or 0, position, "cleared")

    def played(self, turn_id: int, audio_ms: float | None = None, token_index: int | None = None) -> None:
        """The far end has played this much of the turn: audio time, or tokens up to and with this index."""
        turn = self._turns.get(turn_id)
        if turn is None or not turn.pieces:
            return
        if token_index is not None and turn.token_ends:
            self._report(turn, turn.token_ends[min(max(token_index, 0), len(turn.token_ends) - 1)], estimated=False)
        elif audio_ms is not None and turn.is_audio:
            self._report(turn, _char_at(turn, audio_ms), estimated=False)
        elif audio_ms is not None:
            spoken_until = turn.pieces[0].sent_at + audio_ms / 1000
            self._report(turn, self._estimate(turn, spoken_until), estimated=True)

    def interrupted(
        self, turn_id: int, now: float, heard_text: str | None = None, heard_ms: float | None = None
    ) -> None:
        """The caller broke in: what had been heard by then is heard, everything behind it is cleared."""
        turn = self._turns.get(turn_id)
        if turn is None or turn.interrupted:
            return
        turn.interrupted = True
        if heard_text is not None and not turn.is_audio:
            found = match(turn.text[: turn.sent_chars], heard_text)
            position, estimated = found.chars, found.estimated
            turn.words_reported = not estimated
        else:
            position, estimated = self._heard_at_interrupt(turn, now, heard_ms)
        turn.reported, turn.estimated = min(position, turn.sent_chars), estimated
        _settle(turn, 0, turn.reported, "played")
        _settle(turn, turn.reported, turn.sent_chars, "cleared")

    def finished(self, turn_id: int, now: float) -> None:
        """The reply is complete and all of it has left."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.finished = True

    def call_ended(self) -> None:
        """Nothing more will be reported."""
        for turn in self._turns.values():
            _settle(turn, 0, turn.sent_chars, "unknown")

    # What was heard

    def heard_chars(self, turn_id: int) -> int:
        """Characters of the reply that were heard, whole words."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return 0
        position = min(self._position(turn), turn.sent_chars)
        # The voice gets whole words; of tokens, the last may be the beginning of a longer word.
        return round_down(turn.text, position, turn.finished or turn.is_audio or turn.words_reported)

    def heard(self, turn_id: int) -> str:
        """The words that were heard."""
        turn = self._turns.get(turn_id)
        return turn.text[: self.heard_chars(turn_id)] if turn is not None else ""

    def estimated(self, turn_id: int) -> bool:
        """True where `heard_chars` rests on time, not on a report."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return False
        return turn.estimated if turn.reported is not None else not self.reports_position

    def pieces(self, turn_id: int) -> tuple[Piece, ...]:
        """What left of the turn, in order."""
        turn = self._turns.get(turn_id)
        return tuple(turn.pieces) if turn is not None else ()

    # Inside

    def _position(self, turn: _Turn) -> int:
        if turn.reported is not None:
            return turn.reported
        if turn.finished and not (turn.is_audio and self.reports_position):
            return turn.sent_chars
        return 0

    def _heard_at_interrupt(self, turn: _Turn, now: float, heard_ms: float | None) -> tuple[int, bool]:
        if turn.is_audio:
            if heard_ms is not None:
                return max(turn.reported or 0, _char_at(turn, heard_ms)), False
            if self.reports_position or not turn.pieces:
                return turn.reported or 0, False
            return _char_at(turn, (now - turn.pieces[0].sent_at) * 1000), True
        if turn.reported is not None and not turn.estimated:
            return turn.reported, False
        if not turn.pieces:
            return 0, False
        until = now if heard_ms is None else min(now, turn.pieces[0].sent_at + heard_ms / 1000)
        return max(turn.reported or 0, self._estimate(turn, until)), True

    def _report(self, turn: _Turn, position: int, estimated: bool) -> None:
        """A position only ever grows; a report replaces an estimate."""
        position = min(position, turn.sent_chars)
        if turn.interrupted and not turn.is_audio:
            return
        if turn.reported is not None and turn.estimated == estimated:
            position = max(position, turn.reported)
        elif turn.reported is not None and estimated:
            return
        turn.reported, turn.estimated = position, estimated
        _settle(turn, 0, position, "played", over=("queued", "cleared"))

    def _estimate(self, turn: _Turn, now: float) -> int:
        """Characters spoken by `now` if each piece is spoken at the set rate, not before it was sent."""
        clock, position = turn.pieces[0].sent_at, 0
        for piece in turn.pieces:
            clock = max(clock, piece.sent_at)
            spoken = int(max(0.0, now - clock) * self._chars_per_s)
            if spoken < piece.end_char - piece.start_char:
                return position + spoken
            position = piece.end_char
            clock += (piece.end_char - piece.start_char) / self._chars_per_s
        return position

    def _turn(self, turn_id: int) -> _Turn:
        turn = self._turns.get(turn_id)
        if turn is None:
            turn = self._turns[turn_id] = _Turn()
            while len(self._turns) > MAX_TURNS:
                del self._turns[min(self._turns)]
        return turn

    def _add(self, turn: _Turn, piece: Piece) -> None:
        turn.pieces.append(piece)
        if len(turn.pieces) > MAX_PIECES:
            turn.pieces = [_joined(turn.pieces[at : at + 2]) for at in range(0, len(turn.pieces), 2)]


def _char_at(turn: _Turn, audio_ms: float) -> int:
    """The character being spoken after so much of the turn's audio; linear within a piece."""
    index = bisect_left(turn.pieces, audio_ms, key=lambda piece: piece.end_ms)
    if index == len(turn.pieces):
        return turn.sent_chars
    piece = turn.pieces[index]
    if audio_ms >= piece.end_ms:
        return piece.end_char
    share = max(0.0, audio_ms - piece.start_ms) / (piece.end_ms - piece.start_ms)
    return piece.start_char + int(share * (piece.end_char - piece.start_char))


def _settle(turn: _Turn, start: int, end: int, state: State, over: tuple[State, ...] = ("queued",)) -> None:
    """Text from `start` to `end` that was `over` is now in `state`; a piece that lies across a bound is split."""
    _split(turn.pieces, start)
    _split(turn.pieces, end)
    for at in range(bisect_left(turn.pieces, start, key=_start), bisect_right(turn.pieces, end, key=_start)):
        piece = turn.pieces[at]
        if piece.state in over and piece.end_char <= end:
            piece.state = state


def _split(pieces: list[Piece], at: int) -> None:
    """Make `at` a bound between two pieces where it lies within one."""
    index = bisect_left(pieces, at, key=_start) - 1
    if index < 0 or at >= pieces[index].end_char:
        return
    piece = pieces[index]
    share = (at - piece.start_char) / (piece.end_char - piece.start_char)
    middle_ms = piece.start_ms + share * (piece.end_ms - piece.start_ms)
    first = Piece(piece.start_char, at, piece.start_ms, middle_ms, piece.sent_at, piece.state)
    last = Piece(at, piece.end_char, middle_ms, piece.end_ms, piece.sent_at, piece.state)
    pieces[index : index + 1] = [first, last]


def _start(piece: Piece) -> int:
    return piece.start_char


def _joined(pair: list[Piece]) -> Piece:
    """Two neighbours as one; where they differ, the later and the less certain holds."""
    first, last = pair[0], pair[-1]
    state = first.state if first.state == last.state else last.state
    return Piece(first.start_char, last.end_char, first.start_ms, last.end_ms, last.sent_at, state)
