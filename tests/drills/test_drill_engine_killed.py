"""The engine core is killed in the middle of two replies: a clear error, not ready, and back by itself."""

import asyncio
import os
import signal

import pytest

from tests.drills.calling import Told, ask, call, say, take
from tests.drills.served import Served, exists

pytestmark = [pytest.mark.prove, pytest.mark.engine]


def core_of(service: Served) -> int:
    """The one child that is neither the voice nor a helper of Python's."""
    (pid,) = [pid for pid, command in service.children().items() if "EngineCore" in command or "spawn_main" in command]
    return pid


def test_calls_are_told_and_go_on_when_the_engine_is_back(real_service_process: Served) -> None:
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
