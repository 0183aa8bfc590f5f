"""Frames no bridge should send: none of them may raise, and none of their words may come back in an answer.

Valid messages are mutated: values replaced, fields dropped, renamed and doubled, text cut and garbled, orders mixed. The
seeds are fixed, so a failure repeats. `make prove` sends 100,000 to each dialect, `make test` a few.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from service.protocols import events
from service.protocols.catalog import CATALOG
from service.protocols.events import (
    BadMessage,
    ClearAudio,
    Command,
    Dialect,
    EndTurn,
    Fault,
    Frame,
    HangUp,
    SendAudio,
    SendMark,
    SendToken,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
EVENT_TYPES = get_args(events.Event)
SECRET = "canary"
NATIVE: list[Any] = [
    {"type": "start", "audio": {"encoding": "mulaw", "sample_rate_hz": 8000}, "parameters": {"a": "b"}},
    {"type": "start"},
    {"type": "user_text", "text": "Hello there", "final": True, "language": "en"},
    {"type": "interrupt", "heard_ms": 12, "heard_text": "Hel"},
    {"type": "played", "turn_id": 0, "audio_ms": 20, "token_index": 3},
    {"type": "tool_result", "tool_call_id": "t", "content": "{}"},
    {"type": "end"},
    {"binary_hex": "7f" * 160},
]
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, -(2**70), 10**400, 1.5, -0.0, 1e308, "", " ", "0", "-1", "1e999", "NaN", "٣"),
    *(
        "true",
        SECRET,
        SECRET * 3_000,
        "\ud800",
        "\x00",
        "é" * 70,
        "😀",
        [],
        {},
        [[]],
        [None],
        {"": None},
        {SECRET: SECRET},
    ),
    *([SECRET], [{}] * 20, {"type": SECRET}, {"event": "media"}, "AAAA", "====", "A" * 200_000, "application/json"),
]


def corpus(name: str) -> list[Any]:
    if name == "native":
        return NATIVE
    folder = FIXTURES / name.replace("-", "_")
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    return [line["bridge"] for line in lines if "bridge" in line]


class Mutator:
    """Turns valid frames into others."""

    def __init__(self, name: str, seed: int) -> None:
        self._random = random.Random(f"{name} {seed}")
        self._corpus = corpus(name)

    def frames(self, count: int) -> Iterator[Frame]:
        for _ in range(count):
            yield self._frame(self._random.choice(self._corpus))

    def _frame(self, valid: Any) -> Frame:
        roll = self._random.random()
        if isinstance(valid, dict) and "binary_hex" in valid:
            data = bytes.fromhex(valid["binary_hex"])
            return data if roll < 0.5 else self._random.randbytes(self._random.choice([0, 1, 159, 320, 70_000]))
        text = valid if isinstance(valid, str) else json.dumps(self._mutated(valid) if roll > 0.2 else valid)
        if roll > 0.75 or isinstance(valid, str) and roll > 0.3:
            text = self._garbled(text)
        return text.encode("utf-8", "replace") if roll > 0.98 else text

    def _mutated(self, value: Any, depth: int = 0) -> Any:
        """A copy with one place changed, sometimes more."""
        if not isinstance(value, dict | list) or not value or self._random.random() < 0.15 * depth:
            return self._random.choice(ODD)
        copy = json.loads(json.dumps(value))
        keys = list(copy) if isinstance(copy, dict) else list(range(len(copy)))
        key = self._random.choice(keys)
        roll = self._random.random()
        if roll < 0.15 and isinstance(copy, dict):
            del copy[key]
        elif roll < 0.25 and isinstance(copy, dict):
            copy[self._random.choice([SECRET, "type", "event", "data", "media", ""])] = copy.pop(key)
        elif roll < 0.35:
            copy[key] = {"nested": copy[key]}
        else:
            copy[key] = self._mutated(copy[key], depth + 1)
        return self._mutated(copy) if self._random.random() < 0.2 else copy

    def _garbled(self, text: str) -> str:
        at = self._random.randrange(len(text) + 1)
        piece = self._random.choice(
            ["", "{", "}", '"', ":", ",", "\\u", "\x00", "[" * 5_000, "9" * 5_000, SECRET, "\ud83d", " "]
        )
        return text[:at] + piece + text[at + self._random.randrange(4) :] if self._random.random() < 0.8 else text[:at]


def commands(turn_id: int, number: int) -> list[Command]:
    """Everything a session may say, in any state of the call."""
    frame = bytes([number % 256]) * (160 if number % 3 else 37)
    return [
        SendToken(turn_id, number, "word " if number % 5 else ""),
        SendAudio(turn_id, frame),
        SendMark(turn_id, f"t{turn_id}:{number}"),
        EndTurn(turn_id, "stop"),
        ClearAudio(turn_id),
        EndTurn(turn_id, "interrupted"),
        Fault("bad_message", "message: not valid JSON", "message"),
        HangUp(),
    ]


def check(dialect: Dialect, frame: Frame, now: float) -> None:
    for event in dialect.receive(frame, now):
        assert isinstance(event, EVENT_TYPES)
        if isinstance(event, BadMessage):
            assert event.field
            assert len(event.field) <= 300
            assert SECRET * 2 not in event.field + event.reason
        if isinstance(event, events.CallerAudio):
            assert event.payload


def fuzz(name: str, count: int, seed: int) -> None:
    """A fresh call every 40 frames, half of them properly opened, with commands in between."""
    opening = [frame for frame in corpus(name) if str(frame).find("start") >= 0 or str(frame).find("se") >= 0]
    dialect, shuffled = CATALOG[name].make(), random.Random(seed)
    for number, frame in enumerate(Mutator(name, seed).frames(count)):
        now = number * 0.01
        if number % 40 == 0:
            dialect = CATALOG[name].make()
            first = shuffled.choice(opening)
            if shuffled.random() < 0.5 and "binary_hex" not in first:
                check(dialect, first if isinstance(first, str) else json.dumps(first), now)
        check(dialect, frame, now)
        if number % 2:
            for sent in dialect.send(shuffled.choice(commands(number % 40 // 10, number)), now):
                assert isinstance(sent, str | bytes)
                assert len(sent) <= 24 * 1024


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_two_thousand_mutated_frames(name: str) -> None:
    fuzz(name, 2_000, seed=1)


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(CATALOG))
def test_a_hundred_thousand_mutated_frames(name: str) -> None:
    fuzz(name, 100_000, seed=2)


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_the_mutations_reach_both_sides(name: str) -> None:
    """Enough stays valid to get past the checks, and enough does not."""
    dialect, kinds = CATALOG[name].make(), set()
    for number, frame in enumerate(Mutator(name, 3).frames(1_500)):
        kinds |= {type(event).__name__ for event in dialect.receive(frame, float(number))}
    assert {"BadMessage", "CallStarted"} <= kinds
    assert len(kinds) >= 5
