"""Asterisk's side of chan_websocket: a frame queue with flow control, marks in the queue, and its released faults."""

import json
from typing import Any

from service.bridges.bridge import AudioArrived, CallOver, Cleared, Fact, MarkArrived, Refused, Transcript
from service.bridges.speaker import Speaker
from service.protocols.events import AudioFormat, Frame

XOFF_FRAMES, XON_FRAMES, MAX_FRAMES = 900, 800, 1000
MAX_COMMAND_BYTES = 128


class AsteriskBridge:
    """One chan_websocket channel.

    Args:
        call_id: the channel's id.
        as_json: the JSON control form (`f(json)`).
        frame_bytes: the channel's own frame; pieces that do not fill it lose their tail.
    """

    dialect: str = "asterisk"
    subprotocol: str | None = "media"

    def __init__(self, call_id: str = "1700000000.1", as_json: bool = False, frame_bytes: int = 160) -> None:
        self.audio: AudioFormat | None = AudioFormat("mulaw", 8000)
        self._call_id = call_id
        self._json = as_json
        self._frame_bytes = frame_bytes
        self._speaker = Speaker(8000)
        self._buffering = False
        self._left = b""
        self._full = False

    @property
    def heard_ms(self) -> float:
        return self._speaker.played_ms

    def opening(self) -> list[Frame]:
        start = {"connection_id": "e226e283", "channel": "WebSocket/voicepace", "channel_id": self._call_id}
        form = {"format": "ulaw", "optimal_frame_size": self._frame_bytes, "ptime": self._frame_bytes // 8}
        return [self._event("MEDIA_START", {**start, **form, **({"channel_variables": {}} if self._json else {})})]

    def say(self, text: str, now: float) -> Transcript:
        return Transcript(f"/v1/calls/{self._call_id}/transcript", {"text": text, "final": True})

    def interrupt(self, now: float) -> list[Frame]:
        return []

    def press(self, digit: str) -> list[Frame]:
        return [self._event("DTMF_END", {"digit": digit})]

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        return [payload]

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        answers = self.tick(now)
        if isinstance(data, bytes):
            facts, more = self._media(data, now)
            return facts, [*answers, *more]
        if len(data.encode()) > MAX_COMMAND_BYTES:
            return [Refused("a command over 128 bytes is ignored")], answers
        if data.startswith("{"):
            body = json.loads(data)
            name, correlation_id = body["command"], body.get("correlation_id")
        else:
            name, _, rest = data.partition(" ")
            correlation_id = rest or None
        facts, more = self._obey(name, correlation_id, now)
        return facts, [*answers, *more]

    def _media(self, data: bytes, now: float) -> tuple[list[Fact], list[Frame]]:
        frames = self._speaker.queued_s * 50
        if frames >= MAX_FRAMES:
            return [Refused("the queue is full")], []
        data = self._left + data if self._buffering else data
        whole = len(data) // self._frame_bytes * self._frame_bytes
        self._left = data[whole:] if self._buffering else b""
        facts: list[Fact] = [AudioArrived(data[:whole])] if whole else []
        if whole < len(data) and not self._buffering:
            facts.append(Refused("the tail of an odd piece is dropped"))
        self._speaker.push(data[:whole], now)
        if not self._full and self._speaker.queued_s * 50 >= XOFF_FRAMES:
            self._full = True
            return facts, [self._event("MEDIA_XOFF", {})]
        return facts, []

    def _obey(self, name: str, correlation_id: str | None, now: float) -> tuple[list[Fact], list[Frame]]:
        match name:
            case "MARK_MEDIA":
                self._speaker.mark(correlation_id or "")
                return [MarkArrived(correlation_id or "")], self.tick(now)
            case "FLUSH_MEDIA":
                self._speaker.clear()  # the marks in it are never acknowledged
                self._buffering, self._left, self._full = False, b"", False
                return [Cleared()], []
            case "HANGUP":
                return [CallOver()], []
            case "START_MEDIA_BUFFERING":
                self._buffering = True
                return [], []
            case "STOP_MEDIA_BUFFERING":
                left, self._left, self._buffering = self._left, b"", False
                if left:
                    self._speaker.push(left + b"\xff" * (self._frame_bytes - len(left)), now)
                facts: list[Fact] = [AudioArrived(left)] if left else []
                return facts, [self._event("MEDIA_BUFFERING_COMPLETED", {})]
            case "CONTINUE_MEDIA" | "PAUSE_MEDIA" | "ANSWER" | "GET_STATUS" | "REPORT_QUEUE_DRAINED":
                return [], []
        return [Refused(f"unknown command {name}")], [self._event("ERROR", {"error_text": "unknown"})]

    def tick(self, now: float) -> list[Frame]:
        met = self._speaker.advance(now)
        frames = [self._event("MEDIA_MARK_PROCESSED", {"correlation_id": name} if name else {}) for name in met]
        if self._full and self._speaker.queued_s * 50 < XON_FRAMES:
            self._full = False
            frames.append(self._event("MEDIA_XON", {}))
        return frames

    def hang_up(self) -> list[Frame]:
        return []  # the socket just closes

    def _event(self, name: str, body: dict[str, Any]) -> Frame:
        if self._json:
            return json.dumps({"event": name, **body})
        return " ".join([name, *(f"{key}:{value}" for key, value in body.items())])
