"""The inside of a process that runs a local voice: a package that blocks, hangs, or is GPL never enters the service.

Frames as in `process_frames`. One piece of sound is computed at a time, because one thread is all that the engine beside
it can spare (and espeak holds a lock anyway); which utterance it is for, `speaker` decides. Nothing is logged: the texts
are what callers hear.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import BinaryIO

from tts_adapter.voices.process_frames import READY, UNUSABLE, WAITING, Frame, FrameDecoder
from tts_adapter.voices.speaker import Speaker, Synthesis

_WARM_UP = ("Hello.", "One moment please, I will have a look at that for you.")
_SIGN_OF_LIFE_S = 0.2


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """How a process runs; travels as JSON in its arguments. Subclasses add what their model needs.

    Attributes:
        threads: of onnxruntime. One leaves the other cores to the engine.
        nice: added to the process's niceness, 0 to 19.
        cpus: the cores it may use. Empty: those of the service.
        gain: constant factor on the model's level.
        ahead_s: as in `Speaker`.
    """

    threads: int = 1
    nice: int = 0
    cpus: tuple[int, ...] = ()
    gain: float = 1.0
    ahead_s: float = 4.0

    def encode(self) -> str:
        """As one argument of the command line."""
        return json.dumps(asdict(self))


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
                for _ in synthesis.audio(sentence):
                    pass
    except Exception as error:  # Reported in one line; without a model there is nothing else to do here.
        send(Frame(UNUSABLE, payload=f"{type(error).__name__}: {error}".encode()))
        return
    # Not before: a busy machine would keep a nice process from ever loading.
    os.nice(options.nice)
    send(Frame(READY, payload=str(synthesis.sample_rate_hz).encode()))
    # Bounded by the service, which lets few segments of an utterance wait.
    frames: queue.Queue[Frame] = queue.Queue()
    threading.Thread(target=read_frames, args=(incoming, frames), daemon=True).start()
    _speak(Speaker(synthesis, options.gain, options.ahead_s, send, time.monotonic), frames, send)


def _speak(speaker: Speaker, frames: "queue.Queue[Frame]", send: Callable[[Frame], None]) -> None:
    """For ever: what came in, then the next piece when it is due."""

    def catch_up() -> None:
        while not frames.empty():
            speaker.receive(frames.get())

    while True:
        due = speaker.next_due()
        if due is None:
            speaker.receive(frames.get())
        elif (wait_s := due - time.monotonic()) <= 0.0:
            speaker.speak_piece(catch_up)
        else:
            # Whoever waits for text that was sent must see that this process has not hung.
            send(Frame(WAITING))
            with suppress(queue.Empty):
                speaker.receive(frames.get(timeout=min(_SIGN_OF_LIFE_S, wait_s)))
        catch_up()


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
