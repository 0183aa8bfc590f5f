"""Voices that stand in for each other: what is heard when one fails before, between and in the middle of segments."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from contract import Contract, collect, say, seconds

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.fallback import FallbackVoice, Rest
from tts_adapter.voices.tone import ToneVoice


class NoVoice(ToneVoice):
    """Cannot start until it is allowed to."""

    allowed = False

    async def start(self) -> None:
        if not self.allowed:
            raise VoiceError("no such voice")


class TestContract(Contract):
    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        yield FallbackVoice([ToneVoice(fail_after_segments=1), ToneVoice(sample_rate_hz=8_000)], rest_s=0)

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        yield FallbackVoice([ToneVoice(fail_after_segments=1), ToneVoice(fail_after_segments=0)])


class TestHealthyContract(Contract):
    """Nothing fails: the list is heard as its first voice."""

    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        yield FallbackVoice([ToneVoice(), ToneVoice()])

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        yield FallbackVoice([ToneVoice(fail_after_segments=0)] * 2)


async def heard(voice: FallbackVoice, *texts: str) -> dict[int, float]:
    await voice.start()
    chunks = await say(voice, 1, *texts)
    return {n: seconds([c for c in chunks if c.segment == n]) for n in {c.segment for c in chunks}}


@pytest.mark.parametrize("spoken", [0, 1, 2, 5])
def test_every_segment_is_heard_once(spoken: int) -> None:
    failing = ToneVoice(fail_after_segments=spoken)
    texts = ["a" * 10, "b" * 20, "c" * 30, "d" * 40]
    lengths = asyncio.run(heard(FallbackVoice([failing, ToneVoice()]), *texts))
    assert lengths == {n: pytest.approx(len(text) * 0.06) for n, text in enumerate(texts)}


def test_a_voice_of_another_rate_is_resampled() -> None:
    voice = FallbackVoice([ToneVoice(fail_after_segments=1), ToneVoice(sample_rate_hz=22_050)])

    async def scenario() -> None:
        await voice.start()
        chunks = await say(voice, 1, "a" * 10, "b" * 20)
        assert {chunk.sample_rate_hz for chunk in chunks} == {16_000}
        assert seconds([chunk for chunk in chunks if chunk.segment == 1]) == pytest.approx(1.2, abs=0.001)

    asyncio.run(scenario())


class BreakingOff(ToneVoice):
    """Fails in the middle of its first segment."""

    def open(self, turn_id: int):  # type: ignore[no-untyped-def]
        utterance = super().open(turn_id)
        tones = utterance._synthesize

        async def synthesize(text: str):  # type: ignore[no-untyped-def]
            async for piece in tones(text):
                yield piece[:-7]
                yield piece[-7:]
                raise VoiceError("broke off")

        utterance._synthesize = synthesize
        return utterance


def test_a_segment_that_breaks_off_fades_out_and_is_not_repeated() -> None:
    async def scenario() -> None:
        voice = FallbackVoice([BreakingOff(), ToneVoice()])
        await voice.start()
        chunks = await say(voice, 1, "a" * 50, "b" * 10)
        first = [chunk for chunk in chunks if chunk.segment == 0]
        assert seconds(first) < 0.2
        assert first[-1].last
        assert first[-1].samples[-1] == 0
        jumps = np.abs(np.diff(np.concatenate([chunk.samples for chunk in first]).astype(int)))
        assert jumps.max() < 2500
        assert seconds([chunk for chunk in chunks if chunk.segment == 1]) == pytest.approx(0.6)

    asyncio.run(scenario())


def test_a_failed_voice_rests_and_returns() -> None:
    rest = Rest(2, rest_s=30)
    assert rest.choose(set(), now=100) == 0
    rest.failed(0, now=100)
    assert rest.choose(set(), now=129) == 1
    assert rest.choose(set(), now=130) == 0
    assert rest.choose({0}, now=130) == 1
    assert rest.choose({0, 1}, now=130) is None


def test_when_all_rest_the_one_that_is_back_first_is_tried() -> None:
    rest = Rest(3, rest_s=30)
    for index, now in ((1, 100), (2, 105), (0, 110)):
        rest.failed(index, now)
    assert rest.choose(set(), now=111) == 1
    assert rest.choose({1}, now=111) == 2


def test_a_voice_that_cannot_start_is_started_when_it_is_needed() -> None:
    async def scenario() -> None:
        late = NoVoice()
        voice = FallbackVoice([late, ToneVoice(fail_after_segments=1)], rest_s=0)
        await voice.start()
        late.allowed = True
        chunks = await say(voice, 1, "a" * 10, "b" * 10)
        assert seconds(chunks) == pytest.approx(1.2)

    asyncio.run(scenario())


def test_no_voice_at_all_names_every_reason() -> None:
    with pytest.raises(VoiceError, match="no such voice; no such voice"):
        asyncio.run(FallbackVoice([NoVoice(), NoVoice()]).start())


def test_pushing_after_every_voice_failed_is_an_error() -> None:
    async def scenario() -> None:
        voice = FallbackVoice([ToneVoice(fail_after_segments=0)] * 2)
        await voice.start()
        utterance = voice.open(1)
        await utterance.push("Hello. ")
        with pytest.raises(VoiceError, match="every voice failed"):
            await collect(utterance)
        with pytest.raises(VoiceError, match="every voice failed"):
            await utterance.push("Hello? ")
        await utterance.close()

    asyncio.run(scenario())
