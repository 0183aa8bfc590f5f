"""An utterance for voices that speak one segment after the other: the iterating task pulls, so no task is owned here.

The voice gives a function from text to pieces of audio; order, labels, bounds and cancelling are done here once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from tts_adapter.voice import AudioChunk, Samples, VoiceError
from tts_adapter.voices.interruption import Interrupted, Interruption

Synthesize = Callable[[str], AsyncGenerator[Samples, None]]

SEGMENTS_WAITING = 64
"""Pushed texts that may wait per utterance. When full, `push` waits."""


def speakable(text: str) -> bool:
    """Whether a voice can make any sound of `text`: several services hang or fail without a letter or digit."""
    return any(character.isalnum() for character in text)


class SegmentUtterance:
    """One reply, spoken segment by segment.

    Args:
        turn_id: label of every chunk.
        sample_rate_hz: of what `synthesize` gives.
        synthesize: from text to pieces of int16 audio; closed early when the utterance is cancelled. Raises VoiceError.
    """

    def __init__(self, turn_id: int, sample_rate_hz: int, synthesize: Synthesize) -> None:
        self._turn_id = turn_id
        self._sample_rate_hz = sample_rate_hz
        self._synthesize = synthesize
        self._texts: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue(SEGMENTS_WAITING)
        self._interruption = Interruption()
        self._pushed = 0
        self._flushed = False
        self._error: VoiceError | None = None

    async def push(self, text: str) -> None:
        """As in `tts_adapter.voice.Utterance`. Text without a letter or digit takes a number and is not spoken."""
        if self._error is not None:
            raise self._error
        if self._flushed:
            raise ValueError("push after flush")
        segment, self._pushed = self._pushed, self._pushed + 1
        if not speakable(text):
            return
        try:
            await self._interruption.wait(self._texts.put((segment, text)))
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    async def flush(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        if self._flushed:
            return
        self._flushed = True
        try:
            await self._interruption.wait(self._texts.put(None))
        except Interrupted:
            pass

    async def cancel(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._interruption.set()

    async def close(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        self._interruption.set()

    async def __aiter__(self) -> AsyncGenerator[AudioChunk, None]:
        """As in `tts_adapter.voice.Utterance`."""
        try:
            while (waiting := await self._interruption.wait(self._texts.get())) is not None:
                async with aclosing(self._speak(*waiting)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        if self._interruption.is_set:
                            return
        except Interrupted:
            return
        except VoiceError as error:
            self._error = error
            self._interruption.set()
            raise

    async def _speak(self, segment: int, text: str) -> AsyncGenerator[AudioChunk, None]:
        # One piece is kept back so that the last one can be marked.
        async with aclosing(self._synthesize(text)) as pieces:
            held = await self._next(pieces)
            while held is not None:
                following = await self._next(pieces)
                yield AudioChunk(self._turn_id, segment, held, self._sample_rate_hz, last=following is None)
                held = following

    async def _next(self, pieces: AsyncGenerator[Samples, None]) -> Samples | None:
        return await self._interruption.wait(_following(pieces))


async def _following(pieces: AsyncGenerator[Samples, None]) -> Samples | None:
    while True:
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            return None
        if piece.size:
            return piece
