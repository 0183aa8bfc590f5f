"""jambonz's side of its application WebSocket: a token buffer with water marks, a gather in the background."""

import json
from typing import Any

from service.bridges.bridge import CallOver, Cleared, Fact, Refused, ReplyEnded, TextArrived
from service.bridges.speaker import Reader
from service.protocols.events import AudioFormat, Frame

HIGH_WATER_CHARS, LOW_WATER_CHARS = 1000, 200
MAX_PAYLOAD_BYTES = 24 * 1024


class JambonzBridge:
    """One jambonz call.

    Args:
        call_id: the call's sid.
        chars_per_s: speed of the streaming voice.
    """

    dialect: str = "jambonz"
    subprotocol: str | None = "ws.jambonz.org"
    audio: AudioFormat | None = None

    def __init__(self, call_id: str = "c-test", chars_per_s: float = 16.0) -> None:
        self._call_id = call_id
        self._reader = Reader(chars_per_s)
        self._messages = 0
        self._hook: str | None = None
        self._paused = False

    @property
    def heard_ms(self) -> float:
        return 0.0

    def opening(self) -> list[Frame]:
        data = {"call_sid": self._call_id, "direction": "inbound", "from": "+15550100", "to": "+15550199"}
        return [self._message("session:new", data)]

    def say(self, text: str, now: float) -> list[Frame]:
        speech = {"is_final": True, "language_code": "en-US", "alternatives": [{"confidence": 0.9, "transcript": text}]}
        return [self._message("verb:hook", {"reason": "speechDetected", "speech": speech}, hook=self._hook or "/")]

    def interrupt(self, now: float) -> list[Frame]:
        self._drop()
        return [self._message("tts:streaming-event", {"event_type": "user_interruption"})]

    def press(self, digit: str) -> list[Frame]:
        return [self._message("verb:hook", {"reason": "dtmfDetected", "digits": digit}, hook=self._hook or "/")]

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        return []

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        if isinstance(data, bytes) or len(data.encode()) > MAX_PAYLOAD_BYTES:
            return [Refused("only text frames up to 24 KiB are taken")], []
        message = json.loads(data)
        if message["type"] == "ack":
            for verb in message["data"]:
                if verb["verb"] == "config" and "bargeIn" in verb:
                    self._hook = verb["bargeIn"]["actionHook"]
            return [], self._event("stream_open") if self._hook and self._messages == 1 else []
        if message["type"] != "command":
            return [Refused(f"unknown type {message['type']}")], [self._message("jambonz:error", {})]
        match message["command"]:
            case "tts:tokens":
                return self._tokens(message["data"]["id"], message["data"]["tokens"], now)
            case "tts:flush":
                return [ReplyEnded()], []
            case "tts:clear":
                self._drop()
                return [Cleared()], []
            case "redirect" if message["data"] == [{"verb": "hangup"}]:
                return [CallOver()], []
        return [Refused(f"unknown command {message['command']}")], [self._message("jambonz:error", {})]

    def _tokens(self, piece_id: str, text: str, now: float) -> tuple[list[Fact], list[Frame]]:
        self._reader.advance(now)
        waiting = self._reader.waiting_chars
        if waiting + len(text) > HIGH_WATER_CHARS:
            self._paused = True
            result = {"id": piece_id, "status": "failed", "reason": "full"}
            return [], [self._message("tts:tokens-result", result), *self._event("stream_paused")]
        if not waiting and not text.strip():
            return [Refused("white space is dropped by an empty buffer")], []
        self._reader.push(text, now)
        return [TextArrived(text)], [self._message("tts:tokens-result", {"id": piece_id, "status": "ok"})]

    def tick(self, now: float) -> list[Frame]:
        self._reader.advance(now)
        if self._paused and self._reader.waiting_chars < LOW_WATER_CHARS:
            self._paused = False
            return self._event("stream_resumed")
        return []

    def hang_up(self) -> list[Frame]:
        return [self._message("call:status", {"call_status": "completed"})]

    def _drop(self) -> None:
        self._reader.reset()
        self._paused = False

    def _event(self, event_type: str) -> list[Frame]:
        return [self._message("tts:streaming-event", {"event_type": event_type})]

    def _message(self, kind: str, data: dict[str, Any], hook: str | None = None) -> Frame:
        self._messages += 1
        body: dict[str, Any] = {"type": kind, "msgid": f"m{self._messages}", "call_sid": self._call_id, "data": data}
        if hook is not None:
            body["hook"] = hook
        return json.dumps(body)
