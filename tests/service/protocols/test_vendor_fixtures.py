"""Every recorded-form sequence under tests/fixtures, line by line; the format is described in its README."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.protocols import events
from service.protocols.catalog import CATALOG
from service.protocols.events import Event, Frame

FIXTURES = Path(__file__).parents[2] / "fixtures"
SEQUENCES = sorted(FIXTURES.glob("*/*.jsonl"))


def audio(value: dict[str, Any]) -> bytes:
    return bytes.fromhex(value["hex"]) * value["times"]


def frame(value: str | dict[str, Any]) -> Frame:
    """What stands in a fixture, as it goes over the wire."""
    if isinstance(value, str):
        return value
    return bytes.fromhex(value["binary_hex"]) if "binary_hex" in value else json.dumps(value)


def same_frame(sent: Frame, expected: str | dict[str, Any]) -> bool:
    if isinstance(expected, str) or "binary_hex" in expected:
        return sent == frame(expected)
    return isinstance(sent, str) and json.loads(sent) == expected


def check_event(event: Event, expected: dict[str, Any]) -> None:
    """Of an event, the fields that the fixture names."""
    fields = dict(expected)
    assert type(event).__name__ == fields.pop("kind"), event
    for name, value in fields.items():
        actual = getattr(event, name)
        if name == "payload":
            assert actual == audio(value)
        elif name == "audio" and value is not None:
            assert (actual.encoding, actual.sample_rate_hz) == (value["encoding"], value["sample_rate_hz"])
        elif name == "frames":
            assert len(actual) == len(value)
            assert all(map(same_frame, actual, value)), actual
        else:
            assert actual == value, name


def command(fields: dict[str, Any]) -> Any:
    values = {name: audio(value) if name == "payload" else value for name, value in fields.items() if name != "kind"}
    return getattr(events, fields["kind"])(**values)


@pytest.mark.parametrize("path", SEQUENCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sequence(path: Path) -> None:
    dialect = CATALOG[path.parent.name.replace("_", "-")].make()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        step = json.loads(line)
        now = number * 0.1
        if "bridge" in step:
            seen = dialect.receive(frame(step["bridge"]), now)
            assert len(seen) == len(step["events"]), (number, seen)
            for event, expected in zip(seen, step["events"], strict=True):
                check_event(event, expected)
        else:
            sent = dialect.send(command(step["command"]), now)
            assert len(sent) == len(step["frames"]), (number, sent)
            assert all(map(same_frame, sent, step["frames"])), (number, sent)


def test_every_dialect_but_the_native_has_sequences() -> None:
    assert {path.parent.name.replace("_", "-") for path in SEQUENCES} == set(CATALOG) - {"native"}
