"""Frames no bridge should send, into running calls: nothing raises, the call is answered afterwards, nothing is left.

The frames are those of the dialects' own fuzz test. Here they meet the session, its turns, its ledger and its voice.
"""

import asyncio
import logging
import random
from concurrent.futures import Future

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from engine.fake import Script, ScriptedEngine
from service.bridges.bridge import Refused
from service.protocols.catalog import CATALOG
from service.settings import load_settings
from tests.service.native_bridge import bridge_of
from tests.service.protocols.test_dialect_fuzz import Mutator
from tests.service.running import Running, running_service
from tests.service.virtual_call import virtual_call
from tests.virtual_time import run_virtual
from tts_adapter.voices.tone import ToneVoice

every_dialect = pytest.mark.parametrize("name", sorted(CATALOG))
FRAMES_PER_CALL = 40
NO_LIMIT = "1000000"


async def fuzz(name: str, count: int, seed: int) -> None:
    """Calls of so many mutated frames each, words in between; each must end in order, however it ends."""
    shuffled = random.Random(seed)
    frames = Mutator(name, seed).frames(count)
    for _ in range(count // FRAMES_PER_CALL):
        async with virtual_call(name, server__max_messages_per_s=NO_LIMIT) as call:
            for _, frame in zip(range(FRAMES_PER_CALL), frames, strict=False):
                call.send([frame])
                if shuffled.random() < 0.1:
                    await call.say("Hello there.")
                await asyncio.sleep(shuffled.choice([0.0, 0.001, 0.02, 0.3]))
            assert call.count(Refused) == 0


@every_dialect
def test_calls_outlive_mutated_frames(name: str) -> None:
    run_virtual(fuzz(name, 400, seed=4))


@pytest.mark.prove
@pytest.mark.timeout(1800)
@every_dialect
def test_calls_outlive_ten_thousand_mutated_frames(name: str) -> None:
    run_virtual(fuzz(name, 10_000, seed=5))


async def send_all(service: Running, name: str, count: int) -> None:
    """Mutated frames over sockets; a call that ends is followed by the next."""
    frames = list(Mutator(name, 6).frames(count))
    while frames:
        bridge = bridge_of(name, f"fuzz-{len(frames)}")
        protocols = None if bridge.subprotocol is None else [Subprotocol(bridge.subprotocol)]
        url = service.ws + CATALOG[name].path
        try:
            async with connect(url, subprotocols=protocols, ping_interval=None, max_queue=None) as socket:
                for frame in bridge.opening():
                    await socket.send(frame)
                while frames:
                    frame = frames.pop()
                    await socket.send(frame if isinstance(frame, bytes) else frame.encode("utf-8", "replace").decode())
        except ConnectionClosed:
            pass


def tasks_of(service: Running) -> int:
    counted: Future[int] = Future()
    assert service.loop is not None
    service.loop.call_soon_threadsafe(lambda: counted.set_result(len(asyncio.all_tasks(service.loop))))
    return counted.result(10)


def test_a_running_service_outlives_mutated_frames(caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings({"scripted.enabled": "true", "server.max_messages_per_s": NO_LIMIT}, environ={})
    engine = ScriptedEngine(script=Script(first_token_s=0.01, step_time_s=0.01))

    async def calls(service: Running) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in CATALOG:
                tasks.create_task(send_all(service, name, 300))
        async with asyncio.timeout(20):
            while any(
                service.value("voicepace_calls", surface=entry.surface, dialect=entry.name)
                for entry in CATALOG.values()
            ):
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING), running_service(settings, engine, ToneVoice()) as service:
        before = tasks_of(service)
        asyncio.run(calls(service))
        assert engine.running == 0
        for _ in range(100):
            if tasks_of(service) <= before:
                break
        assert tasks_of(service) <= before
    assert "internal error" not in caplog.text
    assert "Traceback" not in caplog.text
