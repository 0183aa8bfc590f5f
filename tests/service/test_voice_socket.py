"""`/v1/voice` over a real socket, with the scripted engine: text and audio calls, interrupts, bad messages, hang-ups."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from engine.fake import Script, ScriptedEngine
from service.settings import Settings, load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

REPLY = "Sure, I can help you with that. Could you tell me a little more about what you need today?"


def settings(**flags: str) -> Settings:
    base = {"scripted.enabled": "true", "server.max_calls": "4", "server.max_waiting_calls": "0"}
    return load_settings({**base, **{key.replace("__", "."): value for key, value in flags.items()}}, environ={})


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    engine = ScriptedEngine(REPLY, Script(first_token_s=0.02, step_time_s=0.015, burst_sizes=(1, 2, 3)))
    with running_service(settings(), engine, ToneVoice()) as running:
        yield running


async def start(bridge: ClientConnection, **body: Any) -> dict[str, Any]:
    await bridge.send(json.dumps({"type": "start", **body}))
    ready: dict[str, Any] = json.loads(await bridge.recv())
    assert ready["type"] == "ready"
    return ready


async def until(bridge: ClientConnection, kind: str) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Every message up to the next of `kind`, and the binary frames among them."""
    messages: list[dict[str, Any]] = []
    audio: list[bytes] = []
    while True:
        data = await bridge.recv()
        if isinstance(data, bytes):
            audio.append(data)
            continue
        messages.append(json.loads(data))
        if messages[-1]["type"] == kind:
            return messages, audio


def said(messages: list[dict[str, Any]]) -> str:
    return "".join(message["text"] for message in messages if message["type"] == "token")


def test_a_text_call_gets_the_whole_reply_in_order(service: Running) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge)
            for turn_id in range(2):
                await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
                messages, _ = await until(bridge, "turn_end")
                assert said(messages) == REPLY
                tokens = [message for message in messages if message["type"] == "token"]
                assert {message["turn_id"] for message in tokens} == {turn_id}
                assert [m["index"] for m in tokens] == sorted(m["index"] for m in tokens)
                assert max(m["burst"] for m in tokens) < len(tokens) - 1
                end = messages[-1]
                assert end["reason"] == "stop"
                assert end["timings_ms"]["ttft_ms"] > 0
                assert end["timings_ms"]["tokens_per_step"] > 1

    asyncio.run(call())


@pytest.mark.parametrize(("encoding", "rate"), [("mulaw", 8000), ("pcm16", 8000), ("pcm16", 22050)])
def test_an_audio_call_gets_exact_frames_and_captions(service: Running, encoding: str, rate: int) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge, audio={"encoding": encoding, "sample_rate_hz": rate})
            await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
            messages, audio = await until(bridge, "turn_end")
            assert said(messages) == REPLY
            assert {len(frame) for frame in audio} == {rate // 50 * (2 if encoding == "pcm16" else 1)}
            assert len(audio) > 25
            assert messages[-1]["timings_ms"]["first_audio_ms"] > 0
            assert len([m for m in messages if m["type"] == "audio_begin"]) == 1

    asyncio.run(call())


def test_after_an_interrupt_nothing_of_the_turn_leaves_and_the_request_is_aborted(service: Running) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge, audio={"encoding": "mulaw", "sample_rate_hz": 8000})
            await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
            await until(bridge, "audio_begin")
            await bridge.send(json.dumps({"type": "interrupt"}))
            messages, _ = await until(bridge, "turn_end")
            assert messages[-1]["reason"] == "interrupted"
            assert messages[-1]["turn_id"] == 0
            assert len(messages[-1]["heard"]) < len(REPLY)
            assert service.engine.running == 0
            await bridge.send(json.dumps({"type": "user_text", "text": "go on"}))
            messages, _ = await until(bridge, "turn_end")
            assert {message["turn_id"] for message in messages if "turn_id" in message} == {1}

    asyncio.run(call())


def test_new_words_cut_the_reply_short(service: Running) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge)
            await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
            await until(bridge, "token")
            await bridge.send(json.dumps({"type": "user_text", "text": "no, wait"}))
            messages, _ = await until(bridge, "turn_end")
            assert messages[-1]["reason"] == "interrupted"
            messages, _ = await until(bridge, "turn_end")
            assert messages[-1]["reason"] == "stop"
            assert said(messages) == REPLY

    asyncio.run(call())


def test_a_bad_message_names_the_field_and_the_call_goes_on(service: Running) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge)
            for bad in ('{"type":"user_text","text":7}', "not json", '{"type":"played","turn_id":"x"}'):
                await bridge.send(bad)
                error = json.loads(await bridge.recv())
                assert error["type"] == "error"
                assert error["field"]
            await bridge.send(json.dumps({"type": "something_new"}))
            await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
            messages, _ = await until(bridge, "turn_end")
            assert said(messages) == REPLY

    asyncio.run(call())


def test_a_client_that_vanishes_leaves_no_request_and_frees_its_place(service: Running) -> None:
    async def call() -> None:
        for _ in range(8):  # more than max_calls
            async with connect(f"{service.ws}/v1/voice") as bridge:
                await start(bridge)
                await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
                await until(bridge, "token")
                bridge.transport.abort()
        async with asyncio.timeout(10):
            while service.engine.running or service.value("voicepace_calls", surface="voice", dialect="native"):
                await asyncio.sleep(0.01)

    asyncio.run(call())


def test_one_call_too_many_is_refused_before_the_upgrade(service: Running) -> None:
    async def call() -> None:
        async with asyncio.TaskGroup() as tasks:
            bridges = [await connect(f"{service.ws}/v1/voice") for _ in range(4)]
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{service.ws}/v1/voice")
            assert refused.value.response.status_code == 503
            assert int(refused.value.response.headers["Retry-After"]) > 0
            for bridge in bridges:
                tasks.create_task(bridge.close())

    asyncio.run(call())
    assert service.value("voicepace_calls_refused_total", reason="capacity") == 1


def test_a_greeting_is_spoken_first_and_remembered(service: Running) -> None:
    async def call() -> None:
        async with connect(f"{service.ws}/v1/voice") as bridge:
            await start(bridge, greeting="Welcome to the shop.")
            messages, _ = await until(bridge, "turn_end")
            assert said(messages) == "Welcome to the shop."
            await bridge.send(json.dumps({"type": "user_text", "text": "hello"}))
            messages, _ = await until(bridge, "turn_end")
            assert messages[-1]["turn_id"] == 1

    asyncio.run(call())
