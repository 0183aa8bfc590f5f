"""jambonz application WebSocket: text out as streamed tokens, the caller's words in by a background gather.

The first message is acknowledged at once with the verbs that turn both on; jambonz drops a call that waits longer than
about five seconds. Sources: jambonz documentation "WebSocket API" (session:new, verb:hook, tts:tokens,
tts:tokens-result, tts:streaming-event); feature server ws-requestor.js, call-session.js, tts-streaming-buffer.js.

Rules of its buffer that are kept here:
- One `tts:tokens` is in flight; the next goes out when its result is there. `ok` means accepted, not played.
- A piece holds at most 1000 UTF-16 units: a longer one is refused for ever.
- `full` keeps the piece at the head until `stream_resumed`; should that never come, it is tried again after a while.
- White space alone is thrown away by an empty buffer, so it waits for the text behind it.
- `tts:flush` goes out behind the last piece, never before it.
- `user_interruption` has emptied the bridge's buffer: what waits here goes too.

What it cannot say: how far the speech has come. `reports_position` is False, and what was heard is estimated. There is
no error message (`Fault` sends nothing); a hook with a broken body is still acknowledged, so the call goes on.

Pure: no I/O, no clock; never raises for what the peer sent.
"""

import json
from collections import deque
from typing import Any

from service.protocols.dead_turns import DeadTurns
from service.protocols.events import (
    BadMessage,
    CallEnded,
    CallStarted,
    ClearAudio,
    Command,
    DigitPressed,
    EndTurn,
    Event,
    FlowPaused,
    FlowResumed,
    Frame,
    HangUp,
    Ignored,
    Interrupted,
    Reply,
    SendToken,
    UserText,
)
from service.protocols.fields import DIGITS, MAX_TEXT_CHARS, BadField, Body, clean

MAX_PIECE_UNITS = 1_000
MAX_WAITING_CHARS = 64_000
RETRY_S = 5.0
HOOK = "/voicepace"
OVER = frozenset({"completed", "failed", "no-answer", "busy", "canceled"})
ACKNOWLEDGED = frozenset(
    {"session:new", "session:reconnect", "session:redirect", "session:adulting", "verb:hook", "dial:confirm"}
)
SETUP: list[dict[str, Any]] = [
    {
        "verb": "config",
        "ttsStream": {"enable": True},
        "bargeIn": {
            "enable": True,
            "sticky": True,
            "minBargeinWordCount": 1,
            "actionHook": HOOK,
            "input": ["speech", "digits"],
        },
    }
]


class JambonzDialect:
    """One call of a jambonz application."""

    name: str = "jambonz"
    surface: str = "jambonz"
    subprotocol: str | None = "ws.jambonz.org"
    wants_audio: bool = False
    reports_position: bool = False
    captions: bool = False

    def __init__(self) -> None:
        self._started = False
        self._speech = TokenQueue()
        self._dead = DeadTurns()

    # In

    def receive(self, data: Frame, now: float) -> list[Event]:
        kind, ack = "", []
        try:
            body = Body.parse(data)
            kind = body.text("type")
            ack = self._acknowledge(kind, body)
            return [*ack, *self._overdue(now), *self._events(kind, body, now)]
        except BadField as fault:
            return [*ack, BadMessage(fault.field, fault.reason, kind)]

    def _acknowledge(self, kind: str, body: Body) -> list[Event]:
        if kind not in ACKNOWLEDGED:
            return []
        verbs = SETUP if kind == "session:new" and not self._started else []
        return [Reply((_dump({"type": "ack", "msgid": body.text("msgid"), "data": verbs}),))]

    def _events(self, kind: str, body: Body, now: float) -> list[Event]:
        match kind:
            case "session:new" | "session:reconnect":
                return [self._call_started(body)]
            case "verb:hook":
                return _said(body.optional_child("data"))
            case "call:status":
                status = body.child("data").text("call_status")
                return [CallEnded(status)] if status in OVER else []
            case "tts:tokens-result":
                return self._result(body.child("data"), now)
            case "tts:streaming-event":
                return self._stream_event(body.child("data").text("event_type"), now)
            case "jambonz:error":
                return [BadMessage("message", "the bridge refused a message of ours", kind)]
            case "session:redirect" | "session:adulting" | "verb:status" | "dial:confirm":
                return []
        return [Ignored()]

    def _overdue(self, now: float) -> list[Event]:
        """Text that was held for a resumption that never came."""
        if not self._speech.stalled(now):
            return []
        frames = self._speech.resume(now)
        return [FlowResumed(), *([Reply(tuple(frames))] if frames else [])]

    def _call_started(self, body: Body) -> CallStarted:
        if self._started:
            raise body.bad("type", "the session has started already")
        call_id = body.text("call_sid", 512)
        data = body.optional_child("data")
        parameters = data.parameters("customerData") | data.parameters("customer_data")
        self._started = True
        return CallStarted(call_id, None, parameters)

    def _result(self, data: Body, now: float) -> list[Event]:
        status, reason = data.text("status"), data.optional_text("reason", 1_000)
        frames = self._speech.answered(data.text("id"), status == "ok", reason == "full", now)
        events: list[Event] = [Reply(tuple(frames))] if frames else []
        if status != "ok" and reason != "full":
            events.append(BadMessage("tokens", "the bridge refused a piece of the reply", "tts:tokens-result"))
        return events

    def _stream_event(self, event_type: str, now: float) -> list[Event]:
        match event_type:
            case "stream_paused":
                self._speech.pause(now)
                return [FlowPaused()]
            case "stream_resumed":
                frames = self._speech.resume(now)
                return [FlowResumed(), *([Reply(tuple(frames))] if frames else [])]
            case "user_interruption":
                was_paused = self._speech.clear()
                self._dead.end_newest()
                return [Interrupted(), *([FlowResumed()] if was_paused else [])]
        return []

    # Out

    def send(self, command: Command, now: float) -> list[Frame]:
        match command:
            case SendToken(turn_id, _, text):
                return self._speech.push(turn_id, clean(text), now) if self._dead.admits(turn_id) else []
            case EndTurn(turn_id, "stop" | "length" | "tool_calls"):
                return self._speech.end(turn_id, now) if self._dead.admits(turn_id) else []
            case EndTurn(turn_id) | ClearAudio(turn_id):
                self._dead.end(turn_id)
                self._speech.clear()
                return [_command("tts:clear")] if isinstance(command, ClearAudio) else []
            case HangUp():
                return [_command("redirect", [{"verb": "hangup"}])]
        return []


class TokenQueue:
    """What waits to be spoken, one piece in flight. Beyond `MAX_WAITING_CHARS` the newest text is dropped."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, str]] = deque()  # turn, text; an empty text is the flush that ends the turn
        self._chars = 0
        self._in_flight: tuple[str, int, str] | None = None  # id, turn, text
        self._next_id = 0
        self._paused_at: float | None = None

    def push(self, turn_id: int, text: str, now: float) -> list[Frame]:
        """Frames to send now that `text` waits too."""
        if text and self._chars + len(text) <= MAX_WAITING_CHARS:
            self._waiting.append((turn_id, text))
            self._chars += len(text)
        return self._next(now)

    def end(self, turn_id: int, now: float) -> list[Frame]:
        """The turn's text is complete: flush behind it."""
        self._waiting.append((turn_id, ""))
        return self._next(now)

    def answered(self, piece_id: str, accepted: bool, full: bool, now: float) -> list[Frame]:
        """The result of a piece; of one that is not in flight, nothing."""
        if self._in_flight is None or self._in_flight[0] != piece_id:
            return []
        _, turn_id, text = self._in_flight
        self._in_flight = None
        if not accepted and full:
            self._waiting.appendleft((turn_id, text))
            self._chars += len(text)
            self.pause(now)
            return []
        return self._next(now)

    def pause(self, now: float) -> None:
        self._paused_at = now

    def stalled(self, now: float) -> bool:
        return self._paused_at is not None and now - self._paused_at >= RETRY_S

    def resume(self, now: float) -> list[Frame]:
        self._paused_at = None
        return self._next(now)

    def clear(self) -> bool:
        """Forget everything, a piece in flight too. True where it was paused; an emptied buffer takes text again."""
        self._waiting.clear()
        self._chars = 0
        self._in_flight = None
        was_paused = self._paused_at is not None
        self._paused_at = None
        return was_paused

    def _next(self, now: float) -> list[Frame]:
        if self._in_flight is not None:
            return []
        if self._paused_at is not None and not self.stalled(now):
            return []
        self._paused_at = None
        frames: list[Frame] = []
        while self._waiting and self._in_flight is None:
            turn_id, text = self._take()
            if text.strip():
                self._in_flight = (str(self._next_id), turn_id, text)
                frames.append(_command("tts:tokens", {"id": str(self._next_id), "tokens": text}))
                self._next_id += 1
            elif self._waiting and self._waiting[0] == (turn_id, ""):
                self._waiting.popleft()
                frames.append(_command("tts:flush"))
            elif not self._waiting:  # white space alone waits for the text behind it
                self._waiting.append((turn_id, text))
                self._chars += len(text)
                break
        return frames

    def _take(self) -> tuple[int, str]:
        """As much of the first turn's text as one piece may hold; it stops before the flush that ends the turn."""
        turn_id, text, units = self._waiting[0][0], "", 0
        while self._waiting and self._waiting[0][0] == turn_id and self._waiting[0][1]:
            _, more = self._waiting.popleft()
            fitting = _fitting(more, MAX_PIECE_UNITS - units)
            text += fitting
            units += _units(fitting)
            self._chars -= len(fitting)
            if len(fitting) < len(more):
                self._waiting.appendleft((turn_id, more[len(fitting) :]))
                break
        return turn_id, text


def _said(data: Body) -> list[Event]:
    """The caller's words and digits from a gather's hook."""
    events: list[Event] = []
    speech = data.optional_child("speech")
    for transcript in [speech, *speech.children("transcripts")]:
        for alternative in transcript.children("alternatives", 1):
            text = alternative.text("transcript", MAX_TEXT_CHARS).strip()
            if text:
                language = transcript.optional_text("language_code", 35)
                events.append(UserText(text, transcript.flag("is_final", speech.flag("is_final", True)), language))
    digits = (data.optional_text("digits", 64) or "").upper()
    if not DIGITS.issuperset(digits):
        raise data.bad("digits", "must be 0-9 * # A-D")
    return [*events, *(DigitPressed(digit) for digit in digits)]


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _fitting(text: str, units: int) -> str:
    """The longest head of `text` within so many UTF-16 units."""
    if _units(text) <= units:
        return text
    head = text[: max(units, 0)]
    while _units(head) > units:
        head = head[: len(head) - max(1, (_units(head) - units) // 2)]
    return head


def _command(name: str, data: Any = None) -> str:
    body: dict[str, Any] = {"type": "command", "command": name, "queueCommand": False}
    if data is not None:
        body["data"] = data
    return _dump(body)


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
