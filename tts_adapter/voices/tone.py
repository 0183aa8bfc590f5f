"""A tone instead of speech, for tests and load tests: as long as the text, ready at once or after a set delay."""

import asyncio
from collections.abc import AsyncGenerator
from weakref import WeakSet

import numpy as np

from tts_adapter.voice import Samples, VoiceError
from tts_adapter.voices.segments import SegmentUtterance

_PIECE_MS = 100
_FREQUENCY_HZ = 440.0
_AMPLITUDE = 8000
_FADE_MS = 5


class ToneVoice:
    """One tone per segment.

    Args:
        sample_rate_hz: of every chunk.
        ms_per_character: length of the tone; 60 ms is the pace of speech (about 1000 characters a minute).
        delay_s: wait before the first piece of every segment, as if synthesis took that long.
        accepts_tokens: which way it is fed.
        fail_after_segments: fail once that many segments were spoken in an utterance. None: never.
    """

    name = "tone"

    def __init__(
        self,
        *,
        sample_rate_hz: int = 16_000,
        ms_per_character: float = 60.0,
        delay_s: float = 0.0,
        accepts_tokens: bool = False,
        fail_after_segments: int | None = None,
    ) -> None:
        self.sample_rate_hz = sample_rate_hz
        self.accepts_tokens = accepts_tokens
        self._ms_per_character = ms_per_character
        self._delay_s = delay_s
        self._fail_after_segments = fail_after_segments
        self._utterances: WeakSet[SegmentUtterance] = WeakSet()
        self._wave = self._sine(
            0, 10 * sample_rate_hz
        )  # made once: load tests ask for the same seconds again and again

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """As in `tts_adapter.voice.Voice`."""
        for utterance in set(self._utterances):
            await utterance.cancel()

    def open(self, turn_id: int) -> SegmentUtterance:
        """As in `tts_adapter.voice.Voice`."""
        spoken = 0

        async def synthesize(text: str) -> AsyncGenerator[Samples, None]:
            nonlocal spoken
            if spoken == self._fail_after_segments:
                raise VoiceError("tone voice: failed as configured")
            spoken += 1
            await asyncio.sleep(self._delay_s)
            for piece in pieces(self.tone(len(text)), self.sample_rate_hz):
                yield piece

        utterance = SegmentUtterance(turn_id, self.sample_rate_hz, synthesize)
        self._utterances.add(utterance)
        return utterance

    def tone(self, characters: int) -> Samples:
        """The sound of a text of that many characters: int16, shape [n]."""
        length = round(characters * self._ms_per_character * self.sample_rate_hz / 1000)
        if length > len(self._wave):
            self._wave = np.concatenate((self._wave, self._sine(len(self._wave), 2 * length)))
        tone = self._wave[:length].copy()
        fade = np.linspace(0.0, 1.0, min(length, max(1, self.sample_rate_hz * _FADE_MS // 1000)), endpoint=False)
        tone[: len(fade)] = tone[: len(fade)] * fade
        tone[length - len(fade) :] = tone[length - len(fade) :] * fade[::-1]
        return tone

    def _sine(self, start: int, stop: int) -> Samples:
        at = np.arange(start, stop)
        wave: Samples = (_AMPLITUDE * np.sin(2 * np.pi * _FREQUENCY_HZ * at / self.sample_rate_hz)).astype(np.int16)
        return wave


def pieces(samples: Samples, sample_rate_hz: int) -> list[Samples]:
    """`samples` cut into pieces of 100 ms, the last one shorter: what a cancel or a player need not wait for."""
    size = sample_rate_hz * _PIECE_MS // 1000
    return [samples[start : start + size] for start in range(0, len(samples), size)]
