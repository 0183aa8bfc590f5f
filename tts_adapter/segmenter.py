"""Cuts a streamed reply into segments for a voice that needs whole clauses.

Pure: time comes in as `now`. Joined, the segments are the text that was pushed, whichever way it was cut; only text
without a letter or digit after the last segment is left over (`rest`), because no voice can speak it. Every other
segment has something to say: marks without it join the next one.

The first segment leaves as soon as it can be spoken without sounding cut, later ones at sentence ends. A segment leaves
earlier, at its best pause so far, when what was cut before it will soon have been spoken: silence is worse than
a pause. Whatever happens, no text waits for a sentence end longer than `max_hold_ms`; a last word that no space has
completed may wait as long again.
"""

from collections import deque
from dataclasses import dataclass

from tts_adapter import boundaries
from tts_adapter.options import SegmentOptions
from tts_adapter.speakable import count_words, is_speakable
from tts_adapter.spoken_time import SpokenTime

_NUMBER_HOLD_FACTOR = 3.0
_FEWEST_WORDS = 2


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece to speak: `text` is the pushed text from `start` to `end`, in characters."""

    text: str
    start: int
    end: int


class Segmenter:
    """One reply.

    Args:
        options: limits and language.
    """

    def __init__(self, options: SegmentOptions | None = None) -> None:
        self.options = options or SegmentOptions()
        self._text = ""
        self._start = 0
        self._arrivals: deque[tuple[int, float]] = deque()
        self._first = True
        self._last_push = 0.0
        self._spoken = SpokenTime(self.options.words_per_second)
        self._ended = False

    @property
    def rest(self) -> str:
        """What has been pushed and not cut; after `finish`, only marks without anything to say."""
        return self._text

    def push(self, text: str, now: float) -> list[Segment]:
        """More text; returns the segments that are complete by now, those due included."""
        if text:
            self._text += text
            self._last_push = now
            self._arrivals.append((self._start + len(self._text), now))
            self._ended = boundaries.ends_sentence(self._text, self.options.language)
        return self._cut_complete(now) + self.due(now)

    def due(self, now: float) -> list[Segment]:
        """The segments whose hold is over."""
        segments = []
        while (wakeup := self.next_wakeup()) is not None and wakeup <= now:
            segments.append(self._take(self._best_place(now), now))
        return segments

    def finish(self, now: float) -> list[Segment]:
        """No more text will come; returns what is left, in sentences."""
        segments = self._cut_complete(now)
        while is_speakable(self._text):
            places = boundaries.sentence_ends(self._text, self.options.language)
            tail_speaks = bool(places) and is_speakable(self._text[places[0] :])
            segments.append(self._take(places[0] if tail_speaks else len(self._text), now))
        return segments

    def heard(self, segment: int, seconds: float, last: bool, in_hand_s: float, now: float) -> None:
        """Audio of a segment has come, `last` where it is all of it, and so much is now waiting to be played: it tells
        better than words when speech will run out. Asks for a new `next_wakeup`."""
        self._spoken.heard(segment, seconds, last, in_hand_s, now)

    def next_wakeup(self) -> float | None:
        """When `due` will have something if nothing is pushed, or None while there is nothing to say."""
        if not is_speakable(self._text):
            return None
        oldest = self._arrivals[0][1]
        deadline = oldest + self.options.max_hold_ms / 1000
        if self._ended:
            deadline = min(deadline, self._end_deadline())
        words = count_words(self._text[: self._last_word_end()])
        if words >= self.options.first_min_words:
            early = oldest + self.options.first_hold_ms / 1000
            if not self._first:
                early = max(early, self._spoken.until - self.options.reserve_ms / 1000)
            deadline = min(deadline, early)
        return deadline

    def _end_deadline(self) -> float:
        hold_s = self.options.end_hold_ms / 1000
        return self._last_push + hold_s * (_NUMBER_HOLD_FACTOR if boundaries.ends_in_number(self._text) else 1.0)

    def _cut_complete(self, now: float) -> list[Segment]:
        segments = []
        while (place := self._complete_place()) is not None:
            segments.append(self._take(place, now))
        return segments

    def _complete_place(self) -> int | None:
        """Where the next segment ends for certain, if it does."""
        options = self.options
        if not is_speakable(self._text):
            return None
        ends = boundaries.sentence_ends(self._text, options.language)
        if self._first:
            places = sorted(ends + boundaries.clause_ends(self._text))
            for place in places:
                if count_words(self._text[:place]) >= options.first_min_words:
                    return min(place, self._longest(place))
            if count_words(self._text[: self._last_word_end()]) >= options.first_max_words:
                return self._soft_place(self._text)
        elif ends:
            return min(ends[0], self._longest(ends[0]))
        if len(self._text) > options.max_characters:
            return self._longest(len(self._text))
        return None

    def _longest(self, place: int) -> int:
        """`place`, or the best place within the longest segment allowed."""
        limit = self.options.max_characters
        if place <= limit:
            return place
        head = self._text[:limit]
        soft = self._soft_place(head)
        if soft > limit // 3 and is_speakable(head[:soft]):
            return soft
        return max(1, boundaries.hard_cut(self._text, limit))

    def _last_word_end(self) -> int:
        ends = boundaries.word_ends(self._text)
        return ends[-1] if ends else 0

    def _best_place(self, now: float) -> int:
        """Where to cut when the hold is over."""
        if self._ended and now >= self._end_deadline():
            return len(self._text)
        if now >= self._arrivals[0][1] + self.options.max_hold_ms / 1000:
            place = self._last_word_end()
            return place if is_speakable(self._text[:place]) else len(self._text)
        return self._soft_place(self._text)

    def _soft_place(self, text: str) -> int:
        """The best pause in `text`: a sentence end, else a clause end, else a word that does not lean on the next."""
        words = [place for place in boundaries.word_ends(text) if is_speakable(text[:place])]
        smooth = [place for place in words[-4:] if not boundaries.leans(text[:place])]
        sentences = boundaries.sentence_ends(text, self.options.language)
        for least_words in (self.options.first_min_words, _FEWEST_WORDS):
            for places in (sentences, boundaries.clause_ends(text), smooth):
                for place in reversed(places):
                    if count_words(text[:place]) >= least_words:
                        return place
        return words[-1] if words else len(text)

    def _take(self, place: int, now: float) -> Segment:
        segment = Segment(self._text[:place], self._start, self._start + place)
        self._text = self._text[place:]
        self._start += place
        while self._arrivals and self._arrivals[0][0] <= self._start:
            self._arrivals.popleft()
        overdue = self.options.max_hold_ms / 1000
        if self._arrivals and now >= self._arrivals[0][1] + overdue:
            # What is left is a word that the next text may complete: it may wait once more.
            self._arrivals[0] = (self._arrivals[0][0], now)
        self._first = False
        self._ended = self._ended and bool(self._text.strip())
        self._spoken.cut(count_words(segment.text), now)
        return segment
