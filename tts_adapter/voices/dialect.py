"""How a speech service is spoken to over its WebSocket: a pure class per service, one object per reply. No I/O.

A dialect turns what is to be said into frames to send, and received frames into what happened. `socket_voice` does the
rest: connections, waiting, cancelling, errors.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from tts_adapter.voice import AudioChunk, Samples
from tts_adapter.voices.segments import speakable

Wire = str | bytes
Reuse = Literal["always", "finished", "never"]

PIECE_S = 0.1
"""Longest chunk handed over: what a cancel or a player need not wait for."""

_HELD_S = 0.02
_LONGEST_TEXT = 1500


@dataclass(frozen=True, slots=True)
class Sounded:
    """Audio of a segment arrived."""

    segment: int
    samples: Samples


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """No more audio of the current segment will come."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What arrived asks for these frames to be sent."""

    frames: tuple[Wire, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """Everything was spoken."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The service gave up; `reason` names the kind of fault, without any text that was to be spoken."""

    reason: str


Event = Sounded | SegmentEnded | Answered | Finished | Failed


class Dialect(Protocol):
    """One reply in the words of a service."""

    @property
    def reuse(self) -> Reuse:
        """When the connection may serve the next reply: `always`, since audio names its reply; `finished`, when this one
        was spoken to its end; `never`."""

    @property
    def spoken(self) -> bool:
        """Whether everything pushed so far is known to have been spoken, so that nothing more comes after a flush."""

    def push(self, segment: int, text: str) -> Sequence[Wire]:
        """Frames that have `text` spoken; none while it is held back to the end of a word or for want of a sound."""

    def flush(self) -> Sequence[Wire]:
        """Frames after the last text. Only called once something was sent or is held back; none: nothing to speak."""

    def cancel(self) -> Sequence[Wire]:
        """Frames that stop a reply of which something was sent."""

    def keep_alive(self) -> Sequence[Wire]:
        """Frames for a reply whose text pauses."""

    def receive(self, message: Wire) -> Sequence[Event]:
        """What a frame from the service means. Frames of other replies mean nothing.

        Raises:
            ValueError: not this protocol; also KeyError and TypeError.
        """


def fault_name(name: object, code: object = None) -> str:
    """A service's name for its error, to be shown; its sentences may quote the text that was to be spoken."""
    word = str(name)
    shown = word if len(word) < 40 and word.replace("_", "").replace("-", "").isalnum() and name else "error"
    return f"{shown}, code {code}" if isinstance(code, int) else shown


class ChunkMarker:
    """Chunks from audio of which it is not known yet whether it ends its segment: 20 ms are kept back until it is.

    Args:
        turn_id: label of every chunk.
        sample_rate_hz: of the audio.
    """

    def __init__(self, turn_id: int, sample_rate_hz: int) -> None:
        self._turn_id = turn_id
        self._rate = sample_rate_hz
        self._held = round(_HELD_S * sample_rate_hz)
        self._piece = round(PIECE_S * sample_rate_hz)
        self._segment = 0
        self._samples: Samples = np.zeros(0, np.int16)

    def push(self, segment: int, samples: Samples) -> Iterator[AudioChunk]:
        """Chunks that are ready. `segment` never decreases."""
        if segment > self._segment:
            yield from self.finish()
            self._segment = segment
        self._samples = np.concatenate([self._samples, samples])
        while len(self._samples) > self._held:
            size = min(self._piece, len(self._samples) - self._held)
            yield self._chunk(self._samples[:size], last=False)
            self._samples = self._samples[size:]

    def finish(self) -> Iterator[AudioChunk]:
        """The end of the current segment, if any of it was heard."""
        if len(self._samples):
            yield self._chunk(self._samples, last=True)
            self._samples = self._samples[:0]

    def _chunk(self, samples: Samples, last: bool) -> AudioChunk:
        return AudioChunk(self._turn_id, self._segment, samples, self._rate, last)


class SpokenText:
    """Which segment a character that a service reports as spoken belongs to."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._segments: list[int] = []
        self._sent = 0
        self._spoken = 0

    def sent(self, segment: int, characters: int) -> None:
        """So many more characters were sent, of this segment."""
        if characters:
            self._sent += characters
            self._ends.append(self._sent)
            self._segments.append(segment)

    def cut(self, samples: Samples, rate_hz: int, starts_ms: Sequence[float]) -> Iterator[tuple[int, Samples]]:
        """`samples`, in which the next characters start at `starts_ms`, cut where a segment begins.

        Without characters everything belongs to the segment of the last one.
        """
        at, segment = 0, self._segment(max(0, self._spoken - 1))
        for start_ms in starts_ms:
            following = self._segment(self._spoken)
            self._spoken += 1
            if following != segment:
                cut = min(len(samples), max(at, round(start_ms * rate_hz / 1000)))
                if cut > at:
                    yield segment, samples[at:cut]
                at, segment = cut, following
        if at < len(samples):
            yield segment, samples[at:]

    def _segment(self, character: int) -> int:
        if not self._segments:
            return 0
        return self._segments[min(bisect_right(self._ends, character), len(self._segments) - 1)]


class Words:
    """Text held back to the end of a word: services read the pieces of a cut word as words of their own."""

    def __init__(self) -> None:
        self._held: list[tuple[int, str]] = []

    def push(self, segment: int, text: str) -> list[tuple[int, str]]:
        """Parts, by segment, that can be sent: up to the last space."""
        self._held.append((segment, text))
        return self._take() if text[-1:].isspace() else self._take_to_space(segment, text)

    def finish(self) -> list[tuple[int, str]]:
        """The rest."""
        return self._take()

    def _take_to_space(self, segment: int, text: str) -> list[tuple[int, str]]:
        space = max((at for at, character in enumerate(text) if character.isspace()), default=-1)
        if space < 0:
            return []
        self._held[-1] = (segment, text[: space + 1])
        parts = self._take()
        self._held = [(segment, text[space + 1 :])]
        return parts

    def _take(self) -> list[tuple[int, str]]:
        parts, self._held = self._held, []
        return [part for part in parts if part[1]]


class OneByOne:
    """Segments sent one at a time, each when the one before was spoken: for services that do not label their audio.

    Args:
        singles: so many go out alone; after them, all that wait go out as one under the first one's number. None: all do.
    """

    def __init__(self, singles: int | None = None) -> None:
        self.segment = 0
        """Whose audio arrives now."""
        self._singles = singles
        self._sent = 0
        self._busy = False
        self._waiting: deque[tuple[int, str]] = deque()

    @property
    def spoken(self) -> bool:
        """Nothing is being spoken and nothing waits."""
        return not (self._busy or self._waiting)

    def push(self, segment: int, text: str) -> str | None:
        """The text to send now, if any. What has no sound is dropped: its end would never be reported."""
        if speakable(text):
            self._waiting.append((segment, text))
        return self._next()

    def ended(self) -> str | None:
        """The segment was spoken to its end: the text to send now, if any."""
        self._busy = False
        return self._next()

    def _next(self) -> str | None:
        if self._busy or not self._waiting:
            return None
        self._busy = True
        self._sent += 1
        self.segment, text = self._waiting.popleft()
        together = self._singles is not None and self._sent > self._singles
        while together and self._waiting and len(text) < _LONGEST_TEXT:
            text = f"{text.rstrip()} {self._waiting.popleft()[1]}"
        return text
