"""Voices that run on this machine, each in a process of its own.

The process is fed over pipes (`process_frames`) and answers to callbacks of the event loop (`process_child`), so no task
is owned here. When it dies, the utterances it was speaking fail at once and it is started again as soon as one of them
is closed, or by the next text. When it hangs, it is killed.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

import numpy as np

from tts_adapter.voice import AudioChunk, VoiceError
from tts_adapter.voices import process_frames
from tts_adapter.voices.interruption import Interrupted, Interruption
from tts_adapter.voices.process_child import ProcessChild
from tts_adapter.voices.process_frames import Frame
from tts_adapter.voices.segments import speakable
from tts_adapter.voices.speaking_process import ProcessOptions

SEGMENTS_AHEAD = 8
"""Segments of an utterance that are pushed and not yet yielded to the end. When as many wait, `push` waits too: this
bounds the texts in the process and the audio held here."""

_LOAD_LIMIT_S = 60.0
_EXIT_LIMIT_S = 2.0


class ProcessVoice(ABC):
    """Speech of a local model, int16, at the model's rate.

    Args:
        name: as in the settings.
        module: what the process runs.
        stall_s: with text waiting and nothing heard from the process for as long, it is killed and started again.
    """

    accepts_tokens = False

    def __init__(self, name: str, module: str, stall_s: float) -> None:
        self.name = name
        self.stall_s = stall_s
        self._module = module
        self._options: ProcessOptions | None = None
        self._sample_rate_hz: int | None = None
        self._utterances: dict[int, ProcessUtterance] = {}
        self._opened = 0
        self._child: ProcessChild | None = None
        self._starting = asyncio.Lock()

    @abstractmethod
    def prepare(self) -> ProcessOptions:
        """What the process is started with.

        Raises:
            VoiceError: a package or a file is missing.
        """

    @property
    def sample_rate_hz(self) -> int:
        """Of the model; known after `start`."""
        if self._sample_rate_hz is None:
            raise VoiceError(f"{self.name}: not started")
        return self._sample_rate_hz

    @property
    def process_id(self) -> int | None:
        """Of the running process."""
        return self._child.process_id if self._child is not None else None

    async def start(self) -> None:
        """Run the process and wait until it has loaded the model and spoken once.

        Raises:
            VoiceError: naming what is missing.
        """
        self._options = self.prepare()
        try:
            child = await self._running()
            async with asyncio.timeout(_LOAD_LIMIT_S):
                self._sample_rate_hz = await asyncio.shield(child.ready)
        except TimeoutError:
            await self.stop()
            raise VoiceError(f"{self.name}: not loaded within {_LOAD_LIMIT_S:.0f} s") from None
        except VoiceError as error:
            await self.stop()
            raise VoiceError(f"{self.name}: {error}") from None
        except BaseException:
            await self.stop()
            raise

    def open(self, turn_id: int) -> "ProcessUtterance":
        """As in `tts_adapter.voice.Voice`."""
        self._opened += 1
        utterance = ProcessUtterance(self, self._opened, turn_id)
        self._utterances[self._opened] = utterance
        return utterance

    async def stop(self) -> None:
        """As in `tts_adapter.voice.Voice`."""
        self._options = None
        for utterance in list(self._utterances.values()):
            await utterance.cancel()
        if self._child is not None:
            await self._child.end(_EXIT_LIMIT_S)
            self._child = None

    async def say(self, number: int, segment: int, text: str) -> None:
        """Send a segment of an utterance to the process, which is started if it does not run.

        Raises:
            VoiceError: it cannot be started.
        """
        child = await self._running()
        child.send(Frame(process_frames.SAY, number, segment, self.plain(text).encode("utf-8", "replace")))

    def plain(self, text: str) -> str:
        """`text` without what the model would take as something else than words."""
        return text.replace("\0", " ")

    def forget(self, number: int) -> None:
        """Drop an utterance here and in the process. Safe to repeat."""
        if self._utterances.pop(number, None) is not None and self._child is not None:
            self._child.send(Frame(process_frames.FORGET, number))

    async def restart(self) -> None:
        """Start the process if it has died; loading goes on in the background."""
        if self._options is not None:
            await self._running()

    def end_if_stalled(self) -> None:
        """Kill a process that has loaded and been silent for `stall_s` while an utterance waits for it."""
        child = self._child
        if child is not None:
            limit_s = self.stall_s if child.ready.done() else _LOAD_LIMIT_S
            if asyncio.get_running_loop().time() - child.heard_at >= limit_s:
                child.kill(f"nothing heard from the process for {limit_s:g} s")

    async def _running(self) -> ProcessChild:
        async with self._starting:
            if self._options is None:
                raise VoiceError(f"{self.name}: not started")
            if self._child is None:
                self._child = await ProcessChild.spawn(self._module, self._options.encode(), self._receive, self._died)
            return self._child

    def _receive(self, frame: Frame) -> None:
        utterance = self._utterances.get(frame.utterance)
        if utterance is not None:
            utterance.receive(frame)

    def _died(self, child: ProcessChild, reason: str) -> None:
        if self._child is child:
            self._child = None
        for utterance in list(self._utterances.values()):
            utterance.process_died(VoiceError(f"{self.name}: {reason}"))


class ProcessUtterance:
    """One reply, spoken by the process of `voice` under `number`."""

    def __init__(self, voice: ProcessVoice, number: int, turn_id: int) -> None:
        self._voice = voice
        self._number = number
        self._turn_id = turn_id
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._room = asyncio.Semaphore(SEGMENTS_AHEAD)
        self._interruption = Interruption()
        self._pushed = 0
        self._unanswered = 0
        self._flushed = False
        self._error: VoiceError | None = None

    async def push(self, text: str) -> None:
        """As in `tts_adapter.voice.Utterance`. Text without a letter or digit takes a number and is not spoken."""
        if self._flushed:
            raise ValueError("push after flush")
        segment, self._pushed = self._pushed, self._pushed + 1
        if not speakable(text):
            return
        try:
            await self._interruption.wait(self._room.acquire())
            self._unanswered += 1
            await self._interruption.wait(self._voice.say(self._number, segment, text))
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    async def flush(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._flushed = True
        self._frames.put_nowait(_NUDGE)

    async def cancel(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._interruption.set()
        self._voice.forget(self._number)

    async def close(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        await self.cancel()
        if self._error is not None:
            await self._voice.restart()

    async def __aiter__(self) -> AsyncGenerator[AudioChunk, None]:
        """As in `tts_adapter.voice.Utterance`."""
        try:
            while not (self._flushed and self._unanswered == 0 and self._frames.empty()):
                frame = await self._interruption.wait(self._next_frame())
                if frame.payload:
                    yield self._chunk(frame)
                if frame.kind == process_frames.LAST:
                    self._room.release()
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    def receive(self, frame: Frame) -> None:
        """Take a frame that the process sent about this utterance."""
        if frame.kind == process_frames.FAILED:
            self._fail(VoiceError(f"{self._voice.name}: synthesis failed ({frame.payload.decode()})"))
            return
        if frame.kind == process_frames.LAST:
            self._unanswered -= 1
        self._frames.put_nowait(frame)

    def process_died(self, error: VoiceError) -> None:
        """Fail, unless the process owed nothing."""
        if self._unanswered:
            self._fail(error)

    def _fail(self, error: VoiceError) -> None:
        if not self._interruption.is_set:
            self._error = error
            self._interruption.set()

    async def _next_frame(self) -> Frame:
        while True:
            try:
                async with asyncio.timeout(self._voice.stall_s):
                    return await self._frames.get()
            except TimeoutError:
                if self._unanswered:
                    self._voice.end_if_stalled()

    def _chunk(self, frame: Frame) -> AudioChunk:
        samples = np.frombuffer(frame.payload, dtype="<i2").astype(np.int16)
        last = frame.kind == process_frames.LAST
        return AudioChunk(self._turn_id, frame.segment, samples, self._voice.sample_rate_hz, last)


_NUDGE = Frame(b"_")
"""Lets a waiting iteration see that the utterance was flushed."""
