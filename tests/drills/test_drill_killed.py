"""A process of the service is killed in mid-reply, the voice's first, then the engine's: callers are told, and go on.

One service for both, in this order: the second drill finds it mended after the first.
"""

import asyncio
import os
import signal

import pytest

from tests.drills.calling import Told, ask, call, say, take
from tests.drills.served import Served, exists

pytestmark = [pytest.mark.prove, pytest.mark.engine]
FRAME_BYTES = 441 * 2


def voice_of(service: Served) -> int:
    (pid,) = [pid for pid, command in service.children().items() if "piper_process" in command]
    return pid


def test_without_a_voice_the_reply_goes_on_and_the_next_one_is_heard(real_service_process: Served) -> None:
    service = real_service_process

    async def talk() -> None:
        audio = {"encoding": "pcm16", "sample_rate_hz": 22050}
        async with call(service.voice_url, audio=audio) as bridge, asyncio.timeout(240):
            await say(bridge, "Tell me about the sea in three sentences.")
            told = await take(bridge, Told(), until="audio_begin")
            spoken = len(told.text)
            voice = voice_of(service)
            os.kill(voice, signal.SIGKILL)
            await take(bridge, told)
            assert told.reason in ("stop", "length")
            assert len(told.text) > spoken
            await asyncio.to_thread(service.until, lambda: not exists(voice), 20)
            again = await ask(bridge, "Say good morning.")
            assert again.reason in ("stop", "length")
            assert again.audio_bytes > 10 * FRAME_BYTES
            assert again.messages[-1]["timings_ms"]["first_audio_queue_ms"] >= 0

    asyncio.run(talk())
    assert service.ready() == 200


def core_of(service: Served) -> int:
    """The one child that is neither the voice nor a helper of Python's."""
    (pid,) = [pid for pid, command in service.children().items() if "EngineCore" in command or "spawn_main" in command]
    return pid


def test_without_an_engine_calls_are_told_and_go_on_when_it_is_back(real_service_process: Served) -> None:
    service = real_service_process
    core = core_of(service)

    async def calls() -> None:
        async with call(service.voice_url) as one, call(service.voice_url) as other:
            before = [Told(), Told()]
            for bridge, told in zip((one, other), before, strict=True):
                await say(bridge, "Tell me a long story about the sea.")
                await take(bridge, told, until="token")
            os.kill(core, signal.SIGKILL)
            async with asyncio.timeout(30):
                for bridge, told in zip((one, other), before, strict=True):
                    await take(bridge, told)
                    assert told.errors == ["engine_unavailable"]
                    assert told.reason == "error"
            assert service.ready() == 503
            await asyncio.to_thread(service.until, lambda: service.metric("voicepace_engine_up") == 0, 10)
            assert (await ask(one, "Are you there?")).errors == ["engine_unavailable"]
            await asyncio.to_thread(service.until, lambda: service.ready() == 200, 180)
            for bridge in (one, other):
                told = await ask(bridge, "Are you there?")
                assert told.errors == []
                assert told.reason in ("stop", "length")
                assert told.text

    asyncio.run(calls())
    assert not exists(core)
    assert service.metric("voicepace_engine_up") == 1
    assert "the engine is back" in service.said
    assert "sea" not in service.said
