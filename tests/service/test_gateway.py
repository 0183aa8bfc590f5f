"""Who may enter: keys, origins, signed paths, readiness; and the probes that say so."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from engine.fake import Script, ScriptedEngine
from service.auth import sign_path
from service.settings import load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

KEY = {"Authorization": "Bearer k1"}


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    settings = load_settings(
        {"scripted.enabled": "true", "auth.api_keys": '["k1"]', "auth.signing_keys": '["s1"]'}, environ={}
    )
    engine = ScriptedEngine("Hello there, how are you?", Script(first_token_s=0.02, step_time_s=0.01))
    with running_service(settings, engine, ToneVoice()) as running:
        yield running


def status_of_upgrade(url: str, headers: dict[str, str]) -> int:
    async def attempt() -> int:
        try:
            async with connect(url, additional_headers=headers):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    return asyncio.run(attempt())


def test_an_upgrade_needs_a_key_a_signed_path_or_its_own_page(service: Running) -> None:
    url = f"{service.ws}/v1/voice"
    assert status_of_upgrade(url, {}) == 401
    assert status_of_upgrade(url, {"Authorization": "Bearer k2"}) == 401
    assert status_of_upgrade(url, KEY) == 101
    assert status_of_upgrade(url, {**KEY, "Origin": "https://elsewhere.example"}) == 403
    assert status_of_upgrade(url, {**KEY, "Origin": service.http}) == 101
    token = sign_path("s1", "/v1/voice", int(time.time()) + 60)
    assert status_of_upgrade(f"{url}/{token}", {}) == 101
    assert status_of_upgrade(f"{url}/{sign_path('s1', '/v1/voice', int(time.time()) - 1)}", {}) == 401
    assert service.value("voicepace_calls_refused_total", reason="auth") == 3
    assert service.value("voicepace_calls_refused_total", reason="origin") == 1


def test_http_under_v1_needs_a_key_and_probes_do_not(service: Running) -> None:
    post = "/v1/calls/none/transcript"
    assert httpx.post(service.http + post, json={"text": "hi"}).status_code == 401
    assert httpx.post(service.http + post, json={"text": "hi"}, headers=KEY).status_code == 404
    assert httpx.get(f"{service.http}/healthz").status_code == 200
    assert httpx.get(f"{service.http}/readyz").text == "ready\n"
    scrape = httpx.get(f"{service.http}/metrics")
    assert scrape.headers["content-type"].startswith("text/plain")
    assert "voicepace_engine_up 1.0" in scrape.text


def test_words_posted_for_an_audio_call_are_answered_on_its_socket(service: Running) -> None:
    start = {
        "event": "start",
        "sequenceNumber": "1",
        "streamSid": "MZ1",
        "start": {
            "streamSid": "MZ1",
            "accountSid": "AC1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "customParameters": {},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        },
    }

    async def call() -> None:
        async with (
            connect(f"{service.ws}/v1/media/twilio", additional_headers=KEY) as bridge,
            httpx.AsyncClient() as http,
        ):
            await bridge.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
            await bridge.send(json.dumps(start))
            async with asyncio.timeout(10):
                while True:
                    url = f"{service.http}/v1/calls/CA1/transcript"
                    answer = await http.post(url, json={"text": "hello"}, headers=KEY)
                    if answer.status_code == 202:
                        break
                bad = await http.post(url, json={"words": "hello"}, headers=KEY)
                assert bad.status_code == 422
                events = [json.loads(await bridge.recv()) for _ in range(20)]
            assert {event["event"] for event in events} <= {"media", "mark"}
            assert events[0]["streamSid"] == "MZ1"

    asyncio.run(call())


def test_a_dead_engine_is_seen_and_brought_back(service: Running) -> None:
    engine = service.engine
    assert isinstance(engine, ScriptedEngine)
    assert service.loop is not None
    service.loop.call_soon_threadsafe(engine.kill)
    seen = set()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not {503, 200} <= seen:
        code = httpx.get(f"{service.http}/readyz").status_code
        if code == 503 or 503 in seen:
            seen.add(code)
    assert seen == {503, 200}
