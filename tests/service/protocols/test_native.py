import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.protocols import native
from service.protocols.events import (
    AudioFormat,
    BadMessage,
    BeginAudio,
    CallEnded,
    CallerAudio,
    CallStarted,
    ClearAudio,
    Command,
    EndTurn,
    Event,
    Fault,
    HangUp,
    Ignored,
    Interrupted,
    Played,
    Ready,
    SendAudio,
    SendMark,
    SendToken,
    ToolCall,
    ToolResult,
    UserText,
)
from service.protocols.native import NativeDialect

README = Path(native.__file__).with_name("README.md").read_text(encoding="utf-8")
MULAW = '{"type":"start","audio":{"encoding":"mulaw"}}'


def examples(direction: str) -> list[str]:
    return re.findall(rf"^```json {direction}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def started(start: str = '{"type":"start"}') -> NativeDialect:
    dialect = NativeDialect()
    [event] = dialect.receive(start, 0.0)
    assert isinstance(event, CallStarted)
    return dialect


def receive(message: dict[str, Any]) -> Event:
    dialect = NativeDialect() if message.get("type") == "start" else started()
    [event] = dialect.receive(json.dumps(message), 0.0)
    return event


# What the examples of the README must mean, one entry for each, in its order.
IN_EVENTS: list[Event] = [
    CallStarted(),
    CallStarted(
        call_id="c-17",
        audio=AudioFormat("mulaw", 8000),
        system_prompt="You answer the phone of a bakery.",
        greeting="Good morning!",
        parameters={"caller": "anonymous"},
        tools=(
            {
                "type": "function",
                "function": {
                    "name": "opening_hours",
                    "description": "Hours of one weekday",
                    "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
                },
            },
        ),
    ),
    UserText("What are your", final=False),
    UserText("What are your hours?", language="en-US"),
    Interrupted(),
    Interrupted(heard_ms=1240.0),
    Interrupted(heard_text="We open at"),
    Played(3, audio_ms=860.0),
    Played(3, token_index=17),
    ToolResult("t-1", '{"open": "07:00", "close": "18:00"}'),
    CallEnded("hangup"),
]
OUT_COMMANDS: list[Command] = [
    Ready("c-17"),
    SendToken(3, 2, " open", 1, 131.4),
    BeginAudio(3),
    ClearAudio(3),
    EndTurn(3, "interrupted", "We open at", {"ttft_ms": 88.2, "first_audio_ms": 190.4, "engine_tit_ms": 16.1}),
    ToolCall(3, "t-1", "opening_hours", '{"day": "Monday"}'),
    Fault("bad_message", "Input should be 'pcm16', 'mulaw' or 'alaw'", "audio.encoding"),
    HangUp("draining"),
]


@pytest.mark.parametrize(("example", "event"), zip(examples("in"), IN_EVENTS, strict=True))
def test_readme_example_in(example: str, event: Event) -> None:
    dialect = NativeDialect() if isinstance(event, CallStarted) else started()
    assert dialect.receive(example, 0.0) == [event]


@pytest.mark.parametrize(("example", "command"), zip(examples("out"), OUT_COMMANDS, strict=True))
def test_readme_example_out(example: str, command: Command) -> None:
    frames = started(MULAW).send(command, 0.0)
    assert [json.loads(frame) for frame in frames] == [json.loads(example)]


def test_readme_shows_every_message_type() -> None:
    assert {json.loads(example)["type"] for example in examples("in")} == native.IN_TYPES
    assert {json.loads(example)["type"] for example in examples("out")} == native.OUT_TYPES
    bodies = get_args(get_args(native.InBody)[0])
    assert {get_args(body.model_fields["type"].annotation)[0] for body in bodies} == native.IN_TYPES


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"type": "start", "audio": {"encoding": "opus"}}, "audio.encoding"),
        ({"type": "start", "audio": {"sample_rate_hz": 44100}}, "audio.sample_rate_hz"),
        ({"type": "start", "audio": {"sample_rate_hz": 8000.5}}, "audio.sample_rate_hz"),
        ({"type": "start", "audio": {"encoding": "mulaw", "sample_rate_hz": 16000}}, "audio.sample_rate_hz"),
        ({"type": "start", "audio": {"channels": 2}}, "audio.channels"),
        ({"type": "start", "audio": "mulaw"}, "audio"),
        ({"type": "start", "call_id": "a b"}, "call_id"),
        ({"type": "start", "voice": "joe"}, "voice"),
        ({"type": "start", "parameters": {"a": None}}, "parameters.a"),
        (
            {"type": "start", "tools": [{"type": "function", "function": {"name": "not a name"}}]},
            "tools.0.function.name",
        ),
        ({"type": "user_text"}, "text"),
        ({"type": "user_text", "text": 5}, "text"),
        ({"type": "user_text", "text": "x" * 8001}, "text"),
        ({"type": "user_text", "text": "x", "final": "perhaps"}, "final"),
        ({"type": "interrupt", "heard_ms": -1}, "heard_ms"),
        ({"type": "interrupt", "heard_ms": "inf"}, "heard_ms"),
        ({"type": "played", "turn_id": 1}, "audio_ms"),
        ({"type": "played", "audio_ms": 1}, "turn_id"),
        ({"type": "played", "turn_id": 1, "token_index": 1.5}, "token_index"),
        ({"type": "played", "turn_id": "9" * 5000, "token_index": 1}, "turn_id"),
        ({"type": "tool_result", "tool_call_id": "", "content": ""}, "tool_call_id"),
        ({"type": "end", "reason": 3}, "reason"),
        ({}, "type"),
        ({"type": 7}, "type"),
    ],
)
def test_bad_message_names_the_field(message: dict[str, Any], field: str) -> None:
    dialect = NativeDialect() if message.get("type") == "start" else started()
    [event] = dialect.receive(json.dumps(message), 0.0)
    assert isinstance(event, BadMessage)
    assert event.field == field
    assert event.reason
    # The call goes on.
    follow = '{"type":"start"}' if message.get("type") == "start" else '{"type":"user_text","text":"hi"}'
    assert not isinstance(dialect.receive(follow, 0.0)[0], BadMessage)


@pytest.mark.parametrize(
    "data", ["", "{", "[]", "null", "3", '"start"', "[" * 100_000, '{"type":"user_text","text":"\\ud800"}']
)
def test_not_an_object(data: str) -> None:
    [event] = started().receive(data, 0.0)
    assert isinstance(event, BadMessage)
    assert event.field == "message"


def test_numbers_may_be_text_or_float() -> None:
    assert receive({"type": "played", "turn_id": "3", "token_index": 4.0}) == Played(3, token_index=4)
    assert receive({"type": "played", "turn_id": 3.0, "audio_ms": "40.5"}) == Played(3, audio_ms=40.5)
    start = receive({"type": "start", "audio": {"sample_rate_hz": "16000.0"}, "parameters": {"extension": 12}})
    assert start == CallStarted(audio=AudioFormat("pcm16", 16000), parameters={"extension": "12"})


def test_unknown_type_is_ignored() -> None:
    assert receive({"type": "telemetry", "anything": [1]}) == Ignored()


def test_start_comes_first_and_once() -> None:
    dialect = NativeDialect()
    early = dialect.receive('{"type":"user_text","text":"hello"}', 0.0)
    assert early == [BadMessage("type", "the first message must be start", "user_text")]
    assert dialect.receive(MULAW, 0.0) == [CallStarted(audio=AudioFormat("mulaw", 8000))]
    assert dialect.receive('{"type":"start"}', 0.0) == [BadMessage("type", "start may be sent once only", "start")]
    assert dialect.wants_audio
    assert dialect.receive('{"type":"user_text","text":"hello"}', 0.0) == [UserText("hello")]


def test_caller_audio() -> None:
    assert started(MULAW).receive(b"\xff" * 160, 0.0) == [CallerAudio(b"\xff" * 160)]
    pcm = started('{"type":"start","audio":{}}')
    assert pcm.receive(bytes(320), 0.0) == [CallerAudio(bytes(320))]
    for wrong in (bytes(321), b"", bytes(native.MAX_AUDIO_BYTES + 2)):
        [event] = pcm.receive(wrong, 0.0)
        assert isinstance(event, BadMessage)
        assert event.field == "audio"


def test_audio_in_a_text_call_is_refused_once() -> None:
    dialect = started()
    assert dialect.receive(bytes(160), 0.0) == [BadMessage("audio", "this call has no audio")]
    assert dialect.receive(bytes(160), 0.0) == [Ignored()]


def test_text_call_gets_no_audio() -> None:
    dialect = started()
    assert not dialect.wants_audio
    for command in (BeginAudio(1), SendAudio(1, b"x"), ClearAudio(1), SendMark(1, "m")):
        assert dialect.send(command, 0.0) == []
    assert json.loads(dialect.send(Ready("c"), 0.0)[0]) == {"type": "ready", "call_id": "c", "audio": None}


def test_audio_of_a_turn_is_announced_once_even_if_the_session_does_not() -> None:
    dialect = started(MULAW)
    frames = (
        dialect.send(BeginAudio(1), 0.0) + dialect.send(SendAudio(1, b"a"), 0.0) + dialect.send(SendAudio(2, b"b"), 0.0)
    )
    kinds = [frame if isinstance(frame, bytes) else json.loads(frame)["turn_id"] for frame in frames]
    assert kinds == [1, b"a", 2, b"b"]


def test_what_cannot_be_json_is_left_out() -> None:
    [frame] = started().send(EndTurn(1, "stop", timings_ms={"ttft_ms": float("nan"), "engine_tit_ms": 1.23456}), 0.0)
    assert json.loads(frame) == {
        "type": "turn_end",
        "turn_id": 1,
        "reason": "stop",
        "timings_ms": {"engine_tit_ms": 1.235},
    }


@given(st.text(st.characters(), max_size=30))
def test_token_text_survives(text: str) -> None:
    [frame] = started().send(SendToken(1, 0, text), 0.0)
    assert isinstance(frame, str)
    sent = json.loads(frame.encode("utf-8"))
    assert sent == {
        "type": "token",
        "turn_id": 1,
        "index": 0,
        "text": text.encode("utf-8", "replace").decode(),
        "burst": 0,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for body in get_args(get_args(native.InBody)[0]) for name in body.model_fields})
MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(native.IN_TYPES)) | JSON},
    optional={name: JSON for name in FIELDS if name != "type"},
)


@given(st.lists(MESSAGES.map(json.dumps) | st.text(st.characters()) | st.binary(max_size=8), max_size=6))
def test_never_raises(messages: list[str | bytes]) -> None:
    dialect = NativeDialect()
    for data in messages:
        [event] = dialect.receive(data, 0.0)
        assert isinstance(event, get_args(Event))


def test_a_refusal_does_not_repeat_what_was_said() -> None:
    secret = "my card number is 4242"
    for message in (
        {"type": "user_text", "text": [secret]},
        {"type": "user_text", "text": "x", "final": secret},
        {"type": "played", "turn_id": secret},
        {"type": "start", "audio": {"encoding": secret}},
        {"type": secret},
    ):
        assert secret not in repr(receive(message))
    [event] = started().receive(json.dumps({"type": "end", "x" * 5000: 1}), 0.0)
    assert isinstance(event, BadMessage)
    assert len(event.field) <= native.MAX_NAME_CHARS
