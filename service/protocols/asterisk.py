"""Asterisk chan_websocket: raw audio in binary frames, control in text frames, plain or JSON.

The control form is taken from the first text frame: `{` means JSON (20.18, 22.8, 23.2 and later, when asked for); plain
text is the default everywhere. Sources: Asterisk documentation "WebSocket channel driver"; chan_websocket.c.

Limits that are kept here:
- A text frame over 128 bytes is silently ignored, so a mark's name has at most 64 characters and no space.
- A binary message over 65,500 bytes ends the call; ours hold one 20 ms frame.
- A piece that does not fill a frame of the channel loses its tail. Where the channel's frame does not divide ours, the
  audio of a turn goes between START_MEDIA_BUFFERING and STOP_MEDIA_BUFFERING. A mark then comes back up to one frame of
  the channel early, since it does not wait for the frame that is still filling.
- About 1000 frames are queued; MEDIA_XOFF and MEDIA_XON become `FlowPaused` and `FlowResumed`.

Faults of released versions that are survived:
- FLUSH_MEDIA leaves the channel paused, so CONTINUE_MEDIA follows it.
- FLUSH_MEDIA drops queued marks, which are then never acknowledged: they are settled here as cleared.
- FLUSH_MEDIA may leave the queue length as it was (#1304), and then MEDIA_XON never comes: a flush ends a pause here.
- STOP_MEDIA_BUFFERING with an id crashes (#1384): it is sent without one.
- WebSocket pings (#1722) and continuation frames (#1941) hang up the call: the catalog turns pings off, and every
  message is one short frame.

What it cannot say: no transcript (it comes by `/v1/calls/{call_id}/transcript`), no sign of barge-in (it is found in
the caller's audio), no error message (`Fault` sends nothing). In passthrough and unbuffered mode Asterisk queues
nothing and knows neither marks nor flush: `reports_position` turns False with `CallStarted`.

Pure: no I/O, no clock; never raises for what the peer sent.
"""

import json
import re
from typing import Any

from service.protocols.dead_turns import DeadTurns
from service.protocols.events import (
    AudioFormat,
    BadMessage,
    BeginAudio,
    CallerAudio,
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
    SendAudio,
    SendMark,
)
from service.protocols.fields import MAX_NAME_CHARS, BadField, Body
from service.protocols.framing import FrameCutter
from service.protocols.marks import Marks

FORMATS = {
    "ulaw": AudioFormat("mulaw", 8000),
    "alaw": AudioFormat("alaw", 8000),
    "slin": AudioFormat("pcm16", 8000),
    "slin16": AudioFormat("pcm16", 16000),
    "slin24": AudioFormat("pcm16", 24000),
    "slin48": AudioFormat("pcm16", 48000),
}
MAX_MESSAGE_BYTES = 65_500
MARK_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
KEYS = frozenset(
    {
        *(
            "connection_id",
            "channel",
            "channel_id",
            "format",
            "optimal_frame_size",
            "ptime",
            "passthrough",
            "unbuffered",
        ),
        *("digit", "correlation_id", "error_text"),
        *("queue_length", "xon_level", "xoff_level", "queue_full", "bulk_media", "media_paused"),
    }
)
QUIET = frozenset({"STATUS", "MEDIA_BUFFERING_COMPLETED", "QUEUE_DRAINED"})


class AsteriskDialect:
    """One call over chan_websocket."""

    name: str = "asterisk"
    surface: str = "asterisk"
    subprotocol: str | None = "media"
    wants_audio: bool = True
    captions: bool = False

    def __init__(self) -> None:
        self.reports_position = True
        self._json: bool | None = None
        self._audio: AudioFormat | None = None
        self._cutter = FrameCutter(FORMATS["ulaw"])
        self._marks = Marks()
        self._dead = DeadTurns()
        self._needs_buffering = False
        self._buffering = False
        self._paused = False
        self._owed: list[Event] = []  # what a flush settled, told with the next message

    # In

    def receive(self, data: Frame, now: float) -> list[Event]:
        owed, self._owed = self._owed, []
        if isinstance(data, bytes):
            return [*owed, self._caller_audio(data)]
        if self._json is None:
            self._json = data.lstrip().startswith("{")
        kind = ""
        try:
            body = Body.parse(data) if data.lstrip().startswith("{") else _plain(data)
            kind = body.text("event")
            return [*owed, *self._events(kind, body)]
        except BadField as fault:
            return [*owed, BadMessage(fault.field, fault.reason, kind)]

    def _caller_audio(self, data: bytes) -> Event:
        if self._audio is None:
            return BadMessage("audio", "MEDIA_START must come first")
        if not 0 < len(data) <= MAX_MESSAGE_BYTES:
            return BadMessage("audio", f"a message holds 1 to {MAX_MESSAGE_BYTES} bytes")
        if self._audio.encoding == "pcm16" and len(data) % 2:
            return BadMessage("audio", "must hold an even number of bytes")
        return CallerAudio(data)

    def _events(self, kind: str, body: Body) -> list[Event]:
        match kind:
            case "MEDIA_START":
                return [self._call_started(body)]
            case "DTMF_END":
                return [DigitPressed(body.digit("digit"))]
            case "MEDIA_XOFF":
                self._paused = True
                return [FlowPaused()]
            case "MEDIA_XON":
                self._paused = False
                return [FlowResumed()]
            case "MEDIA_MARK_PROCESSED":
                name = body.optional_text("correlation_id") or self._marks.oldest()
                reached = self._marks.returned(name) if name else None
                return [] if reached is None else [reached]
            case "ERROR":
                return [BadMessage("message", "the bridge refused a message of ours", kind)]
        return [] if kind in QUIET else [Ignored()]

    def _call_started(self, body: Body) -> CallStarted:
        if self._audio is not None:
            raise body.bad("event", "MEDIA_START may be sent once only")
        audio = FORMATS.get(body.text("format").lower())
        if audio is None:
            raise body.bad("format", "must be one of " + ", ".join(FORMATS))
        channel_frame = int(body.number("optimal_frame_size", MAX_MESSAGE_BYTES) or 0)
        parameters = body.parameters("channel_variables")
        call_id = body.optional_text("channel_id", 512) or body.optional_text("connection_id", 512)
        unqueued = body.flag("passthrough", False) or body.flag("unbuffered", False)
        self._needs_buffering = not unqueued and channel_frame > 0 and audio.frame_bytes % channel_frame != 0
        self.reports_position = not unqueued
        self._audio = audio
        self._cutter = FrameCutter(audio)
        return CallStarted(call_id, audio, parameters)

    # Out

    def send(self, command: Command, now: float) -> list[Frame]:
        if isinstance(command, HangUp):
            return [self._command("HANGUP")]
        if self._audio is None:
            return []
        match command:
            case BeginAudio(turn_id) if self._dead.admits(turn_id):
                return self._start_buffering()
            case SendAudio(turn_id, payload) if self._dead.admits(turn_id):
                return [*self._start_buffering(), *self._cutter.push(payload)]
            case SendMark(turn_id, name):
                return self._mark(turn_id, name)
            case ClearAudio(turn_id):
                return self._clear(turn_id)
            case EndTurn(turn_id, "stop" | "length" | "tool_calls") if self._dead.admits(turn_id):
                return [*self._cutter.flush(), *self._stop_buffering()]
        return []

    def _mark(self, turn_id: int, name: str) -> list[Frame]:
        if not self.reports_position or not self._dead.admits(turn_id) or not MARK_NAME.fullmatch(name):
            return []
        self._marks.sent(name, turn_id)
        return [*self._cutter.flush(), self._command("MARK_MEDIA", name)]

    def _clear(self, turn_id: int) -> list[Frame]:
        self._dead.end(turn_id)
        self._cutter.reset()
        self._buffering = False  # a flush ends it
        if not self.reports_position:
            return []
        self._marks.clear(turn_id)
        self._owed += self._marks.give_up()
        if self._paused:
            self._paused = False
            self._owed.append(FlowResumed())
        return [self._command("FLUSH_MEDIA"), self._command("CONTINUE_MEDIA")]

    def _start_buffering(self) -> list[Frame]:
        if not self._needs_buffering or self._buffering:
            return []
        self._buffering = True
        return [self._command("START_MEDIA_BUFFERING")]

    def _stop_buffering(self) -> list[Frame]:
        if not self._buffering:
            return []
        self._buffering = False
        return [self._command("STOP_MEDIA_BUFFERING")]

    def _command(self, name: str, correlation_id: str | None = None) -> str:
        if not self._json:
            return name if correlation_id is None else f"{name} {correlation_id}"
        body = {"command": name}
        if correlation_id is not None:
            body["correlation_id"] = correlation_id
        return json.dumps(body, separators=(",", ":"))


def _plain(data: str) -> Body:
    """`NAME key:value key:value`; a word that is no known key's is the correlation id."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadField("message", f"longer than {MAX_MESSAGE_BYTES} characters")
    name, *words = data.split() or [""]
    if not name:
        raise BadField("message", "is empty")
    if len(name) > MAX_NAME_CHARS:
        raise BadField("event", f"longer than {MAX_NAME_CHARS} characters")
    fields: dict[str, Any] = {}
    for word in words:
        key, colon, value = word.partition(":")
        if colon and key in KEYS:
            fields[key] = value
        elif name != "ERROR":
            fields.setdefault("correlation_id", word)
    return Body({**fields, "event": name})
