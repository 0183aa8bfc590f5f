"""The inside of a process that runs a local voice: a package that blocks, hangs, or is GPL never enters the service.

Frames as in `process_frames`. One sentence is synthesised at a time, because one thread is all that the engine beside it
can spare (and espeak holds a lock anyway); the open utterances take turns sentence by sentence, so that a long reply of
one call does not keep the others silent. Nothing is logged: the texts are what callers hear.
"""

import json
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Protocol

import numpy as np

from tts_adapter.voices.process_frames import (
    AUDIO,
    FAILED,
    FORGET,
    LAST,
    READY,
    SAY,
    UNUSABLE,
    Frame,
    FrameDecoder,
)
from tts_adapter.voices.silence import Floats, ends_sentence, trim

_PIECE_MS = 100
_WARM_UP = ("Hello.", "One moment please, I will have a look at that for you.")

_LEAD_AT_ONCE_S = 0.01
_LEAD_AFTER_PAUSE_S = 0.1
_TAIL_OF_SENTENCE_S = 0.3
_TAIL_OF_CLAUSE_S = 0.08

Sentence = Any
"""Whatever the model makes of one sentence, phonemes for example."""


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """How a process runs; travels as JSON in its arguments. Subclasses add what their model needs.

    Attributes:
        threads: of onnxruntime. One leaves the other cores to the engine.
        nice: added to the process's niceness, 0 to 19.
        cpus: the cores it may use. Empty: those of the service.
        gain: constant factor on the model's level.
    """

    threads: int = 1
    nice: int = 0
    cpus: tuple[int, ...] = ()
    gain: float = 1.0

    def encode(self) -> str:
        """As one argument of the command line."""
        return json.dumps(asdict(self))


class Synthesis(Protocol):
    """A loaded model."""

    @property
    def sample_rate_hz(self) -> int:
        """Of its sound."""

    def sentences(self, text: str) -> list[Sentence]:
        """`text` in the units that are spoken at once; empty when there is nothing to say."""

    def audio(self, sentence: Sentence) -> Floats:
        """Sound of one unit: float32 in [-1, 1], shape [n]."""


@dataclass(slots=True)
class _Segment:
    number: int
    text: str
    sentences: list[Sentence] | None = None


@dataclass(slots=True)
class _Reply:
    segments: deque[_Segment] = field(default_factory=deque)
    # The pause before the next sentence is in the tail of this one, unless there is none to keep.
    trim_lead: bool = True


class Speaker:
    """The utterances in turn.

    Args:
        synthesis: the model.
        gain: constant factor on its level.
        send: writes one frame.
    """

    def __init__(self, synthesis: Synthesis, gain: float, send: Callable[[Frame], None]) -> None:
        self._synthesis = synthesis
        self._gain = gain
        self._send = send
        self._replies: dict[int, _Reply] = {}
        self._order: deque[int] = deque()

    @property
    def busy(self) -> bool:
        """Whether there is a sentence to speak."""
        return bool(self._order)

    def receive(self, frame: Frame) -> None:
        """Take one frame from the service."""
        if frame.kind == FORGET:
            self._replies.pop(frame.utterance, None)
            if frame.utterance in self._order:
                self._order.remove(frame.utterance)
        elif frame.kind == SAY:
            reply = self._replies.setdefault(frame.utterance, _Reply())
            reply.segments.append(_Segment(frame.segment, frame.payload.decode("utf-8", "replace")))
            if frame.utterance not in self._order:
                self._order.append(frame.utterance)

    def speak_sentence(self, catch_up: Callable[[], None]) -> None:
        """One sentence of the utterance whose turn it is. `catch_up` takes what came in while it was synthesised."""
        utterance = self._order.popleft()
        reply = self._replies[utterance]
        segment = reply.segments[0]
        try:
            samples, last = self._synthesize(segment, reply)
        except Exception as error:  # What espeak or the model raise ends this utterance, not the others.
            del self._replies[utterance]
            self._send(Frame(FAILED, utterance, segment.number, type(error).__name__.encode()))
            return
        if last:
            reply.segments.popleft()
        if reply.segments:
            self._order.append(utterance)
        catch_up()
        if self._replies.get(utterance) is reply:
            for frame in self._frames(utterance, segment.number, samples, last):
                self._send(frame)

    def _synthesize(self, segment: _Segment, reply: _Reply) -> tuple[Floats, bool]:
        if segment.sentences is None:
            segment.sentences = self._synthesis.sentences(segment.text)
        if not segment.sentences:
            return np.zeros(0, np.float32), True
        samples = self._synthesis.audio(segment.sentences.pop(0))
        last = not segment.sentences
        pauses = not last or ends_sentence(segment.text)
        lead_s = _LEAD_AT_ONCE_S if reply.trim_lead else _LEAD_AFTER_PAUSE_S
        reply.trim_lead = not pauses
        tail_s = _TAIL_OF_SENTENCE_S if pauses else _TAIL_OF_CLAUSE_S
        return trim(samples, self._synthesis.sample_rate_hz, lead_s=lead_s, tail_s=tail_s), last

    def _frames(self, utterance: int, segment: int, samples: Floats, last: bool) -> Iterator[Frame]:
        data = np.round(np.clip(samples * self._gain, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
        size = self._synthesis.sample_rate_hz * _PIECE_MS // 1000 * 2
        pieces = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
        for piece in pieces[:-1]:
            yield Frame(AUDIO, utterance, segment, piece)
        yield Frame(LAST if last else AUDIO, utterance, segment, pieces[-1])


def read_frames(pipe: BinaryIO, frames: "queue.Queue[Frame]") -> None:
    """Until the service closes the pipe or dies, which ends the process in the middle of whatever it is doing."""
    decoder = FrameDecoder()
    while data := os.read(pipe.fileno(), 65536):
        for frame in decoder.feed(data):
            frames.put(frame)
    os._exit(0)


def run(options: ProcessOptions, load: Callable[[], Synthesis], incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Load, report ready, and speak what is asked for."""

    def send(frame: Frame) -> None:
        outgoing.write(frame.encode())
        outgoing.flush()

    if options.cpus:
        os.sched_setaffinity(0, options.cpus)
    try:
        synthesis = load()
        for text in _WARM_UP:
            for sentence in synthesis.sentences(text):
                synthesis.audio(sentence)
    except Exception as error:  # Reported in one line; without a model there is nothing else to do here.
        send(Frame(UNUSABLE, payload=f"{type(error).__name__}: {error}".encode()))
        return
    # Not before: a busy machine would keep a nice process from ever loading.
    os.nice(options.nice)
    send(Frame(READY, payload=str(synthesis.sample_rate_hz).encode()))
    # Bounded by the service, which lets few segments of an utterance wait.
    frames: queue.Queue[Frame] = queue.Queue()
    threading.Thread(target=read_frames, args=(incoming, frames), daemon=True).start()
    speaker = Speaker(synthesis, options.gain, send)

    def catch_up() -> None:
        while not frames.empty():
            speaker.receive(frames.get())

    while True:
        if not speaker.busy:
            speaker.receive(frames.get())
        catch_up()
        if speaker.busy:
            speaker.speak_sentence(catch_up)


def serve(options: ProcessOptions, load: Callable[[], Synthesis]) -> None:
    """The whole life of a process: `load` is called once, then stdin is served until it ends."""
    # An interrupt from the terminal goes to the whole group; the service decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A library that prints must not break the frames.
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        run(options, load, sys.stdin.buffer, outgoing)
    except BrokenPipeError:
        pass


def onnx_session(path: str, threads: int) -> Any:
    """An onnxruntime session on so many threads, which do not spin while they wait."""
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    session_options.inter_op_num_threads = 1
    session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, session_options, providers=["CPUExecutionProvider"])
