"""The real model on speech of the real voice; skipped where either is not installed."""

import asyncio
import importlib.util

import numpy as np
import pytest

from service import speech_detector
from service.barge_in import BargeInFact, BargeInOptions, FalseAlarm, SpeechEnded, SpeechStarted, SpeechSuspected
from service.protocols.events import AudioFormat
from service.speech_detector import SpeechDetector, SpeechModel, SpeechModelMissing
from tts_adapter.audio import Resampler, Samples, encode

MULAW = AudioFormat("mulaw", 8000)
WIDE = AudioFormat("pcm16", 16000)
WIDER = AudioFormat("pcm16", 24000)

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("silero_vad") is None or importlib.util.find_spec("onnxruntime") is None,
    reason="the extra vad is not installed",
)


@pytest.fixture(scope="module")
def model() -> SpeechModel:
    return SpeechModel()


@pytest.fixture(scope="module")
def speech() -> tuple[Samples, int]:
    pytest.importorskip("piper")
    from tts_adapter.voices.piper import PiperVoice

    async def speak() -> tuple[Samples, int]:
        voice = PiperVoice()
        await voice.start()
        try:
            utterance = voice.open(0)
            await utterance.push("Sorry, could you stop for a moment please, I have another question.")
            await utterance.flush()
            chunks = [chunk.samples async for chunk in utterance]
            await utterance.close()
        finally:
            await voice.stop()
        return np.concatenate(chunks), voice.sample_rate_hz

    return asyncio.run(speak())


def listen(model: SpeechModel, audio: AudioFormat, samples: Samples, from_hz: int) -> list[tuple[float, BargeInFact]]:
    """A second of silence, the samples, a second of silence, in frames of 20 ms; facts with their time."""
    sound = Resampler(from_hz, audio.sample_rate_hz).process(samples, last=True)
    quiet = np.zeros(audio.sample_rate_hz, dtype=np.int16)
    payload = encode(np.concatenate([quiet, sound, quiet]), audio.encoding)
    detector, facts = SpeechDetector(model, audio), []
    for number in range(len(payload) // audio.frame_bytes):
        frame = payload[number * audio.frame_bytes : (number + 1) * audio.frame_bytes]
        now = (number + 1) * 0.02
        facts += [(now, fact) for fact in detector.feed(frame, now)]
    return facts


@needs_model
@pytest.mark.parametrize("audio", [MULAW, WIDE, WIDER], ids=["mulaw-8k", "pcm-16k", "pcm-24k"])
def test_speech_is_heard_from_its_beginning_to_its_end(
    model: SpeechModel, speech: tuple[Samples, int], audio: AudioFormat
) -> None:
    samples, rate_hz = speech
    facts = listen(model, audio, samples, rate_hz)
    [(noticed_at, started)] = [(at, fact) for at, fact in facts if isinstance(fact, SpeechStarted)]
    [ended] = [fact for _, fact in facts if isinstance(fact, SpeechEnded)]
    assert 0.9 < started.began_at < 1.5
    assert 0.15 < noticed_at - started.began_at < 0.7
    assert abs(ended.ended_at - (1.0 + len(samples) / rate_hz)) < 0.6


@needs_model
def test_noise_and_silence_break_nothing_in(model: SpeechModel) -> None:
    noise = np.random.default_rng(5).normal(0, 2_000, 8_000).astype(np.int16)
    for samples in (noise, np.zeros(8_000, dtype=np.int16)):
        facts = [fact for _, fact in listen(model, MULAW, samples, 8000)]
        assert all(isinstance(fact, SpeechSuspected | FalseAlarm) for fact in facts)


@needs_model
def test_speech_shorter_than_the_minimum_does_not_count(model: SpeechModel, speech: tuple[Samples, int]) -> None:
    samples, rate_hz = speech
    detector = SpeechDetector(model, MULAW, BargeInOptions(min_speech_ms=5_000))
    payload = encode(Resampler(rate_hz, 8000).process(samples, last=True), "mulaw") + b"\xff" * 8000
    facts = [fact for at in range(0, len(payload), 160) for fact in detector.feed(payload[at : at + 160], at / 8000)]
    assert {type(fact) for fact in facts} == {SpeechSuspected, FalseAlarm}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(speech_detector.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SpeechModelMissing, match=r"silero-vad.*voicepace\[vad\]"):
        SpeechModel()
