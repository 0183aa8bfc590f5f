"""After an interrupt the engine core itself lets go of the request, within one further step."""

import asyncio
import json

import pytest
from websockets.asyncio.client import connect

from engine.vllm_engine import VllmEngine
from tests.service.running import Running

pytestmark = pytest.mark.engine


def core_is_empty(service: Running) -> bool:
    """Whether the core holds no request when it next looks at its messages, which it does before every step.

    The core drops its cached blocks on demand only if no request holds any. The demand is sent behind the abort, so it is
    answered at most one step after it.
    """
    assert service.loop is not None
    assert isinstance(service.engine, VllmEngine)
    dropped = asyncio.run_coroutine_threadsafe(service.engine.client.reset_prefix_cache(), service.loop)
    return bool(dropped.result(20))


@pytest.mark.parametrize("tokens", [1, 2, 5, 9, 14])
def test_the_core_lets_go_of_an_interrupted_reply_at_its_next_step(real_service: Running, tokens: int) -> None:
    async def call() -> None:
        async with connect(f"{real_service.ws}/v1/voice") as bridge:
            await bridge.send(json.dumps({"type": "start"}))
            await bridge.recv()
            await bridge.send(json.dumps({"type": "user_text", "text": "Tell me a long story about the sea."}))
            for _ in range(tokens):
                await bridge.recv()
            assert real_service.engine.running == 1
            assert not await asyncio.to_thread(core_is_empty, real_service)
            await bridge.send(json.dumps({"type": "interrupt"}))
            while json.loads(await bridge.recv())["type"] != "turn_end":
                pass
            assert real_service.engine.running == 0
            assert await asyncio.to_thread(core_is_empty, real_service)

    asyncio.run(call())
