"""From chunks of speech to exact frames on a drift-free schedule.

Pure: the caller passes `now`, asks `next_wakeup`, and sends what `frames_due` gives. Frame n of a run is due at
start + n * frame length, computed, not accumulated. A run begins a lead before its time: its first frames leave at once,
and the far end always holds that much. Nothing is ever sent faster than that, but for a bounded burst after the caller
was late: what it was late by beyond that burst moves the schedule, so a slow sink gets its audio later
and no backlog grows anywhere. Positions count audio alone, never the silence that fills gaps.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tts_adapter.gain import VoiceLevel
from tts_adapter.line_map import LineMap
from tts_adapter.options import PlayoutOptions

Samples = npt.NDArray[np.int16]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame to send.

    Attributes:
        samples: int16, shape [frame length], always exactly one frame.
        position: samples of the reply's audio sent once this frame has been, in total.
        silent: the frame holds no audio of the reply (it fills a gap, or fades out before one).
    """

    samples: Samples
    position: int
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reply has been played.

    Attributes:
        samples: of the reply's audio, in total, at the playout's rate.
        segment: index of the segment that is playing, -1 before any audio.
        fraction: of that segment, 0 to 1; of what is known of it while `complete` is False.
        complete: whether the whole of that segment's audio is known.
    """

    samples: int
    segment: int
    fraction: float
    complete: bool


@dataclass(slots=True)
class _Segment:
    index: int
    start: int
    length: int = 0
    complete: bool = False


class Playout:
    """One reply.

    Args:
        sample_rate_hz: of everything pushed and sent; a whole number of samples per frame.
        options: watermarks, bounds, gain.
        frame_ms: length of a frame.
        level: of the voice, by which the reply's one gain is chosen; it learns from this reply. None: of this reply alone.

    Raises:
        ValueError: a frame would not be a whole number of samples.
    """

    def __init__(
        self,
        sample_rate_hz: int,
        options: PlayoutOptions | None = None,
        frame_ms: int = 20,
        level: VoiceLevel | None = None,
    ) -> None:
        if sample_rate_hz * frame_ms % 1000:
            raise ValueError(f"sample_rate_hz: {frame_ms} ms at {sample_rate_hz} Hz is not a whole number of samples")
        self.options = options or PlayoutOptions()
        self.sample_rate_hz = sample_rate_hz
        self.frame_samples = sample_rate_hz * frame_ms // 1000
        self._frame_s = frame_ms / 1000
        self._fade_samples = int(self.options.fade_ms * sample_rate_hz / 1000)
        self._chunks: deque[tuple[bool, Samples]] = deque()
        self._buffered = 0
        self._segments: list[_Segment] = []
        self._sent = 0
        self._voice_level = level or VoiceLevel()
        self._gain: float | None = None
        self._origin: float | None = None
        self._frames = 0
        self._finished = False
        self._stopped = False
        self._dry_since: float | None = None
        self._underruns: list[float] = []
        self._level = 0.0
        self._sounding = False
        self._line = LineMap()
        self._ramp: _Floats = np.zeros(0)
        self._fade: Samples | None = None

    # In

    def push(self, samples: Samples, segment: int, last: bool, now: float) -> None:
        """Audio of `segment` (from 0, never decreasing) has come; `last` where the segment is complete with it.

        Nothing is dropped: whoever feeds this asks `has_room` first.
        """
        if self._stopped or self._finished:
            return
        new = not self._segments or self._segments[-1].index != segment
        if new:
            if self._segments:
                self._segments[-1].complete = True
            self._segments.append(_Segment(segment, self._sent + self._buffered))
        current = self._segments[-1]
        current.length += len(samples)
        current.complete = current.complete or last
        if len(samples):
            self._chunks.append((new or current.length == len(samples), samples))
            self._buffered += len(samples)
            self._voice_level.hear(samples)
        self._maybe_start(now)

    def finish(self, now: float) -> None:
        """No more audio will come: what is left is played out, the last frame filled with silence."""
        self._finished = True
        if self._segments:
            self._segments[-1].complete = True
        self._maybe_start(now)

    # Out

    def next_wakeup(self) -> float | None:
        """When `frames_due` will have something, or None while it depends on more audio."""
        if self._stopped or self._origin is None or self.done:
            return None
        return self._due()

    def frames_due(self, now: float) -> list[Frame]:
        """Every frame due by `now`, at most `max_burst_frames` (and the lead); beyond that the schedule moves."""
        frames: list[Frame] = []
        limit = self.options.max_burst_frames + round(self.options.lead_ms / 1000 / self._frame_s)
        while not self._stopped and self._origin is not None and self._due() <= now and not self.done:
            if len(frames) == limit:
                self._restart_schedule(now + self._frame_s)
                break
            frame = self._next_frame()
            if frame is None:
                break
            frames.append(frame)
            self._line.add(self.frame_samples, frame.position)
            self._frames += 1
        return frames

    def interrupt(self, now: float) -> Position:
        """Stop at once and drop what was not sent. Returns how far the reply was sent; safe to repeat."""
        if not self._stopped:
            self._end_underrun(now)
            self._fade = self._fade_out()
            self._stopped = True
            self._chunks.clear()
            self._buffered = 0
        return self.position_at(self._sent)

    # State

    @property
    def fade_frame(self) -> Samples | None:
        """After `interrupt`: one frame that fades the sound out, for a sink that does not clear its buffer; None where
        nothing was sounding."""
        return self._fade

    @property
    def done(self) -> bool:
        """Everything has been sent, or the reply was interrupted."""
        return self._stopped or (self._finished and not self._buffered)

    @property
    def has_room(self) -> bool:
        """False while `max_buffered_s` of audio is waiting: whoever feeds this waits too."""
        return self.buffered_s < self.options.max_buffered_s

    @property
    def buffered_s(self) -> float:
        """Audio waiting to be sent."""
        return self._buffered / self.sample_rate_hz

    @property
    def position(self) -> Position:
        """What has been sent so far."""
        return self.position_at(self._sent)

    @property
    def underruns_s(self) -> tuple[float, ...]:
        """Length of every gap within the reply for want of audio."""
        return tuple(self._underruns)

    def position_at(self, samples: int) -> Position:
        """Where in the segments the first `samples` samples of the reply's audio end."""
        samples = max(0, min(samples, self._sent))
        for segment in reversed(self._segments):
            if segment.start < samples:
                fraction = (samples - segment.start) / segment.length
                return Position(samples, segment.index, min(1.0, fraction), segment.complete)
        return Position(samples, -1, 0.0, False)

    def position_after(self, played_s: float) -> Position:
        """The same for the first `played_s` seconds of what was sent, silence included, rounded down."""
        return self.position_at(self._line.audio_at(int(max(0.0, played_s) * self.sample_rate_hz)))

    # Schedule

    def _due(self) -> float:
        assert self._origin is not None
        return self._origin + self._frames * self._frame_s

    def _restart_schedule(self, first_due: float) -> None:
        self._origin = first_due
        self._frames = 0

    def _maybe_start(self, now: float) -> None:
        """Begin, or resume after an underrun, once enough audio is there."""
        if not self._buffered or self._stopped:
            return
        dry = self._dry_since is not None
        if self._origin is not None and not dry:
            return
        watermark_ms = self.options.rebuffer_watermark_ms if dry else self.options.start_watermark_ms
        complete = self._finished or self._segments[-1].complete
        if not complete and self._buffered < watermark_ms / 1000 * self.sample_rate_hz:
            return
        if self._origin is None:
            self._restart_schedule(now - self.options.lead_ms / 1000)
        self._end_underrun(self._due())

    def _end_underrun(self, now: float) -> None:
        if self._dry_since is not None:
            self._underruns.append(max(0.0, now - self._dry_since))
            self._dry_since = None

    # Frames

    def _next_frame(self) -> Frame | None:
        if self._dry_since is None and self._has_frame():
            return Frame(self._take_frame(), self._sent)
        if self._dry_since is None:
            self._dry_since = self._due()
            if self._sounding:
                return Frame(self._fade_out_level(), self._sent, silent=True)
        if self.options.silence_between_segments:
            return Frame(np.zeros(self.frame_samples, np.int16), self._sent, silent=True)
        self._origin = None
        return None

    def _has_frame(self) -> bool:
        """A whole frame, or the rest of what is known to end there."""
        ends = self._finished or (bool(self._segments) and self._segments[-1].complete)
        return self._buffered >= self.frame_samples or (ends and self._buffered > 0)

    def _take_frame(self) -> Samples:
        frame = np.zeros(self.frame_samples)
        if self._gain is None:
            self._gain = self._voice_level.gain(self.options.target_level_dbfs, self.options.max_gain_db)
        filled = 0
        while filled < self.frame_samples and self._chunks:
            starts, chunk = self._chunks.popleft()
            part = chunk[: self.frame_samples - filled]
            if len(part) < len(chunk):
                self._chunks.appendleft((False, chunk[len(part) :]))
            frame[filled : filled + len(part)] = self._joined(part * self._gain, starts or not self._sounding)
            filled += len(part)
            self._level = float(frame[filled - 1])
            self._sounding = True
        self._buffered -= filled
        self._sent += filled
        if filled < self.frame_samples:
            frame[filled:] = self._decay(self.frame_samples - filled)
            self._level, self._sounding = 0.0, False
        return _to_int16(frame)

    def _joined(self, part: npt.NDArray[Any], joint: bool) -> npt.NDArray[Any]:
        """`part` without a step at its start: the difference to what was sent before it fades away."""
        if joint and self._fade_samples:
            self._ramp = (self._level - part[0]) * np.linspace(1.0, 0.0, self._fade_samples, endpoint=False)
        length = min(len(part), len(self._ramp))
        if length:
            part = part.copy()
            part[:length] += self._ramp[:length]
            self._ramp = self._ramp[length:]
        return part

    def _decay(self, length: int) -> _Floats:
        """From the last level to silence."""
        curve = np.zeros(length)
        fade = min(length, self._fade_samples)
        if fade:
            curve[:fade] = self._level * np.linspace(1.0, 0.0, fade + 1)[1:]
        return curve

    def _fade_out_level(self) -> Samples:
        frame = self._decay(self.frame_samples)
        self._level, self._sounding = 0.0, False
        return _to_int16(frame)

    def _fade_out(self) -> Samples | None:
        """The next audio, faded out, or the decay of the last level where there is none."""
        if not self._sounding:
            return None
        fade = min(self._fade_samples, self._buffered, self.frame_samples)
        if not fade:
            return self._fade_out_level()
        ahead = np.concatenate([chunk for _, chunk in self._chunks])[:fade] * (self._gain or 1.0)
        frame = np.zeros(self.frame_samples)
        frame[:fade] = ahead * np.linspace(1.0, 0.0, fade + 1)[1:]
        return _to_int16(frame)


def _to_int16(values: _Floats) -> Samples:
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)
