"""ConversationRelay: the platform hears and speaks, text goes both ways. Twilio and Telnyx.

The two share names and differ in authentication and in the call's id. `utteranceUntilInterrupt` tells what was heard.
Sources: Twilio "ConversationRelay WebSocket messages", Telnyx "Conversation Relay WebSocket channel".

What it cannot say:
- There is no message that drops speech already handed over: `ClearAudio` sends nothing. With Twilio every token carries
  `preemptible` instead, so that the next reply replaces what is left of the old one. Telnyx documents no such field.
- There is no error message: an unknown one would be reported as error 64107, so `Fault` sends nothing.
- A wrong message of ours comes back as `error` and is lost; it becomes a `BadMessage` to be counted.
- No audio, no marks, no tools.

Pure: no I/O, no clock; never raises for what the peer sent.
"""

import json
from typing import Any

from service.protocols.dead_turns import DeadTurns
from service.protocols.events import (
    BadMessage,
    CallStarted,
    ClearAudio,
    Command,
    DigitPressed,
    EndTurn,
    Event,
    Frame,
    HangUp,
    Ignored,
    Interrupted,
    SendToken,
    UserText,
)
from service.protocols.fields import MAX_TEXT_CHARS, BadField, Body, clean

MAX_UTTERANCE_CHARS = 32_000
CALL_ID_FIELDS = {
    "twilio": ("callSid", "sessionId"),
    "telnyx": ("callControlId", "callSid", "sessionId"),
}


class RelayDialect:
    """One call over ConversationRelay.

    Args:
        vendor: `twilio` or `telnyx`.
    """

    surface: str = "relay"
    subprotocol: str | None = None
    wants_audio: bool = False
    reports_position: bool = True
    captions: bool = False

    def __init__(self, vendor: str = "twilio") -> None:
        self.name = f"{vendor}-relay"
        self._call_id_fields = CALL_ID_FIELDS[vendor]
        self._is_twilio = vendor == "twilio"
        self._started = False
        self._dead = DeadTurns()
        self._open_turn: int | None = None  # has sent text, and no `last` yet

    def receive(self, data: Frame, now: float) -> list[Event]:
        kind = ""
        try:
            body = Body.parse(data)
            kind = body.text("type")
            return self._events(kind, body)
        except BadField as fault:
            return [BadMessage(fault.field, fault.reason, kind)]

    def _events(self, kind: str, body: Body) -> list[Event]:
        if kind not in ("setup", "prompt", "dtmf", "interrupt", "error"):
            return [Ignored()]
        if self._started == (kind == "setup"):
            raise body.bad(
                "type", "setup may be sent once only" if self._started else "the first message must be setup"
            )
        match kind:
            case "setup":
                return [self._call_started(body)]
            case "prompt":
                language = body.optional_text("lang", 35)
                return [UserText(body.text("voicePrompt", MAX_TEXT_CHARS), body.flag("last", True), language)]
            case "dtmf":
                return [DigitPressed(body.digit("digit"))]
            case "interrupt":
                return self._interrupted(body)
        return [BadMessage("message", "the bridge refused a message of ours", kind)]

    def _call_started(self, body: Body) -> CallStarted:
        ids = [body.optional_text(name, 512) for name in self._call_id_fields]
        parameters = body.parameters("customParameters")
        self._started = True
        return CallStarted(next((call_id for call_id in ids if call_id), None), None, parameters)

    def _interrupted(self, body: Body) -> list[Event]:
        """The platform has stopped speaking by itself. A broken field costs that field, not the interruption."""
        self._dead.end_newest()
        self._open_turn = None
        heard_text: str | None = None
        heard_ms: float | None = None
        faults: list[Event] = []
        try:
            heard_text = body.optional_text("utteranceUntilInterrupt", MAX_UTTERANCE_CHARS)
        except BadField as fault:
            faults.append(BadMessage(fault.field, fault.reason, "interrupt"))
        try:
            heard_ms = body.number("durationUntilInterruptMs")
        except BadField as fault:
            faults.append(BadMessage(fault.field, fault.reason, "interrupt"))
        return [Interrupted(heard_text, heard_ms), *faults]

    def send(self, command: Command, now: float) -> list[Frame]:
        match command:
            case SendToken(turn_id, _, text):
                if not text or not self._dead.admits(turn_id):
                    return []
                self._open_turn = turn_id
                return [self._text(text, last=False)]
            case ClearAudio(turn_id):
                self._dead.end(turn_id)
            case EndTurn(turn_id):
                return self._end_turn(turn_id)
            case HangUp(reason):
                handoff = {"handoffData": json.dumps({"reason": reason})} if self._is_twilio else {}
                return [_dump({"type": "end", **handoff})]
        return []

    def _end_turn(self, turn_id: int) -> list[Frame]:
        """An empty last token ends the talk cycle, once, and only where one is open."""
        self._dead.end(turn_id)
        if self._open_turn is None or self._open_turn > turn_id:
            return []
        self._open_turn = None
        return [self._text("", last=True)]

    def _text(self, token: str, last: bool) -> str:
        body: dict[str, Any] = {"type": "text", "token": clean(token), "last": last}
        if self._is_twilio:
            body["preemptible"] = True
        return _dump(body)


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
