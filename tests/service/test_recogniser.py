"""The line to a recogniser, against a small one of our own: hello, audio, transcripts, and everything that goes wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from engine.fake import Script, ScriptedEngine
from service import recogniser
from service.audio_backlog import AudioBacklog
from service.bridges.bridge import AudioArrived
from service.bridges.media_stream import MediaStreamBridge
from service.protocols.events import AudioFormat, Event, UserText
from service.recogniser import MAX_BACKLOG_S, Recogniser
from service.settings import SettingsError, load_settings
from tests.service.running import running_service
from tests.service.test_bridge_sockets import Line
from tts_adapter.voices.tone import ToneVoice

MULAW = AudioFormat("mulaw", 8000)
FRAME = b"\xff" * 160


@asynccontextmanager
async def line_to(
    handle: Callable[[ServerConnection], Awaitable[None]],
) -> AsyncIterator[tuple[Recogniser, list[Event]]]:
    """A recogniser that is run by `handle`, and what the call was told."""
    told: list[Event] = []

    async def take(events: list[Event]) -> None:
        told.extend(events)

    async with serve(handle, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        line = Recogniser(f"ws://127.0.0.1:{port}", "k1", "CA7", MULAW, take)
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
            running = tasks.create_task(line.run())
            yield line, told
            running.cancel()


async def until(true: Callable[[], Any]) -> None:
    while not true():
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recogniser, "FIRST_PAUSE_S", 0.01)


def test_it_says_hello_forwards_audio_and_takes_transcripts() -> None:
    heard: list[Any] = []

    async def handle(socket: ServerConnection) -> None:
        assert socket.request is not None
        heard.append(socket.request.headers["Authorization"])
        heard.append(json.loads(await socket.recv()))
        heard.extend([await socket.recv() for _ in range(3)])
        for text in ("no json", "[]", '{"text": 7}', '{"text": "hel", "final": false}', '{"words": "x"}'):
            await socket.send(text)
        await socket.send(b'{"text": "hello", "final": true, "language": "en-US"}')
        await socket.wait_closed()

    async def main() -> None:
        async with line_to(handle) as (line, told):
            for byte in (1, 2, 3):
                line.hear(bytes([byte]) * 160)
            await until(lambda: len(told) == 2)
        hello = {"call_id": "CA7", "encoding": "mulaw", "sample_rate_hz": 8000}
        assert heard == ["Bearer k1", hello, b"\x01" * 160, b"\x02" * 160, b"\x03" * 160]
        assert told == [UserText("hel", final=False), UserText("hello", True, "en-US")]

    asyncio.run(main())


def test_a_lost_connection_is_made_again() -> None:
    hellos = 0

    async def handle(socket: ServerConnection) -> None:
        nonlocal hellos
        await socket.recv()
        hellos += 1
        match hellos:
            case 1:
                return  # an orderly close
            case 2:
                socket.transport.abort()
            case 3:
                await socket.send("x" * 100_000)  # more than is taken
                await socket.wait_closed()
            case _:
                await socket.send('{"text": "still here"}')
                await socket.wait_closed()

    async def main() -> None:
        async with line_to(handle) as (_, told):
            await until(lambda: told)
        assert hellos == 4

    asyncio.run(main())


def test_a_recogniser_that_reads_nothing_costs_the_oldest_audio() -> None:
    backlog = AudioBacklog(MULAW, MAX_BACKLOG_S)
    for number in range(500):
        backlog.push(number.to_bytes(2, "big") * 80)
    kept = backlog.take()
    assert [int.from_bytes(payload[:2], "big") for payload in kept] == list(range(400, 500))
    assert backlog.dropped_bytes == 400 * 160
    assert not backlog
    backlog.push(b"x" * 100_000)  # one piece over the bound is kept whole: there is nothing older to drop
    assert len(backlog.take()) == 1


def test_a_call_is_answered_by_way_of_its_recogniser_and_goes_on_without_it() -> None:
    calls: list[str] = []

    async def handle(socket: ServerConnection) -> None:
        calls.append(json.loads(await socket.recv())["call_id"])
        await socket.recv()
        await socket.send('{"text": "What are your hours?"}')

    async def main() -> None:
        async with serve(handle, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            settings = load_settings(
                {"scripted.enabled": "true", "listen.recogniser_url": f"ws://127.0.0.1:{port}"}, environ={}
            )
            engine = ScriptedEngine("We open at nine.", Script(first_token_s=0.02, step_time_s=0.01))
            with running_service(settings, engine, ToneVoice()) as service:
                async with connect(f"{service.ws}/v1/media/twilio", ping_interval=None) as socket:
                    line = Line(MediaStreamBridge("twilio", "CA9"), socket, service)
                    await line.send(line.bridge.opening())
                    await line.pump(5, AudioArrived)
                    server.close()
                    await server.wait_closed()
                    await line.say("And on Sunday?")
                    await line.pump(line.count(AudioArrived) + 20, AudioArrived)
                    await line.send(line.bridge.hang_up())
        assert calls[0] == "CA9"

    asyncio.run(main())


def test_an_address_that_is_no_websocket_is_named() -> None:
    with pytest.raises(SettingsError, match=r"listen\.recogniser_url"):
        load_settings({"listen.recogniser_url": "http://recogniser"}, environ={})
