"""What a call may not do to the service or to others, over real sockets: be slow, large, fast, silent, endless or many."""

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.settings import load_settings
from tests.service.running import Running, running_service

REPLY = "Sure, I can help you with that. Could you tell me a little more about what you need today?"
QUICK = Script(first_token_s=0.02, step_time_s=0.015)
LARGE = "x" * 30_000  # one token


def reply(engine: ScriptedEngine, request: GenerateRequest) -> str:
    said = engine.tokenizer.decode(request.prompt_token_ids)
    return f" {LARGE}" * 200 if "flood" in said else REPLY


@contextmanager
def serving(script: Script = QUICK, **flags: str) -> Iterator[Running]:
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    settings = load_settings({"scripted.enabled": "true", **dotted}, environ={})
    engine: ScriptedEngine = ScriptedEngine(lambda request: reply(engine, request), script)
    with running_service(settings, engine) as running:
        yield running


async def start(bridge: ClientConnection) -> None:
    await bridge.send('{"type":"start"}')
    assert json.loads(await bridge.recv())["type"] == "ready"


async def ask(bridge: ClientConnection, text: str = "hello") -> list[float]:
    """Say it and take the whole reply; the gaps between its tokens (seconds)."""
    await bridge.send(json.dumps({"type": "user_text", "text": text}))
    now, times = asyncio.get_running_loop().time, []
    while True:
        message = json.loads(await bridge.recv())
        if message["type"] == "token":
            times.append(now())
        if message["type"] == "turn_end":
            assert message["reason"] == "stop"
            return [after - before for before, after in zip(times, times[1:], strict=False)]


async def until_free(service: Running) -> None:
    """Until no call and no request is left."""
    async with asyncio.timeout(20):
        while service.engine.running or service.value("voicepace_calls", surface="voice", dialect="native"):
            await asyncio.sleep(0.01)


def test_a_slow_reader_loses_its_call_and_delays_nobody() -> None:
    send_timeout_s = 2.0

    async def call(service: Running) -> None:
        small = socket.create_connection(("127.0.0.1", service.port))
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        async with (
            connect(f"{service.ws}/v1/voice") as other,
            connect(f"{service.ws}/v1/voice", sock=small, max_queue=1, ping_interval=None) as slow,
        ):
            await start(other)
            await start(slow)
            await slow.send(json.dumps({"type": "user_text", "text": "flood"}))
            gaps: list[float] = []
            async with asyncio.timeout(60):
                while service.value("voicepace_calls", surface="voice", dialect="native") == 2:
                    gaps += await ask(other)
            assert service.engine.running == 0
            gaps += await ask(other)
            assert max(gaps) < send_timeout_s / 2
            slow.transport.abort()

    with serving(server__send_timeout_s=str(send_timeout_s)) as service:
        asyncio.run(call(service))


def ended_by(service: Running, *messages: str) -> tuple[list[dict[str, Any]], int]:
    """What a call is told after it has started and sent these, until it is closed, and the code of the close."""

    async def call() -> tuple[list[dict[str, Any]], int]:
        told = []
        async with connect(f"{service.ws}/v1/voice", ping_interval=None) as bridge:
            await start(bridge)
            try:
                for message in messages:
                    await bridge.send(message)
                async with asyncio.timeout(20):
                    while True:
                        told.append(json.loads(await bridge.recv()))
            except ConnectionClosed:
                assert bridge.close_code is not None
                await until_free(service)
                return told, bridge.close_code

    return asyncio.run(call())


def test_a_call_without_messages_ends() -> None:
    with serving(server__idle_timeout_s="0.3") as service:
        assert ended_by(service) == ([{"type": "end", "reason": "idle"}], 1000)


def test_a_call_has_a_longest_time() -> None:
    with serving(server__max_call_s="0.5") as service:
        told, code = ended_by(service, '{"type":"user_text","text":"hello"}')
        assert told[-1] == {"type": "end", "reason": "time_limit"}
        assert {message["type"] for message in told} <= {"token", "turn_end", "end"}
        assert code == 1000


def test_too_many_messages_end_a_call() -> None:
    with serving(server__max_messages_per_s="20") as service:
        told, code = ended_by(service, *['{"type":"something_new"}'] * 60)
        assert (told[-1], code) == ({"type": "end", "reason": "too_many_messages"}, 1000)


def test_a_message_over_the_limit_ends_its_call() -> None:
    with serving(server__max_message_bytes="2048") as service:
        assert ended_by(service, json.dumps({"type": "user_text", "text": "x" * 1500}), '{"type":"end"}')[1] == 1000
        assert ended_by(service, json.dumps({"type": "user_text", "text": "x" * 3000})) == ([], 1009)


class PingCounter(ClientConnection):
    """Counts the pings it gets."""

    pings = 0

    def process_event(self, event: Any) -> None:
        self.pings += isinstance(event, WireFrame) and event.opcode is Opcode.PING
        super().process_event(event)


def test_pings_go_out_at_the_interval_of_the_dialect() -> None:
    intervals = {"native": 0.05, "twilio-relay": 0.05, "jambonz": 0}

    async def pings(url: str) -> int:
        async with connect(url, create_connection=PingCounter, subprotocols=["media", "ws.jambonz.org"]) as bridge:  # type: ignore[list-item]
            assert isinstance(bridge, PingCounter)
            try:
                async with asyncio.timeout(1.0):
                    while bridge.pings < 3:
                        await asyncio.sleep(0.01)
            except TimeoutError:
                pass
            return bridge.pings

    async def call(service: Running) -> None:
        for path in ("/v1/voice", "/v1/relay/twilio", "/v1/relay/twilio/signed"):
            assert await pings(service.ws + path) >= 3
        for path in ("/v1/asterisk", "/v1/asterisk/signed", "/v1/jambonz", "/v1/media/plivo"):
            assert await pings(service.ws + path) == 0

    with serving(server__ping_intervals_s=json.dumps(intervals)) as service:
        asyncio.run(call(service))


def test_a_close_from_both_sides_at_once_is_one_close(caplog: pytest.LogCaptureFixture) -> None:
    async def call(service: Running) -> None:
        assert service.loop is not None
        assert service.service is not None
        for number in range(12):
            call_id = f"both-{number}"
            async with connect(f"{service.ws}/v1/voice") as bridge:
                await bridge.send(json.dumps({"type": "start", "call_id": call_id}))
                await bridge.recv()
                await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
                session = service.service.calls.find(call_id)
                assert session is not None
                for _ in range(2):
                    service.loop.call_soon_threadsafe(session.hang_up, "done")
                if number % 3 == 0:
                    await bridge.send('{"type":"end"}')
                elif number % 3 == 1:
                    bridge.transport.abort()
        await until_free(service)

    with caplog.at_level(logging.WARNING), serving() as service:
        asyncio.run(call(service))
    assert caplog.text == ""


def status(service: Running) -> tuple[int, str]:
    """Of an upgrade tried and left at once; 101 where it was taken."""

    async def attempt() -> tuple[int, str]:
        try:
            async with connect(f"{service.ws}/v1/voice"):
                return 101, ""
        except InvalidStatus as refused:
            return refused.response.status_code, refused.response.headers.get("Retry-After", "")

    return asyncio.run(attempt())


def test_a_call_that_would_break_the_objective_is_refused() -> None:
    async def hold(service: Running) -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge)
            await ask(bridge)
            code, retry_after = await asyncio.to_thread(status, service)
            assert code == 503
            assert int(retry_after) > 0
            assert service.value("voicepace_calls_refused_total", reason="objective") == 1
            assert (service.value("voicepace_predicted_gap_seconds") or 0) > 0.02
        await until_free(service)

    slow = Script(first_token_s=0.01, step_time_s=0.05)
    with serving(slow, server__max_predicted_gap_ms="20", server__max_waiting_calls="0") as service:
        asyncio.run(hold(service))
        assert status(service)[0] == 101  # alone it is taken, whatever was learned


def test_a_full_queue_refuses_at_once_and_a_free_place_goes_to_the_one_who_waits() -> None:
    async def calls(service: Running) -> None:
        async with asyncio.TaskGroup() as tasks, connect(f"{service.ws}/v1/voice") as first:
            await start(first)
            second = tasks.create_task(connect(f"{service.ws}/v1/voice").__aenter__())
            async with asyncio.timeout(10):
                while service.value("voicepace_calls_waiting") != 1:
                    await asyncio.sleep(0.01)
            code, retry_after = await asyncio.to_thread(status, service)
            assert (code, retry_after.isdigit()) == (503, True)
            assert not second.done()
            await first.close()
            waited = await second
            await start(waited)
            await waited.close()

    with serving(server__max_calls="1", server__max_waiting_calls="1", server__max_wait_s="60") as service:
        asyncio.run(calls(service))
        assert service.value("voicepace_calls_refused_total", reason="capacity") == 1


def test_an_address_that_is_none_of_ours_is_not_found() -> None:
    with serving() as service:
        url = urlsplit(service.ws)

        async def attempt() -> None:
            with pytest.raises(InvalidStatus, match="40[34]"):
                await connect(f"ws://{url.netloc}/v1/nothing")

        asyncio.run(attempt())
