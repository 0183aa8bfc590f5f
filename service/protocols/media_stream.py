"""Media streams: JSON text frames with base64 audio, both ways. Twilio, SignalWire, Telnyx and Plivo, by a table.

Audio in and out is in the one format that `CallStarted` names. Frames out hold exactly 20 ms. Marks tell what was
played.

What it cannot say:
- It carries no transcript: the caller's words come by `/v1/calls/{call_id}/transcript`, from the platform's recogniser.
- No sign that the caller broke in: that is found in the caller's audio.
- No message ends the call: `HangUp` sends nothing, and closing the socket goes on with the operator's call script.
- No error message: `Fault` sends nothing.
- Telnyx: `start` names the format of what we receive alone. The stream must be set up with the same format both ways
  (`stream_bidirectional_mode: rtp`, `stream_bidirectional_codec: PCMU`).

Twilio, SignalWire and Telnyx return every pending mark on a clear; those are cleared, not played. Plivo confirms the
clear with `clearedAudio` and drops its checkpoints, so a checkpoint that comes back before the confirmation was played.

Pure: no I/O, no clock; never raises for what the peer sent.
"""

import base64
import json
from typing import Any

from service.protocols.dead_turns import DeadTurns
from service.protocols.events import (
    AudioFormat,
    BadMessage,
    CallEnded,
    CallerAudio,
    CallStarted,
    ClearAudio,
    Command,
    DigitPressed,
    EndTurn,
    Event,
    Frame,
    Ignored,
    SendAudio,
    SendMark,
)
from service.protocols.fields import MAX_NAME_CHARS, BadField, Body
from service.protocols.framing import ChunkOrder, FrameCutter
from service.protocols.marks import Marks
from service.protocols.media_tables import CONTENT_TYPES, ENCODINGS, SAMPLE_RATES_HZ, TABLES, MediaTable

MAX_COUNT = 2**53  # chunk numbers, and timestamps that some count from 1970


class MediaStreamDialect:
    """One call over a media stream.

    Args:
        vendor: `twilio`, `signalwire`, `telnyx` or `plivo`.
    """

    surface: str = "media"
    subprotocol: str | None = None
    wants_audio: bool = True
    reports_position: bool = True
    captions: bool = False

    def __init__(self, vendor: str = "twilio") -> None:
        self._table: MediaTable = TABLES[vendor]
        self.name = f"{vendor}-media"
        self._audio: AudioFormat | None = None
        self._stream_id = ""
        self._cutter = FrameCutter(self._table.default_audio)
        self._order = ChunkOrder()
        self._marks = Marks()
        self._dead = DeadTurns()
        self._cleared_turn = -1

    # In

    def receive(self, data: Frame, now: float) -> list[Event]:
        kind = ""
        try:
            body = Body.parse(data)
            kind = body.text("event")
            return self._events(kind, body)
        except BadField as fault:
            return [BadMessage(fault.field, fault.reason, kind)]

    def _events(self, kind: str, body: Body) -> list[Event]:
        table = self._table
        if kind == "start":
            return [self._call_started(body)]
        if kind == "stop":
            return [CallEnded("stop")]
        if kind == "connected":
            return []
        if kind == "error":
            return [BadMessage("message", "the bridge refused a message of ours", kind)]
        if kind not in ("media", "dtmf", table.mark_in, table.cleared_in):
            return [Ignored()]
        if self._audio is None:
            raise body.bad("event", "start must come first")
        if kind == "media":
            return self._caller_audio(body.child("media"))
        if kind == "dtmf":
            return [DigitPressed(body.child("dtmf").digit("digit"))]
        if kind == table.cleared_in:
            self._marks.clear(self._cleared_turn)
            return [*self._marks.give_up()]
        name = (body if table.flat_marks else body.child("mark")).text("name")
        reached = self._marks.returned(name)
        return [] if reached is None else [reached]

    def _call_started(self, body: Body) -> CallStarted:
        if self._audio is not None:
            raise body.bad("event", "start may be sent once only")
        table, start = self._table, body.child("start")
        stream_id = start.optional_text(table.stream_id) or body.optional_text(table.stream_id)
        if not stream_id and table.out_stream_id:
            raise body.bad(table.stream_id, "is missing")
        audio = self._format(start.optional_child(table.format_name))
        ids = [start.optional_text(name, 512) for name in table.call_ids]
        parameters = start.parameters(table.parameters) if table.parameters else {}
        if table.extra_headers:
            parameters |= _headers(body.optional_text(table.extra_headers, 1024) or "")
        self._stream_id, self._audio = stream_id or "", audio
        self._cutter = FrameCutter(audio)
        return CallStarted(next((call_id for call_id in ids if call_id), None), audio, parameters)

    def _format(self, body: Body) -> AudioFormat:
        default = self._table.default_audio
        named = body.optional_text("encoding")
        encoding = default.encoding if named is None else ENCODINGS.get(named.partition(";")[0].strip().lower())
        if encoding is None:
            raise body.bad("encoding", "must be mu-law, A-law or linear PCM")
        rate_hz = body.number(self._table.rate_name)
        rate_hz = default.sample_rate_hz if rate_hz is None else rate_hz
        if rate_hz not in SAMPLE_RATES_HZ:
            raise body.bad(self._table.rate_name, "must be 8000, 16000 or 24000")
        if (body.number("channels") or 1) != 1:
            raise body.bad("channels", "must be 1")
        return AudioFormat(encoding, int(rate_hz))

    def _caller_audio(self, media: Body) -> list[Event]:
        if (media.optional_text("track") or "inbound") not in ("inbound", "inbound_track"):
            return []
        payload = media.audio("payload")
        if self._audio is not None and self._audio.encoding == "pcm16" and len(payload) % 2:
            raise media.bad("payload", "must hold an even number of bytes")
        timestamp_ms = media.number("timestamp", MAX_COUNT)
        chunk = None if self._table.ordered else media.number("chunk", MAX_COUNT)
        if chunk is None:
            return [CallerAudio(payload, timestamp_ms)]
        return [CallerAudio(*ready) for ready in self._order.push(int(chunk), payload, timestamp_ms)]

    # Out

    def send(self, command: Command, now: float) -> list[Frame]:
        if self._audio is None:
            return []
        match command:
            case SendAudio(turn_id, payload):
                if not self._dead.admits(turn_id):
                    return []
                return [self._media(frame, self._audio) for frame in self._cutter.push(payload)]
            case SendMark(turn_id, name):
                return self._mark(turn_id, name, self._audio)
            case ClearAudio(turn_id):
                self._dead.end(turn_id)
                self._cutter.reset()
                self._cleared_turn = max(self._cleared_turn, turn_id)
                if not self._table.cleared_in:
                    self._marks.clear(turn_id)
                return [self._dump({"event": self._table.clear_out})]
            case EndTurn(turn_id, "stop" | "length" | "tool_calls") if self._dead.admits(turn_id):
                return [self._media(frame, self._audio) for frame in self._cutter.flush()]
        return []

    def _mark(self, turn_id: int, name: str, audio: AudioFormat) -> list[Frame]:
        if not self._dead.admits(turn_id) or not 0 < len(name) <= MAX_NAME_CHARS:
            return []
        self._marks.sent(name, turn_id)
        mark = {"name": name} if self._table.flat_marks else {"mark": {"name": name}}
        rest: list[Frame] = [self._media(frame, audio) for frame in self._cutter.flush()]
        return [*rest, self._dump({"event": self._table.mark_out, **mark})]

    def _media(self, frame: bytes, audio: AudioFormat) -> str:
        media: dict[str, Any] = {}
        if self._table.labels_audio:
            media = {"contentType": CONTENT_TYPES[audio.encoding], "sampleRate": audio.sample_rate_hz}
        media["payload"] = base64.b64encode(frame).decode("ascii")
        return self._dump({"event": self._table.media_out, "media": media})

    def _dump(self, body: dict[str, Any]) -> str:
        if self._table.out_stream_id:
            body[self._table.stream_id] = self._stream_id
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _headers(text: str) -> dict[str, str]:
    """Plivo's extra headers: a JSON object, or `name=value` pairs between commas or semicolons."""
    if text.lstrip().startswith("{"):
        try:
            return Body({"extra_headers": json.loads(text)}).parameters("extra_headers")
        except (ValueError, RecursionError, BadField):
            return {}
    pairs = (pair.partition("=") for pair in text.replace(";", ",").split(","))
    return {name.strip()[:MAX_NAME_CHARS]: value.strip() for name, _, value in pairs if name.strip()}
