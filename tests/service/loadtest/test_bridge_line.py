"""Each bridge as a simulated caller's line, against the service's own dialect."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.bridges.bridge import Transcript
from service.bridges.catalog import BRIDGES
from service.loadtest.bridge_line import CLEAR_WITHIN_S, BridgeLine
from service.loadtest.line import NativeLine
from service.protocols.catalog import CATALOG
from service.protocols.events import (
    CallerAudio,
    CallStarted,
    ClearAudio,
    Command,
    Dialect,
    EndTurn,
    Event,
    Frame,
    Interrupted,
    Ready,
    SendAudio,
    SendToken,
    UserText,
)

TEXT = ["twilio-relay", "telnyx-relay", "jambonz"]
AUDIO = ["twilio-media", "telnyx-media", "signalwire-media", "plivo-media", "asterisk"]


class Notes:
    """An ear that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def ready(self) -> None:
        self.heard.append(("ready",))

    def token(self, turn_id: int, text: str, index: int, now: float) -> None:
        self.heard.append(("token", turn_id, text))

    def audio(self, turn_id: int, frames: int, now: float) -> None:
        self.heard.append(("audio", turn_id, frames))

    def cleared(self, turn_id: int, now: float) -> None:
        self.heard.append(("cleared", turn_id))

    def turn_ended(self, turn_id: int, reason: str, timings_ms: Mapping[str, float], now: float) -> None:
        self.heard.append(("ended", turn_id, reason))

    def fault(self, code: str) -> None:
        self.heard.append(("fault", code))

    def ended(self) -> None:
        self.heard.append(("over",))


class Call:
    """A line and the service's dialect, joined."""

    def __init__(self, name: str) -> None:
        self.dialect: Dialect = CATALOG[name].make()
        bridge = BRIDGES[name](call_id="c-1")
        self.frame = bytes(bridge.audio.frame_bytes) if bridge.audio else b""
        self.line = BridgeLine(bridge)
        self.ear = Notes()
        self.started = self.up(self.line.start(self.ear))

    def up(self, frames: list[Frame] | Transcript) -> list[Event]:
        assert isinstance(frames, list)
        events = [event for frame in frames for event in self.dialect.receive(frame, 0.0)]
        for event in events:
            # What the protocol owes at once goes straight back.
            for frame in getattr(event, "frames", ()):
                self.up(self.line.receive(frame, 0.0, self.ear))
        return events

    def down(self, now: float, *commands: Command) -> None:
        for command in commands:
            for frame in self.dialect.send(command, now):
                self.up(self.line.receive(frame, now, self.ear))

    def take(self) -> list[tuple[Any, ...]]:
        heard, self.ear.heard = self.ear.heard, []
        return heard


def test_every_bridge_is_covered() -> None:
    assert sorted(TEXT + AUDIO) == sorted(BRIDGES)


@pytest.mark.parametrize("name", TEXT + AUDIO)
def test_the_call_begins(name: str) -> None:
    call = Call(name)
    assert any(isinstance(event, CallStarted) for event in call.started)
    assert call.take()[0] == ("ready",)
    assert call.line.has_audio is (name in AUDIO)


@pytest.mark.parametrize("name", TEXT)
def test_text_turn(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    call.take()
    for turn in (1, 2):
        said = call.up(call.line.said("hello there", True, float(turn)))
        assert [event.text for event in said if isinstance(event, UserText)] == ["hello there"]
        call.down(turn + 0.1, SendToken(turn, 0, "Good"), SendToken(turn, 1, " day"), EndTurn(turn, "stop"))
        heard = call.take()
        assert "".join(note[2] for note in heard if note[0] == "token") == "Good day"
        assert {note[1] for note in heard} == {turn}
        assert heard[-1] == ("ended", turn, "stop")


@pytest.mark.parametrize("name", TEXT)
def test_text_interrupt_is_understood(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    call.up(call.line.said("hello", True, 1.0))
    call.down(1.1, SendToken(1, 0, "Good day to you"))
    events = call.up(call.line.interrupt(None, 2.0))
    assert any(isinstance(event, Interrupted) for event in events)


@pytest.mark.parametrize("name", AUDIO)
def test_audio_turn_and_barge_in_by_speaking(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    call.take()
    frame = call.frame
    assert isinstance(call.line.said("hello", True, 1.0), Transcript)
    call.down(1.1, SendAudio(1, frame), SendAudio(1, frame))
    assert sum(note[2] for note in call.take() if note[0] == "audio" and note[1] == 1) == 2
    assert isinstance(call.line.said("wait", True, 1.12), Transcript)
    call.down(1.13, SendAudio(1, frame))
    assert call.take() == [("audio", 1, 1)]  # on its way when the caller spoke
    call.down(1.14, ClearAudio(1), EndTurn(1, "interrupted"))
    assert ("ended", 1, "interrupted") in call.take()
    call.down(1.3, SendAudio(2, frame))
    assert ("audio", 2, 1) in call.take()


@pytest.mark.parametrize("name", AUDIO)
def test_speaking_after_the_reply_needs_no_clear(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    call.line.said("hello", True, 1.0)
    call.down(1.1, SendAudio(1, call.frame))
    call.take()
    call.line.said("and then", True, 1.12)  # the frame was the last of the reply: nothing will be cleared
    late = 1.12 + CLEAR_WITHIN_S + 0.01
    call.down(late, SendAudio(2, call.frame))
    assert ("audio", 2, 1) in call.take()


@pytest.mark.parametrize("name", AUDIO)
def test_caller_audio_arrives(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    events = call.up(call.line.caller_audio(1.0))
    assert [len(event.payload) for event in events if isinstance(event, CallerAudio)] == [len(call.frame)]


@pytest.mark.parametrize("name", TEXT + AUDIO)
def test_partial_transcripts_are_not_final(name: str) -> None:
    call = Call(name)
    call.down(0.0, Ready("c-1"))
    said = call.line.said("hel", False, 1.0)
    if isinstance(said, Transcript):
        assert said.body["final"] is False
    else:
        assert not any(isinstance(event, UserText) and event.final for event in call.up(said))


def test_native_line_speaks_the_native_dialect() -> None:
    for line in (NativeLine(), NativeLine("mulaw"), NativeLine("pcm16", 16000)):
        dialect, ear = CATALOG["native"].make(), Notes()
        frames = [
            *line.start(ear),
            *line.said("hel", False, 0.0),
            *line.said("hello", True, 0.0),
            *line.tick(1, 40.0 if line.has_audio else None, 3, 0.0),
            *line.interrupt(120.0 if line.has_audio else None, 0.0),
            *line.caller_audio(0.0),
            *line.end(),
        ]
        events = [event for frame in frames for event in dialect.receive(frame, 0.0)]
        names = [type(event).__name__ for event in events]
        audio = ["CallerAudio"] if line.has_audio else []
        assert names == ["CallStarted", "UserText", "UserText", "Played", "Interrupted", *audio, "CallEnded"]
        commands: list[Command] = [Ready("c"), SendToken(1, 0, "a"), SendAudio(1, b"\xff" * 160), EndTurn(1, "stop")]
        for command in commands:
            for frame in dialect.send(command, 0.0):
                line.receive(frame, 0.0, ear)
        heard = [("audio", 1, 1)] if line.has_audio else []
        assert ear.heard == [("ready",), ("token", 1, "a"), *heard, ("ended", 1, "stop")]
