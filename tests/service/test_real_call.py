"""Whole calls with the real model and the real voice, by `voicepace call` as a user would run it."""

import asyncio
import json
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from tests.service.running import Running

pytestmark = pytest.mark.engine
VOICEPACE = Path(sys.executable).parent / "voicepace"


def call(service: Running, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [VOICEPACE, "call", *arguments, "--url", f"{service.ws}/v1/voice", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


async def turn(bridge: Any, text: str) -> list[dict[str, Any]]:
    await bridge.send(json.dumps({"type": "user_text", "text": text}))
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1]["type"] != "turn_end":
        messages.append(json.loads(await bridge.recv()))
    return messages


def test_a_newcomers_call_is_heard(real_service: Running, tmp_path: Path) -> None:
    out = tmp_path / "reply.wav"
    call(real_service, "What are your opening hours?", "--audio", "pcm16", "--rate", "22050", "--out", str(out))
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (22050, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(samples) > 22050 // 2
    assert np.abs(samples.astype(float)).mean() > 100


def test_later_turns_find_the_history_cached_and_bursts_hold_several_tokens(real_service: Running) -> None:
    async def talk() -> None:
        async with connect(f"{real_service.ws}/v1/voice") as bridge:
            await bridge.send(
                json.dumps({"type": "start", "system_prompt": "Repeat what the caller says, word by word."})
            )
            await bridge.recv()
            words = "one two three four five six seven eight nine ten, " * 4
            first = await turn(bridge, words)
            second = await turn(bridge, words)
            assert first[-1]["timings_ms"]["tokens"] > 10
            assert second[-1]["timings_ms"]["cached_tokens"] >= 32
            assert second[-1]["timings_ms"]["cached_tokens"] % 32 == 0
            assert second[-1]["timings_ms"]["tokens_per_step"] > 1

    asyncio.run(talk())


def test_a_caller_who_leaves_or_breaks_in_leaves_no_request_behind(real_service: Running) -> None:
    async def leave() -> None:
        async with connect(f"{real_service.ws}/v1/voice") as bridge:
            await bridge.send(json.dumps({"type": "start"}))
            await bridge.recv()
            await bridge.send(json.dumps({"type": "user_text", "text": "Tell me a long story about the sea."}))
            await bridge.recv()
            assert real_service.engine.running == 1
            await bridge.send(json.dumps({"type": "interrupt"}))
            while json.loads(await bridge.recv())["type"] != "turn_end":
                pass
            assert real_service.engine.running == 0
            await bridge.send(json.dumps({"type": "user_text", "text": "Tell me another one."}))
            await bridge.recv()
            bridge.transport.abort()
        async with asyncio.timeout(20):
            while real_service.engine.running:
                await asyncio.sleep(0.02)

    asyncio.run(leave())


def test_the_scrape_holds_our_metrics_and_the_engines(real_service: Running) -> None:
    call(real_service, "Hello")
    scrape = httpx.get(f"{real_service.http}/metrics").text
    labels = {"surface": "voice", "dialect": "native", "model": "tiny"}
    steps = real_service.value("voicepace_step_gap_seconds_count", **labels)
    tokens = real_service.value("voicepace_engine_tit_seconds_count", **labels)
    assert steps is not None
    assert tokens is not None
    assert tokens >= steps > 0
    assert "vllm:generation_tokens_total" in scrape
    assert 'vllm:inter_token_latency_seconds_bucket{engine="0",le="0.02"' in scrape
