"""The tone voice keeps the contract, and its length follows the text."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from contract import Contract, say, seconds

from tts_adapter.voice import Voice
from tts_adapter.voices.tone import ToneVoice


class TestContract(Contract):
    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        yield ToneVoice()

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        yield ToneVoice(fail_after_segments=1)


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_the_length_is_proportional_to_the_text(rate: int) -> None:
    voice = ToneVoice(sample_rate_hz=rate, ms_per_character=50)
    chunks = asyncio.run(say(voice, 1, "a" * 10, "a" * 30))
    assert seconds(chunks) == pytest.approx(2.0)
    assert seconds([chunk for chunk in chunks if chunk.segment == 1]) == pytest.approx(1.5)


def test_a_tone_starts_and_ends_at_zero() -> None:
    tone = ToneVoice().tone(20)
    assert tone[0] == tone[-1] == 0
    assert np.abs(tone).max() > 7000
