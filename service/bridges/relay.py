"""The platform's side of ConversationRelay: recognises, speaks, and says what was spoken when the caller broke in."""

import json
from typing import Any

from service.bridges.bridge import CallOver, Fact, Refused, ReplyEnded, TextArrived
from service.bridges.speaker import Reader
from service.protocols.events import AudioFormat, Frame

OUT_TYPES = frozenset({"text", "play", "sendDigits", "language", "end"})


class RelayBridge:
    """Twilio or Telnyx ConversationRelay.

    Args:
        vendor: `twilio` or `telnyx`.
        call_id: of the call.
        chars_per_s: speed of the platform's voice.
    """

    subprotocol: str | None = None
    audio: AudioFormat | None = None

    def __init__(self, vendor: str = "twilio", call_id: str = "CA-test", chars_per_s: float = 16.0) -> None:
        self.dialect = f"{vendor}-relay"
        self._vendor = vendor
        self._call_id = call_id
        self._reader = Reader(chars_per_s)
        self._cycle_over = True

    @property
    def heard_ms(self) -> float:
        return 0.0

    def opening(self) -> list[Frame]:
        ids: dict[str, str] = {"sessionId": "VX-test", "callSid": self._call_id, "accountSid": "AC-test"}
        if self._vendor == "telnyx":
            ids = {"sessionId": "s-test", "callControlId": self._call_id, "callSessionId": "cs", "callLegId": "cl"}
        rest = {"from": "+15550100", "to": "+15550199", "callType": "PSTN", "direction": "inbound"}
        return [_dump({"type": "setup", **ids, **rest, "customParameters": {}})]

    def say(self, text: str, now: float) -> list[Frame]:
        return [_dump({"type": "prompt", "voicePrompt": text, "lang": "en-US", "last": True})]

    def say_partly(self, text: str) -> list[Frame]:
        """The recogniser's first guess."""
        return [_dump({"type": "prompt", "voicePrompt": text, "lang": "en-US", "last": False})]

    def interrupt(self, now: float) -> list[Frame]:
        heard, spoken_ms = self._reader.advance(now), self._reader.since_start_ms(now)
        self._reader.reset()
        self._cycle_over = True
        # The older documentation has the duration as text, the newer as a number.
        duration: Any = str(spoken_ms) if self._vendor == "twilio" else spoken_ms + 0.5
        return [_dump({"type": "interrupt", "utteranceUntilInterrupt": heard, "durationUntilInterruptMs": duration})]

    def press(self, digit: str) -> list[Frame]:
        return [_dump({"type": "dtmf", "digit": digit})]

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        return []

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        message = json.loads(data)
        kind = message.get("type")
        if kind not in OUT_TYPES:
            error = {"type": "error", "description": "64107: invalid message"}
            return [Refused(f"unknown type {kind}")], [_dump(error)]
        if kind == "end":
            return [CallOver()], []
        if kind != "text":
            return [], []
        if self._cycle_over:
            self._reader.reset()
        self._cycle_over = bool(message["last"])
        self._reader.push(message["token"], now)
        facts: list[Fact] = [TextArrived(message["token"])] if message["token"] else []
        return [*facts, *([ReplyEnded()] if message["last"] else [])], []

    def tick(self, now: float) -> list[Frame]:
        self._reader.advance(now)
        return []

    def hang_up(self) -> list[Frame]:
        return []


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)
