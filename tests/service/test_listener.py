"""A caller's voice against a running call: real sockets, the real detector where it is installed, and a scripted one."""

import asyncio
import importlib.util
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect

from engine.fake import Script, ScriptedEngine
from service.barge_in import BargeIn, BargeInFact, BargeInOptions, FalseAlarm, SpeechStarted, SpeechSuspected
from service.bridges.bridge import AudioArrived, Cleared
from service.bridges.media_stream import MediaStreamBridge
from service.listener import MAX_BACKLOG_S, Listener
from service.protocols.events import AudioFormat
from service.settings import SettingsError, load_settings
from tests.service.running import Running, running_service
from tests.service.test_bridge_sockets import Line
from tts_adapter.audio import Resampler, Samples, encode
from tts_adapter.voices.tone import ToneVoice

MULAW = AudioFormat("mulaw", 8000)
FRAME = b"\xff" * 160
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("silero_vad") is None or importlib.util.find_spec("onnxruntime") is None,
    reason="the extra vad is not installed",
)


class ScriptedDetector:
    """Takes each frame for speech that begins with a zero byte; remembers the threads it ran in and what it was fed."""

    def __init__(self, takes_s: float = 0.0, **options: float) -> None:
        self.barge_in = BargeIn(BargeInOptions.model_validate(options))
        self.fed = 0
        self.most_at_once = 0
        self.threads: set[int] = set()
        self._takes_s = takes_s
        self._busy = 0

    def feed(self, payload: bytes, now: float) -> list[BargeInFact]:
        self._busy += 1
        self.most_at_once = max(self.most_at_once, self._busy)
        self.threads.add(threading.get_ident())
        time.sleep(self._takes_s)
        self.fed += len(payload)
        frames = [payload[at : at + 160] for at in range(0, len(payload), 160)]
        facts: list[BargeInFact] = []
        for number, frame in enumerate(frames, 1):
            at = now - (len(frames) - number) * 0.02
            facts += self.barge_in.hear(1.0 if frame[0] == 0 else 0.0, 20.0, at)
        self._busy -= 1
        return facts


async def facts_of(detector: ScriptedDetector, *payloads: bytes, done: int) -> list[BargeInFact]:
    """What is heard in `payloads`, up to so many facts."""
    facts: list[BargeInFact] = []
    enough = asyncio.Event()

    async def act(fact: BargeInFact) -> None:
        facts.append(fact)
        if len(facts) == done:
            enough.set()

    listener = Listener(detector, MULAW, act)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(listener.run())
        for payload in payloads:
            listener.hear(payload)
        async with asyncio.timeout(10):
            await enough.wait()
        running.cancel()
    return facts


def test_speech_is_found_in_a_worker_thread() -> None:
    detector = ScriptedDetector()
    facts = asyncio.run(facts_of(detector, *[b"\x00" * 160] * 12, done=2))
    assert [type(fact) for fact in facts] == [SpeechSuspected, SpeechStarted]
    assert threading.get_ident() not in detector.threads


def test_a_bridge_that_stops_sending_leaves_no_reply_held() -> None:
    facts = asyncio.run(facts_of(ScriptedDetector(), b"\x00" * 320, done=2))
    assert [type(fact) for fact in facts] == [SpeechSuspected, FalseAlarm]


def test_a_detector_that_cannot_keep_up_loses_the_oldest_audio_and_runs_once_at_a_time() -> None:
    detector = ScriptedDetector(takes_s=0.05)
    ten_seconds = [FRAME] * 498 + [b"\x00" * 320] * 1
    asyncio.run(facts_of(detector, *ten_seconds, done=1))
    assert detector.fed <= (MAX_BACKLOG_S + 1) * 8000
    assert detector.most_at_once == 1


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    settings = load_settings(
        {"scripted.enabled": "true", "listen.vad": "true", "listen.no_words_ms": "600"}, environ={}
    )
    engine = ScriptedEngine("We open at nine. " * 30, Script(first_token_s=0.02, step_time_s=0.015))
    with running_service(settings, engine, ToneVoice()) as running:
        yield running


@pytest.fixture(scope="module")
def caller_voice() -> Samples:
    """A sentence at 8 kHz."""
    pytest.importorskip("piper")
    from tts_adapter.voices.piper import PiperVoice

    async def speak() -> Samples:
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
        return Resampler(voice.sample_rate_hz, 8000).process(np.concatenate(chunks), last=True)

    return asyncio.run(speak())


async def speak(line: Line, samples: Samples) -> None:
    """Say it into the call, in real time; stops once the bridge has been cleared."""
    payload = encode(samples, "mulaw")
    now = asyncio.get_running_loop().time
    for at in range(0, len(payload) - 160, 160):
        due = now() + 0.02
        await line.send(line.bridge.caller_audio(payload[at : at + 160], now()))
        if line.count(Cleared):
            return
        await line.listen(due)


def hold(service: Running, call_id: str, talk: Any) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/media/twilio", ping_interval=None) as socket:
            line = Line(MediaStreamBridge("twilio", call_id), socket, service)
            await line.send(line.bridge.opening())
            await line.pump(limit_s=0.2)
            await line.say("What are your hours?")
            await line.pump(10, AudioArrived)
            await talk(line)
            await line.send(line.bridge.hang_up())

    asyncio.run(call())


@needs_model
def test_a_caller_who_speaks_interrupts_and_silence_after_it_takes_the_reply_up(
    service: Running, caller_voice: Samples
) -> None:
    async def talk(line: Line) -> None:
        await speak(line, caller_voice)
        assert line.count(Cleared) == 1
        assert service.engine.running == 0
        before = line.count(AudioArrived)
        await line.pump(before + 10, AudioArrived)  # no words came of it

    hold(service, "CA-spoke", talk)


@needs_model
def test_noise_interrupts_nothing(service: Running) -> None:
    async def talk(line: Line) -> None:
        noise = np.random.default_rng(5).normal(0, 2_000, 12_000).astype(np.int16)
        await speak(line, noise)
        assert line.count(Cleared) == 0
        before = line.count(AudioArrived)
        await line.pump(before + 20, AudioArrived)

    hold(service, "CA-noise", talk)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.settings.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"listen: .*voicepace\[vad\]"):
        load_settings({"listen.vad": "true"}, environ={})
