"""The far end of a dialect as a simulated caller uses it: what its bridge writes, and what it makes of what comes. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic_core import from_json

from service.bridges.bridge import Transcript
from service.protocols.events import AudioFormat, Encoding, Frame

NOTHING: list[Frame] = []


class Ear(Protocol):
    """Told what a message meant. A turn is known by a number that grows."""

    def ready(self) -> None: ...

    def token(self, turn_id: int, text: str, index: int, now: float) -> None: ...

    def audio(self, turn_id: int, frames: int, now: float) -> None: ...

    def cleared(self, turn_id: int, now: float) -> None: ...

    def turn_ended(self, turn_id: int, reason: str, timings_ms: Mapping[str, float], now: float) -> None: ...

    def fault(self, code: str) -> None: ...

    def ended(self) -> None: ...


class Line(Protocol):
    """One call's bridge. Times are monotonic seconds."""

    has_audio: bool
    """Replies come as audio."""
    says_end: bool
    """The service tells when a reply is complete; else a pause does."""
    can_interrupt: bool
    """There is a message for it; else the caller breaks in by speaking."""
    says_interrupted: bool
    """The service tells when an interrupted reply is over."""
    subprotocol: str | None
    """Offered with the upgrade."""
    tick_s: float
    """How often `tick` wants to be called while a reply is played."""

    def start(self, ear: Ear) -> list[Frame]:
        """The call begins."""

    def said(self, text: str, final: bool, now: float) -> list[Frame] | Transcript:
        """The caller said this, or is being understood so."""

    def interrupt(self, heard_ms: float | None, now: float) -> list[Frame]:
        """The caller broke in."""

    def tick(self, turn_id: int, audio_ms: float | None, token_index: int | None, now: float) -> list[Frame]:
        """What has been played."""

    def caller_audio(self, now: float) -> list[Frame]:
        """20 ms of a silent caller."""

    def end(self) -> list[Frame]:
        """The caller hangs up."""

    def receive(self, data: Frame, now: float, ear: Ear) -> list[Frame]:
        """Tell `ear` what a message means; what the bridge answers at once."""


class NativeLine:
    """The native protocol, text or audio."""

    says_end: bool = True
    can_interrupt: bool = True
    says_interrupted: bool = True
    subprotocol: str | None = None
    tick_s: float = 0.5

    def __init__(self, encoding: Encoding | None = None, sample_rate_hz: int = 8000) -> None:
        self.has_audio = encoding is not None
        self._audio = None if encoding is None else {"encoding": encoding, "sample_rate_hz": sample_rate_hz}
        self._silence = b"" if encoding is None else silence(AudioFormat(encoding, sample_rate_hz))
        self._turn_id = -1

    def start(self, ear: Ear) -> list[Frame]:
        return [json.dumps({"type": "start", "audio": self._audio})]

    def said(self, text: str, final: bool, now: float) -> list[Frame]:
        return [json.dumps({"type": "user_text", "text": text, "final": final})]

    def interrupt(self, heard_ms: float | None, now: float) -> list[Frame]:
        return [json.dumps({"type": "interrupt", "heard_ms": heard_ms})]

    def tick(self, turn_id: int, audio_ms: float | None, token_index: int | None, now: float) -> list[Frame]:
        if audio_ms is None and token_index is None:
            return []
        body = {"type": "played", "turn_id": turn_id, "audio_ms": audio_ms, "token_index": token_index}
        return [json.dumps(body)]

    def caller_audio(self, now: float) -> list[Frame]:
        return [self._silence] if self.has_audio else []

    def end(self) -> list[Frame]:
        return [json.dumps({"type": "end"})]

    def receive(self, data: Frame, now: float, ear: Ear) -> list[Frame]:
        if isinstance(data, bytes):
            ear.audio(self._turn_id, 1, now)
            return NOTHING
        message: dict[str, Any] = from_json(data)
        kind = message["type"]
        if kind == "token":
            ear.token(message["turn_id"], message["text"], message["index"], now)
        elif kind == "audio_begin":
            self._turn_id = message["turn_id"]
        elif kind == "audio_clear":
            ear.cleared(message["turn_id"], now)
        elif kind == "turn_end":
            ear.turn_ended(message["turn_id"], message["reason"], message["timings_ms"], now)
        elif kind == "ready":
            ear.ready()
        elif kind == "error":
            ear.fault(message["code"])
        elif kind == "end":
            ear.ended()
        return NOTHING


def silence(audio: AudioFormat) -> bytes:
    """20 ms of nothing. ITU-T G.711: 0xff in mu-law, 0xd5 in A-law."""
    return {"pcm16": b"\x00", "mulaw": b"\xff", "alaw": b"\xd5"}[audio.encoding] * audio.frame_bytes
