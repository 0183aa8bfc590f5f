"""No key, number or word of a call is in a log line (the most talkative level) or in the metrics, whatever goes wrong."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from service.bridges.bridge import ReplyEnded
from service.bridges.relay import RelayBridge
from tests.drills.served import Served, served

KEY, WRONG_KEY, SIGNING_KEY, PASSWORD = "k-alpha-5521", "k-wrong-7743", "s-bravo-9965", "p-charlie-3387"
NUMBER, WORDS, TOOL_WORDS, PARTIAL = "+15005550142", "zanzibar marmalade", "quokka ledger", "periwinkle"
PRIVATE = (KEY, WRONG_KEY, SIGNING_KEY, PASSWORD, NUMBER, NUMBER[1:], *WORDS.split(), *TOOL_WORDS.split(), PARTIAL)
# The scripted engine's reply is private as well: a transcript has two sides.
REPLY_WORDS = ("Sure", "little", "today")
BEARER = {"Authorization": f"Bearer {KEY}"}

MESSAGES: list[dict[str, Any] | str] = [
    {"type": "user_text", "text": PARTIAL, "final": False},
    {"type": "user_text", "text": WORDS, "language": NUMBER},
    {"type": "user_text", "text": {"deep": WORDS}},
    {"type": WORDS, "text": NUMBER},
    {"type": "played", "turn_id": NUMBER},
    {"type": "tool_result", "tool_call_id": TOOL_WORDS, "content": TOOL_WORDS},
    {"type": "interrupt", "heard_text": WORDS},
    f"{WORDS} {NUMBER}",
    {"type": "start", "call_id": NUMBER[1:], "system_prompt": WORDS},
    {"type": "user_text", "text": WORDS},
]


async def native(service: Served) -> None:
    """A call in which everything is private and most is wrong."""
    async with connect(service.voice_url, additional_headers=BEARER) as bridge:
        parameters = {"caller": NUMBER, "note": WORDS}
        await bridge.send(
            json.dumps({"type": "start", "call_id": NUMBER[1:], "parameters": parameters, "greeting": WORDS})
        )
        for message in MESSAGES:
            await bridge.send(message if isinstance(message, str) else json.dumps(message))
        while json.loads(await bridge.recv()).get("reason") != "stop":
            pass
        bridge.transport.abort()


async def relay(service: Served) -> None:
    """A relay call on a signed path, which holds a secret, from a caller with a number."""
    path = "/v1/relay/twilio"
    url = service.http.replace("http", "ws") + path
    bridge = RelayBridge("twilio", call_id=f"CA{NUMBER[1:]}")
    async with connect(url, additional_headers=BEARER) as socket:
        now = asyncio.get_running_loop().time
        for frame in bridge.opening():
            setup = json.loads(frame) | {"from": NUMBER, "to": NUMBER, "callerName": WORDS}
            await socket.send(json.dumps(setup))
        said = bridge.say(WORDS, now())
        assert isinstance(said, list)
        for frame in said:
            await socket.send(frame)
        ended = False
        while not ended:
            facts, frames = bridge.receive(await socket.recv(), now())
            ended = any(isinstance(fact, ReplyEnded) for fact in facts)
            for frame in frames:
                await socket.send(frame)


async def refused(service: Served) -> None:
    """Upgrades with a wrong key, a wrong password and a wrong signature."""
    basic = base64.b64encode(f"{NUMBER}:{WRONG_KEY}".encode()).decode()
    for path, headers in (
        ("/v1/voice", {"Authorization": f"Bearer {WRONG_KEY}"}),
        ("/v1/jambonz", {"Authorization": f"Basic {basic}"}),
        (f"/v1/relay/twilio/{WRONG_KEY}", {}),
        (f"/v1/voice?token={WRONG_KEY}", {}),
    ):
        with pytest.raises(InvalidStatus):
            await connect(service.http.replace("http", "ws") + path, additional_headers=headers)


def posted(service: Served, path: str, body: object, key: str) -> None:
    """A request whose answer does not matter."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        urlopen(Request(service.http + path, json.dumps(body).encode(), headers), timeout=30).close()
    except HTTPError as error:
        error.close()


@pytest.mark.parametrize("level", ["debug", "info"])
def test_nothing_private_is_in_the_log_or_the_metrics(level: str, tmp_path: Path) -> None:
    settings = {
        "scripted.enabled": "true",
        "scripted.step_time_ms": "5",
        "voice.names": "[]",
        "log.level": level,
        "auth.api_keys": json.dumps([KEY]),
        "auth.signing_keys": json.dumps([SIGNING_KEY]),
        "auth.basic": json.dumps({NUMBER: PASSWORD}),
        "traces.endpoint": "http://127.0.0.1:9/v1/traces",  # where nobody listens: that is logged too
    }
    with served(settings) as service:
        for talk in (native, relay, refused):
            asyncio.run(asyncio.wait_for(talk(service), 60))
        for key in (KEY, WRONG_KEY):
            posted(service, f"/v1/calls/{NUMBER[1:]}/transcript", {"text": WORDS, "final": WORDS}, key)
            posted(service, "/v1/chat/completions", {"messages": [{"role": "user", "content": WORDS}]}, key)
            posted(service, "/v1/voice-token", {}, key)
        with urlopen(f"{service.http}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        assert "voicepace_turns_total" in metrics
    told = service.said
    assert "voicepace" in told
    assert [text for text in (*PRIVATE, *REPLY_WORDS) if text in told or text in metrics] == []
