"""The voice's process is killed in the middle of a sentence: the reply goes on to its end, and the next one is heard."""

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


def test_the_reply_goes_on_and_the_next_one_is_heard(real_service_process: Served) -> None:
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
