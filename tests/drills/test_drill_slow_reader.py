"""Clients stop reading: the service's memory stays bounded, their calls end, their sockets go, and other calls go on."""

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.drills.calling import Told, ask, call, say, started, take
from tests.drills.served import SCRIPTED, Served, served

pytestmark = [pytest.mark.prove, pytest.mark.alone]

SLOW = 40
SEND_TIMEOUT_S = 30
AUDIO = {"encoding": "pcm16", "sample_rate_hz": 24000}
# Minutes of audio: 48 kB each second, so a service that kept it would hold 1.6 MB of it for every one of them by the end.
GREETING = "All our lines are busy at the moment, please hold on and somebody will be with you. " * 40
# Before a send waits, a socket takes 64 KiB; a second of speech may be ahead of it, and the sentence being synthesised.
SETTINGS = {
    **SCRIPTED,
    "voice.names": '["tone"]',
    "speech.playout.max_buffered_s": "1",
    "server.max_calls": str(SLOW + 2),
    "server.send_timeout_s": str(SEND_TIMEOUT_S),
}
HELD_PER_CALL = 1024 * 1024


async def open_one(service: Served) -> ClientConnection:
    """A call that is greeted at length; little of what is not read fits in between."""
    where = urlsplit(service.http)
    small = socket.create_connection((where.hostname, where.port))
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    bridge = await connect(service.voice_url, sock=small, max_queue=1, ping_interval=None)
    await started(bridge, audio=AUDIO, greeting=GREETING)
    return bridge


async def all_read(service: Served) -> None:
    """As many calls, whose callers do read, for a while: the memory that calls need anyway."""
    calls = [await open_one(service) for _ in range(SLOW)]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(4), asyncio.TaskGroup() as tasks:
            for bridge in calls:
                tasks.create_task(take(bridge, Told()))
    for bridge in calls:
        bridge.transport.abort()
        await bridge.wait_closed()


async def lost(bridge: ClientConnection) -> int | None:
    """The code of the close that a client finds when it reads again after all; None: there was no close frame."""
    try:
        async with asyncio.timeout(60):
            while True:
                await bridge.recv()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


def test_those_that_stop_reading_lose_their_calls_and_nobody_else_does() -> None:
    async def calls(service: Served) -> None:
        async with call(service.voice_url) as other, call(service.voice_url, audio=AUDIO) as spoken:
            await asyncio.gather(ask(other, "hello"), ask(spoken, "hello"))
            before = service.leftovers()
            await all_read(service)
            await asyncio.to_thread(service.until, lambda: service.leftovers() == before, 60)
            peak = memory = service.metric("process_resident_memory_bytes")
            slow = [await open_one(service) for _ in range(SLOW)]
            turns = 0
            while service.metric("voicepace_calls") > 2:
                told = await ask(other, "hello")
                assert told.reason == "stop"
                peak, turns = max(peak, service.metric("process_resident_memory_bytes")), turns + 1
            assert turns > 3
            assert peak - memory < SLOW * HELD_PER_CALL
            await say(spoken, "hello")
            assert (await take(spoken, Told())).audio_bytes > 0
            await asyncio.to_thread(service.until, lambda: service.leftovers() == before, 60)
            assert {await lost(bridge) for bridge in slow} == {None}

    with served(SETTINGS) as service:
        asyncio.run(calls(service))
        assert GREETING[:20] not in service.said
