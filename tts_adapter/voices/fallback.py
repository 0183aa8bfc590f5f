"""A list of voices that stand in for each other, heard as one.

When the voice that speaks fails, the next one takes over within the reply. Segments of which nothing was yielded are
pushed to it again; a segment that broke off is faded out and not repeated. A failed voice is passed over for a while.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from weakref import WeakSet

import numpy as np

from tts_adapter.audio import Resampler
from tts_adapter.voice import AudioChunk, Samples, Utterance, Voice, VoiceError
from tts_adapter.voices.interruption import Interrupted, Interruption
from tts_adapter.voices.segments import speakable

SEGMENTS_UNSPOKEN = 8
"""Pushed segments without any audio yet, per utterance. When full, `push` waits. No more than a fresh utterance of any
clause voice takes at once, so that pushing them again never waits."""

_TOKENS_UNSPOKEN = 4096
_FADE_S = 0.01


class Rest:
    """Which voices are passed over, and until when. Pure.

    Args:
        count: number of voices, numbered in the order of preference.
        rest_s: how long a voice that failed is passed over.
    """

    def __init__(self, count: int, rest_s: float) -> None:
        self._until = [float("-inf")] * count
        self._rest_s = rest_s

    def failed(self, index: int, now: float) -> None:
        """Voice `index` has just failed."""
        self._until[index] = now + self._rest_s

    def choose(self, tried: set[int], now: float) -> int | None:
        """The first voice that neither was tried in this reply nor rests; else, of those not tried, the one whose rest
        ends first. None when all were tried."""
        left = [index for index in range(len(self._until)) if index not in tried]
        awake = [index for index in left if self._until[index] <= now]
        if awake:
            return awake[0]
        return min(left, key=lambda index: self._until[index], default=None)


class FallbackVoice:
    """`voices` in order of preference. Chunks have the rate of the first; others are resampled to it.

    Args:
        voices: at least one.
        rest_s: how long a voice that failed is passed over.
    """

    def __init__(self, voices: Sequence[Voice], *, rest_s: float = 30.0) -> None:
        self.name = ",".join(voice.name for voice in voices)
        self.voices = tuple(voices)
        self._utterances: WeakSet[FallbackUtterance] = WeakSet()
        self._rest = Rest(len(self.voices), rest_s)
        self._started: set[int] = set()
        self._sample_rate_hz: int | None = None

    @property
    def sample_rate_hz(self) -> int:
        """Of the first voice that started; known after `start`."""
        if self._sample_rate_hz is None:
            raise VoiceError("fallback: not started")
        return self._sample_rate_hz

    @property
    def accepts_tokens(self) -> bool:
        """Whether all voices do: whole segments suit every voice, tokens do not."""
        return all(voice.accepts_tokens for voice in self.voices)

    async def start(self) -> None:
        """Start every voice. One that cannot start rests and is tried again when it is needed.

        Raises:
            VoiceError: none could start.
        """
        errors = []
        for index in range(len(self.voices)):
            try:
                await self.started(index)
            except VoiceError as error:
                errors.append(str(error))
                self.failed(index)
        if not self._started:
            raise VoiceError("; ".join(errors))
        self._sample_rate_hz = self.voices[min(self._started)].sample_rate_hz

    def open(self, turn_id: int) -> "FallbackUtterance":
        """As in `tts_adapter.voice.Voice`."""
        utterance = FallbackUtterance(self, turn_id)
        self._utterances.add(utterance)
        return utterance

    async def stop(self) -> None:
        """As in `tts_adapter.voice.Voice`."""
        self._started.clear()
        for utterance in set(self._utterances):
            await utterance.cancel()
        for voice in self.voices:
            await voice.stop()

    async def started(self, index: int) -> Voice:
        """Voice `index`, ready to speak.

        Raises:
            VoiceError: it cannot start.
        """
        voice = self.voices[index]
        if index not in self._started:
            await voice.start()
            self._started.add(index)
        return voice

    def choose(self, tried: set[int]) -> int | None:
        """As `Rest.choose`, now."""
        return self._rest.choose(tried, asyncio.get_running_loop().time())

    def failed(self, index: int) -> None:
        """As `Rest.failed`, now."""
        self._rest.failed(index, asyncio.get_running_loop().time())


class FallbackUtterance:
    """One reply by the voices of `voice`."""

    def __init__(self, voice: FallbackVoice, turn_id: int) -> None:
        self._voice = voice
        self._turn_id = turn_id
        self._interruption = Interruption()
        self._room = asyncio.Semaphore(_TOKENS_UNSPOKEN if voice.accepts_tokens else SEGMENTS_UNSPOKEN)
        self._switching = asyncio.Lock()
        self._inner: Utterance | None = None
        self._chosen = -1
        self._tried: set[int] = set()
        # Numbers of the segments pushed to the current voice, in its order, and the texts nobody has begun to speak.
        self._numbers: list[int] = []
        self._unspoken: deque[tuple[int, str]] = deque()
        self._unfinished: AudioChunk | None = None
        self._pushed = 0
        self._flushed = False
        self._reason = ""
        self._error: VoiceError | None = None

    async def push(self, text: str) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        if self._flushed:
            raise ValueError("push after flush")
        number, self._pushed = self._pushed, self._pushed + 1
        if not (self._voice.accepts_tokens or speakable(text)):
            return
        try:
            await self._interruption.wait(self._push(number, text))
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    async def flush(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._flushed = True
        try:
            await self._interruption.wait(self._flush())
        except Interrupted:
            pass

    async def cancel(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._interruption.set()
        if self._inner is not None:
            await self._inner.cancel()

    async def close(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._interruption.set()
        if self._inner is not None:
            await self._inner.close()

    async def __aiter__(self) -> AsyncGenerator[AudioChunk, None]:
        """As in `tts_adapter.voice.Utterance`."""
        try:
            while True:
                inner = await self._interruption.wait(self._current())
                try:
                    async with aclosing(self._chunks(inner)) as chunks:
                        async for chunk in chunks:
                            if self._interruption.is_set:
                                return
                            yield chunk
                    return
                except VoiceError as error:
                    broken_off = self._broken_off()
                    if broken_off is not None:
                        yield broken_off
                    await self._interruption.wait(self._give_up(error))
        except Interrupted:
            if self._error is not None:
                raise self._error from None
        except VoiceError as error:
            self._error = error
            self._interruption.set()
            raise

    async def _push(self, number: int, text: str) -> None:
        await self._room.acquire()
        async with self._switching:
            self._unspoken.append((number, text))
            if self._inner is not None:
                await self._forward(self._inner, number, text)

    async def _flush(self) -> None:
        async with self._switching:
            if self._inner is not None:
                await self._inner.flush()

    async def _forward(self, inner: Utterance, number: int, text: str) -> None:
        self._numbers.append(number)
        try:
            await inner.push(text)
        except VoiceError:
            pass  # The iteration meets the same error and hands the text to the next voice.

    async def _current(self) -> Utterance:
        """The utterance of the voice that speaks now, which has been given what is still to be said."""
        async with self._switching:
            while self._inner is None:
                chosen = self._voice.choose(self._tried)
                if chosen is None:
                    raise VoiceError(f"every voice failed, the last one with: {self._reason}")
                self._chosen = chosen
                self._tried.add(chosen)
                try:
                    voice = await self._voice.started(chosen)
                except VoiceError as error:
                    self._reason = str(error)
                    self._voice.failed(chosen)
                    continue
                await self._begin(voice)
            return self._inner

    async def _begin(self, voice: Voice) -> None:
        inner = voice.open(self._turn_id)
        self._inner = inner
        self._numbers = []
        self._resampler = Resampler(voice.sample_rate_hz, self._voice.sample_rate_hz)
        for number, text in self._unspoken:
            await self._forward(inner, number, text)
        if self._flushed:
            await inner.flush()

    async def _give_up(self, error: VoiceError) -> None:
        async with self._switching:
            failed, self._inner = self._inner, None
            self._reason = str(error)
            self._voice.failed(self._chosen)
            if failed is not None:
                await failed.close()

    async def _chunks(self, inner: Utterance) -> AsyncGenerator[AudioChunk, None]:
        async for chunk in inner:
            number = self._numbers[chunk.segment]
            while self._unspoken and self._unspoken[0][0] <= number:
                self._unspoken.popleft()
                self._room.release()
            samples = self._resampler.process(chunk.samples, chunk.last)
            if len(samples) or chunk.last:
                sounding = AudioChunk(self._turn_id, number, samples, self._voice.sample_rate_hz, chunk.last)
                self._unfinished = None if chunk.last else sounding
                yield sounding

    def _broken_off(self) -> AudioChunk | None:
        """The end of a segment that the voice will not finish: from its last sample to zero without a click."""
        if self._unfinished is None:
            return None
        number, level = self._unfinished.segment, self._unfinished.samples[-1]
        self._unfinished = None
        rate = self._voice.sample_rate_hz
        fade: Samples = np.linspace(level, 0, round(_FADE_S * rate)).astype(np.int16)
        return AudioChunk(self._turn_id, number, fade, rate, last=True)
