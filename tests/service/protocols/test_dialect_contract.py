"""What every dialect keeps, tried against the bridge's side of it in virtual time."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from service.bridges.bridge import (
    AudioArrived,
    Bridge,
    Cleared,
    Fact,
    Refused,
    ReplyEnded,
    TextArrived,
    Transcript,
)
from service.bridges.catalog import BRIDGES
from service.playback_ledger import PlaybackLedger, mark_name
from service.protocols.catalog import CATALOG
from service.protocols.events import (
    BeginAudio,
    CallEnded,
    CallStarted,
    ClearAudio,
    Command,
    Dialect,
    DigitPressed,
    EndTurn,
    Event,
    Fault,
    FlowPaused,
    FlowResumed,
    Frame,
    HangUp,
    Interrupted,
    MarkReached,
    Ready,
    Reply,
    SendAudio,
    SendMark,
    SendToken,
    ToolCall,
    UserText,
)

WORDS = ["We", " open", " at", " nine,", " every", " day", " but", " Sunday."]


class NativeBridge:
    """A client of the native protocol, in text; enough of one for this suite."""

    dialect = "native"
    subprotocol = None
    audio = None
    heard_ms = 0.0

    def __init__(self, call_id: str = "c") -> None:
        self._call_id = call_id

    def opening(self) -> list[Frame]:
        return [json.dumps({"type": "start", "call_id": self._call_id})]

    def say(self, text: str, now: float) -> list[Frame] | Transcript:
        return [json.dumps({"type": "user_text", "text": text})]

    def interrupt(self, now: float) -> list[Frame]:
        return [json.dumps({"type": "interrupt"})]

    def press(self, digit: str) -> list[Frame]:
        return []

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        return []

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        message = json.loads(data)
        if message["type"] == "token":
            played = {"type": "played", "turn_id": message["turn_id"], "token_index": message["index"]}
            return [TextArrived(message["text"])], [json.dumps(played)]
        return ([ReplyEnded()] if message["type"] == "turn_end" else []), []

    def tick(self, now: float) -> list[Frame]:
        return []

    def hang_up(self) -> list[Frame]:
        return [json.dumps({"type": "end"})]


MAKERS: dict[str, Callable[..., Bridge]] = {**BRIDGES, "native": NativeBridge}
MAKERS["asterisk-json"] = lambda **options: BRIDGES["asterisk"](as_json=True, **options)
MAKERS["asterisk-30ms"] = lambda **options: BRIDGES["asterisk"](frame_bytes=240, **options)
every_dialect = pytest.mark.parametrize("name", sorted(MAKERS))
every_audio_dialect = pytest.mark.parametrize("name", sorted(name for name in MAKERS if MAKERS[name]().audio))


class Call:
    """A dialect and its bridge joined by a wire that delivers at once."""

    def __init__(self, name: str, echo: Callable[[list[Frame]], list[Frame]] = lambda frames: frames) -> None:
        self.bridge = MAKERS[name](call_id="call-7")
        self.dialect: Dialect = CATALOG[self.bridge.dialect].make()
        self.now = 100.0
        self.events: list[Event] = []
        self.facts: list[Fact] = []
        self.sent: list[Frame] = []
        self._echo = echo
        self.from_bridge(self.bridge.opening())
        self.audio = self.dialect.wants_audio
        self.ledger = PlaybackLedger(reports_position=self.dialect.reports_position)

    def from_bridge(self, frames: Iterable[Frame]) -> None:
        for frame in self._echo(list(frames)):
            for event in self.dialect.receive(frame, self.now):
                self.events.append(event)
                if isinstance(event, Reply):
                    self.to_bridge(event.frames)
                if isinstance(event, MarkReached):
                    self.ledger.mark(event.name, event.played, self.now)

    def to_bridge(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self.sent.append(frame)
            facts, answers = self.bridge.receive(frame, self.now)
            self.facts += facts
            self.from_bridge(answers)

    def command(self, command: Command) -> None:
        self.to_bridge(self.dialect.send(command, self.now))

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.02)):
            self.now += 0.02
            self.from_bridge(self.bridge.tick(self.now))
            if self.audio and self.bridge.audio is not None:
                self.from_bridge(self.bridge.caller_audio(b"\xff" * self.bridge.audio.frame_bytes, self.now))

    def say(self, text: str) -> None:
        said = self.bridge.say(text, self.now)
        if isinstance(said, Transcript):
            self.events.append(UserText(str(said.body["text"])))
        else:
            self.from_bridge(said)

    def unit(self, turn_id: int, number: int) -> None:
        """One word of the reply: a token, or 20 ms of audio with a mark behind it."""
        if not self.audio:
            self.ledger.sent_token(turn_id, number, WORDS[number], self.now)
            self.command(SendToken(turn_id, number, WORDS[number]))
            return
        start = len("".join(WORDS[:number]))
        self.ledger.add_text(turn_id, WORDS[number])
        self.command(SendAudio(turn_id, self.frame(turn_id)))
        mark = mark_name(turn_id, number)
        self.ledger.sent_audio(turn_id, start, start + len(WORDS[number]), 20.0, self.now, mark)
        self.command(SendMark(turn_id, mark))

    def frame(self, turn_id: int) -> bytes:
        assert self.bridge.audio is not None
        return bytes([turn_id + 1]) * self.bridge.audio.frame_bytes

    def reply(self, turn_id: int, upto: int = len(WORDS)) -> None:
        if self.audio:
            self.command(BeginAudio(turn_id))
        for number in range(upto):
            self.unit(turn_id, number)

    def finish(self, turn_id: int) -> None:
        self.command(EndTurn(turn_id, "stop"))
        self.ledger.finished(turn_id, self.now)

    def interrupt(self, turn_id: int) -> None:
        """The caller breaks in; the session clears and ends the turn, as it does for every dialect."""
        self.from_bridge(self.bridge.interrupt(self.now))
        told = next((event for event in reversed(self.events) if isinstance(event, Interrupted)), Interrupted())
        self.ledger.interrupted(turn_id, self.now, told.heard_text, told.heard_ms)
        self.command(ClearAudio(turn_id))
        self.command(EndTurn(turn_id, "interrupted"))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def arrived(self) -> str | bytes:
        """What the bridge got, in order."""
        if self.audio:
            return b"".join(fact.payload for fact in self.facts if isinstance(fact, AudioArrived))
        return "".join(fact.text for fact in self.facts if isinstance(fact, TextArrived))

    def refused(self) -> list[Refused]:
        return [fact for fact in self.facts if isinstance(fact, Refused)]


@every_dialect
def test_a_call_starts_once_and_names_itself(name: str) -> None:
    call = Call(name)
    [started] = call.of(CallStarted)
    assert started.call_id == "call-7"
    assert (started.audio is not None) == call.dialect.wants_audio
    assert started.audio == call.bridge.audio
    assert call.dialect.subprotocol == call.bridge.subprotocol
    call.command(Ready("call-7"))
    call.command(Fault("bad_message", "type: is missing", "type"))
    call.command(ToolCall(0, "id", "name", "{}"))
    assert call.refused() == []


@every_dialect
def test_two_turns_arrive_whole_and_in_order(name: str) -> None:
    call = Call(name)
    for turn in (0, 1):
        call.say("What are your hours?")
        call.reply(turn)
        call.finish(turn)
        call.wait(6.0)
    assert [event.text for event in call.of(UserText)] == ["What are your hours?"] * 2
    if call.audio:
        arrived = call.arrived()
        assert arrived == call.frame(0) * len(WORDS) + call.frame(1) * len(WORDS)
        marks = call.of(MarkReached)
        assert [mark.name for mark in marks] == [mark_name(turn, n) for turn in (0, 1) for n in range(len(WORDS))]
        assert all(mark.played for mark in marks)
    else:
        assert call.arrived() == "".join(WORDS) * 2
        assert call.facts.count(ReplyEnded()) == 2
    assert [call.ledger.heard(turn) for turn in (0, 1)] == ["".join(WORDS)] * 2
    assert call.refused() == []


@every_dialect
@pytest.mark.parametrize("point", range(len(WORDS) + 1))
@pytest.mark.parametrize("complete", [False, True])
def test_interrupted_at_every_point_nothing_of_the_old_turn_leaves(name: str, point: int, complete: bool) -> None:
    call = Call(name)
    call.say("What are your hours?")
    call.reply(0, point)
    if complete:
        call.finish(0)
    call.wait(0.06)
    call.interrupt(0)
    before = call.arrived()
    for number in range(point, len(WORDS)):
        if call.audio:
            call.command(SendAudio(0, call.frame(0)))
            call.command(SendMark(0, mark_name(0, number)))
        elif name != "native":  # it is the session that keeps a dead turn from a native client
            call.command(SendToken(0, number, WORDS[number]))
    assert call.arrived() == before
    call.wait(1.0)
    call.say("Pardon?")
    call.reply(1)
    call.finish(1)
    call.wait(6.0)
    after = call.arrived()[len(before) :]
    assert after == (call.frame(1) * len(WORDS) if call.audio else "".join(WORDS))
    sent = "".join(WORDS[:point])
    assert sent.startswith(call.ledger.heard(0))
    names = [mark.name for mark in call.of(MarkReached)]
    assert len(names) == len(set(names))
    assert call.ledger.heard(1) == "".join(WORDS)
    assert call.refused() == []


@every_dialect
def test_a_clear_reaches_the_bridge_after_generation_has_finished(name: str) -> None:
    call = Call(name)
    call.reply(0)
    call.finish(0)
    call.command(ClearAudio(0))
    clears = [fact for fact in call.facts if isinstance(fact, Cleared)]
    assert len(clears) == (1 if call.audio or name == "jambonz" else 0)


@every_audio_dialect
def test_cleared_marks_are_never_played(name: str) -> None:
    call = Call(name)
    call.reply(0)
    call.wait(0.06)
    call.interrupt(0)
    call.wait(1.0)
    played = [mark.name for mark in call.of(MarkReached) if mark.played]
    cleared = [mark.name for mark in call.of(MarkReached) if not mark.played]
    early = 1 if name == "asterisk-30ms" else 0  # a mark does not wait for the frame that is still filling
    assert played == [mark_name(0, number) for number in range(3 + early)]
    assert cleared == [mark_name(0, number) for number in range(3 + early, len(WORDS))]
    assert call.ledger.heard(0) == "".join(WORDS[: 3 + early])


@every_dialect
@pytest.mark.parametrize("point", range(len(WORDS) + 1))
def test_hung_up_at_every_point(name: str, point: int) -> None:
    call = Call(name)
    call.say("What are your hours?")
    call.reply(0, point)
    call.from_bridge(call.bridge.hang_up())
    assert len(call.of(CallEnded)) == (1 if call.bridge.hang_up() else 0)
    call.reply(0)
    call.finish(0)
    call.command(HangUp())
    call.ledger.call_ended()
    assert "queued" not in {piece.state for piece in call.ledger.pieces(0)}


@every_dialect
def test_doubled_answers_change_nothing(name: str) -> None:
    plain = Call(name)
    doubled = Call(name, echo=lambda frames: [frame for frame in frames for _ in range(2)])
    for call in (plain, doubled):
        call.reply(0)
        call.finish(0)
        call.wait(3.0)
    assert doubled.arrived() == plain.arrived()
    assert doubled.of(MarkReached) == plain.of(MarkReached)
    assert doubled.ledger.heard(0) == plain.ledger.heard(0)


@every_dialect
@pytest.mark.parametrize("seed", range(5))
def test_answers_out_of_order_raise_nothing_and_are_counted_once(name: str, seed: int) -> None:
    call, late = Call(name), []
    call._echo = lambda frames: late.extend(frames) or []  # type: ignore[func-returns-value]
    call.reply(0)
    call.finish(0)
    call.wait(1.0)
    random.Random(seed).shuffle(late)
    call._echo = lambda frames: frames
    call.from_bridge(list(late))
    if call.audio:
        names = [mark.name for mark in call.of(MarkReached)]
        assert sorted(names) == sorted(mark_name(0, number) for number in range(len(WORDS)))
        assert call.ledger.heard(0) == "".join(WORDS)
    call.from_bridge(late)
    call.wait(1.0)
    assert call.ledger.heard(0) == "".join(WORDS)


@every_dialect
def test_a_slow_reader_is_told_of_or_waited_for(name: str) -> None:
    call = Call(name)
    call._echo = lambda frames: []
    for number in range(2_000):
        if call.audio:
            call.command(SendAudio(0, call.frame(0)))
        else:
            call.command(SendToken(0, number, "word "))
    if name == "jambonz":
        assert call.arrived() == "word "  # one piece in flight, the rest waits
    if name.startswith("asterisk"):
        refused = len(call.refused())
        call = Call(name)
        while not call.of(FlowPaused):
            call.command(SendAudio(0, call.frame(0)))
        assert refused
        assert not call.refused()
        call.wait(20.0)
        assert call.of(FlowResumed)


@every_dialect
def test_digits_are_events(name: str) -> None:
    call = Call(name)
    frames = call.bridge.press("#")
    call.from_bridge(frames)
    assert [event.digit for event in call.of(DigitPressed)] == (["#"] if frames else [])


@every_audio_dialect
@pytest.mark.parametrize("size", [1, 80, 159, 161, 500])
def test_frames_out_hold_exactly_20_ms(name: str, size: int) -> None:
    call = Call(name)
    assert call.bridge.audio is not None
    width = 2 if call.bridge.audio.encoding == "pcm16" else 1
    for _ in range(7):
        call.command(SendAudio(0, b"\x55" * size * width))
    call.command(EndTurn(0, "stop"))
    total = len(call.arrived())
    assert total % call.bridge.audio.frame_bytes == 0
    assert 7 * size * width <= total < 7 * size * width + call.bridge.audio.frame_bytes
    pieces = [len(fact.payload) for fact in call.facts if isinstance(fact, AudioArrived)]
    if name != "asterisk-30ms":
        assert set(pieces) == {call.bridge.audio.frame_bytes}
    assert not call.refused()


@every_dialect
def test_the_catalog_knows_it(name: str) -> None:
    call = Call(name)
    entry = CATALOG[call.bridge.dialect]
    assert (entry.name, entry.surface) == (call.dialect.name, call.dialect.surface)
    assert entry.path.startswith("/v1/")
    assert entry.ping_interval_s is None if entry.name == "asterisk" else entry.ping_interval_s
