"""The utterances of a speaking process in turn, piece by piece. Pure but for the model it is given.

A sentence comes as pieces, and between any two of them whoever needs sound most is served: the utterance whose audio
runs out first. So a reply that begins waits for one piece of another, never for the sentence. A reply that is far ahead
of what its caller hears waits until it no longer is: meanwhile the cores are the engine's, and what an interrupt would
throw away is not computed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tts_adapter.voices.process_frames import AUDIO, FAILED, FORGET, LAST, SAY, Frame
from tts_adapter.voices.silence import Floats, Trimmer, ends_sentence

_FRAME_MS = 100
_HELD_MS = 10
_LEAD_AT_ONCE_S = 0.01
_LEAD_AFTER_PAUSE_S = 0.1
_TAIL_OF_SENTENCE_S = 0.3
_TAIL_OF_CLAUSE_S = 0.08

Sentence = Any
"""Whatever the model makes of one sentence, phonemes for example."""


class Synthesis(Protocol):
    """A loaded model."""

    @property
    def sample_rate_hz(self) -> int:
        """Of its sound."""

    def sentences(self, text: str) -> list[Sentence]:
        """`text` in the units that are spoken at once; empty when there is nothing to say."""

    def audio(self, sentence: Sentence) -> Iterator[Floats]:
        """Sound of one unit in one or more pieces: float32 in [-1, 1], shape [n]. Each is computed when asked for."""


@dataclass(slots=True)
class _Segment:
    number: int
    text: str


@dataclass(slots=True)
class _Reply:
    """`sound_until`: when what was sent will have been played, if playing began at once; before that, when the first text
    came."""

    sound_until: float
    segments: deque[_Segment] = field(default_factory=deque)
    pieces: Iterator[Floats] | None = None
    frames: "FrameCutter | None" = None
    # The pause before the next sentence is in the tail of this one, unless there is none to keep.
    trim_lead: bool = True


class FrameCutter:
    """Cuts the sound of one segment into payloads of frames: int16, little-endian, at most 100 ms each.

    Some 10 ms wait for what follows, so that the frame that ends a segment is never without sound.
    """

    def __init__(self, sample_rate_hz: int, gain: float) -> None:
        self._size = sample_rate_hz * _FRAME_MS // 1000 * 2
        self._held = sample_rate_hz * _HELD_MS // 1000 * 2
        self._gain = gain
        self._waiting = b""

    def push(self, samples: Floats) -> list[bytes]:
        """More sound; returns the payloads that are ready."""
        levels = np.clip(samples * self._gain, -1.0, 1.0) * 32767.0
        self._waiting += np.round(levels).astype("<i2").tobytes()
        ready = max(0, len(self._waiting) - self._held)
        payloads = [self._waiting[start : min(start + self._size, ready)] for start in range(0, ready, self._size)]
        self._waiting = self._waiting[ready:]
        return payloads

    def finish(self) -> bytes:
        """The last payload; empty only where the segment has no sound at all."""
        return self._waiting


class Speaker:
    """Takes frames from the service and answers them with sound.

    Args:
        synthesis: the model.
        gain: constant factor on its level.
        ahead_s: sound that is computed ahead of what is played, at most, in whole pieces.
        send: writes one frame.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        synthesis: Synthesis,
        gain: float,
        ahead_s: float,
        send: Callable[[Frame], None],
        clock: Callable[[], float],
    ) -> None:
        self._synthesis = synthesis
        self._gain = gain
        self._ahead_s = ahead_s
        self._send = send
        self._clock = clock
        self._replies: dict[int, _Reply] = {}

    def next_due(self) -> float | None:
        """When the next piece should be computed; in the past where one is overdue, None where there is nothing to say."""
        return min((until - self._ahead_s for until, _ in self._waiting()), default=None)

    def receive(self, frame: Frame) -> None:
        """Take one frame from the service."""
        if frame.kind == FORGET:
            self._replies.pop(frame.utterance, None)
        elif frame.kind == SAY:
            reply = self._replies.setdefault(frame.utterance, _Reply(self._clock()))
            reply.segments.append(_Segment(frame.segment, frame.payload.decode("utf-8", "replace")))

    def speak_piece(self, catch_up: Callable[[], None]) -> None:
        """One piece of the utterance that needs it most. `catch_up` takes what came in while it was computed."""
        # Those without sound rank by how long they have been without; no length of a reply or a sentence counts.
        _, utterance = min(self._waiting())
        reply = self._replies[utterance]
        segment = reply.segments[0]
        try:
            samples = self._next_piece(segment, reply)
        except Exception as error:  # What espeak or the model raise ends this utterance, not the others.
            del self._replies[utterance]
            self._send(Frame(FAILED, utterance, segment.number, type(error).__name__.encode()))
            return
        catch_up()
        if self._replies.get(utterance) is reply:
            self._send_piece(utterance, reply, samples)

    def _waiting(self) -> Iterator[tuple[float, int]]:
        """When its sound runs out, and the number, of every utterance with text left."""
        return ((reply.sound_until, number) for number, reply in self._replies.items() if reply.segments)

    def _next_piece(self, segment: _Segment, reply: _Reply) -> Floats | None:
        """Sound, perhaps none of it yet; None once the segment is complete."""
        if reply.pieces is None:
            reply.pieces = self._pieces(segment, reply)
            reply.frames = FrameCutter(self._synthesis.sample_rate_hz, self._gain)
        return next(reply.pieces, None)

    def _pieces(self, segment: _Segment, reply: _Reply) -> Iterator[Floats]:
        sentences = self._synthesis.sentences(segment.text)
        for number, sentence in enumerate(sentences, start=1):
            pauses = number < len(sentences) or ends_sentence(segment.text)
            lead_s = _LEAD_AT_ONCE_S if reply.trim_lead else _LEAD_AFTER_PAUSE_S
            reply.trim_lead = not pauses
            tail_s = _TAIL_OF_SENTENCE_S if pauses else _TAIL_OF_CLAUSE_S
            trimmer = Trimmer(self._synthesis.sample_rate_hz, lead_s=lead_s, tail_s=tail_s)
            for piece in self._synthesis.audio(sentence):
                yield trimmer.push(piece)
            yield trimmer.finish()

    def _send_piece(self, utterance: int, reply: _Reply, samples: Floats | None) -> None:
        assert reply.frames is not None
        number = reply.segments[0].number
        if samples is None:
            self._send(Frame(LAST, utterance, number, reply.frames.finish()))
            reply.segments.popleft()
            reply.pieces = None
            return
        for payload in reply.frames.push(samples):
            self._send(Frame(AUDIO, utterance, number, payload))
        if len(samples):
            begin = max(reply.sound_until, self._clock())
            reply.sound_until = begin + len(samples) / self._synthesis.sample_rate_hz
