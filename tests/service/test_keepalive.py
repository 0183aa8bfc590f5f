"""The short way out of a socket; and that a call leaves nothing behind that only a garbage collection would free."""

import asyncio
import gc
import json
from collections import Counter
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.protocol import State
from websockets.server import ServerProtocol

from engine.fake import Script, ScriptedEngine
from service.keepalive import protocol_with_pings
from service.settings import load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

MODULES = (
    "service.session",
    "service.turn",
    "service.channel",
    "service.speech",
    "service.keepalive",
    "websockets.server",
)


async def call(service: Running, audio: bool, interrupt: bool) -> None:
    async with connect(f"{service.ws}/v1/voice") as bridge:
        format_ = {"encoding": "mulaw", "sample_rate_hz": 8000} if audio else None
        await bridge.send(json.dumps({"type": "start", "audio": format_}))
        await bridge.recv()
        await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
        while '"turn_end"' not in str(message := await bridge.recv()):
            if interrupt and '"token"' in str(message):
                await bridge.send('{"type": "interrupt"}')
                interrupt = False


def alive() -> Counter[str]:
    kinds = Counter(type(found) for found in gc.get_objects() if type(found).__module__ in MODULES)
    return Counter({kind.__name__: count for kind, count in kinds.items()})


def test_a_call_that_has_ended_is_freed_at_once() -> None:
    engine = ScriptedEngine("One two three.", Script(first_token_s=0.005, step_time_s=0.002))
    settings = load_settings({"scripted.enabled": "true"}, environ={})
    with running_service(settings, engine, ToneVoice()) as service:
        asyncio.run(call(service, audio=False, interrupt=False))  # what is made once
        gc.collect()
        gc.disable()
        try:
            for audio in (False, True):
                for interrupt in (False, True):
                    asyncio.run(call(service, audio, interrupt))
            asyncio.run(gone(service))
            assert not alive()
        finally:
            gc.enable()


async def gone(service: Running) -> None:
    """Until the service has seen the end of every call, which comes after the bridge's own."""
    async with asyncio.timeout(10):
        while alive():
            await asyncio.sleep(0.01)


class Transport:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def socket() -> tuple[Any, Transport]:
    """An open connection, as far as sending needs one."""
    kind: Any = protocol_with_pings({})
    made, transport = kind.__new__(kind), Transport()
    made.conn, made.transport = ServerProtocol(state=State.OPEN), transport
    made.close_sent = made.disconnected = False
    made.writable = asyncio.Event()
    made.writable.set()
    return made, transport


@pytest.mark.parametrize(
    ("frame", "on_the_wire"), [("wörd", b"\x81\x05w\xc3\xb6rd"), (b"\xff\x00", b"\x82\x02\xff\x00")]
)
def test_a_frame_leaves_at_once(frame: str | bytes, on_the_wire: bytes) -> None:
    made, transport = socket()
    assert made.send_now(frame)
    assert transport.written == on_the_wire


@pytest.mark.parametrize("why", ["full", "closing", "gone", "closed by the peer"])
def test_or_not_at_all(why: str) -> None:
    made, transport = socket()
    if why == "full":
        made.writable.clear()
    elif why == "closed by the peer":
        made.conn.state = State.CLOSING
    else:
        setattr(made, {"closing": "close_sent", "gone": "disconnected"}[why], True)
    assert not made.send_now("word")
    assert transport.written == b""
