"""The far end of a dialect: what a caller's bridge writes, and what it understands of what it gets. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from service.protocols.events import Frame


class Ear(Protocol):
    """Told what a message meant."""

    def ready(self, call_id: str) -> None: ...

    def token(self, turn_id: int, text: str, index: int) -> None: ...

    def audio(self, turn_id: int, frames: int) -> None: ...

    def cleared(self, turn_id: int) -> None: ...

    def turn_ended(self, turn_id: int, reason: str, timings_ms: Mapping[str, float]) -> None: ...

    def fault(self, code: str) -> None: ...

    def ended(self, reason: str) -> None: ...


class Line(Protocol):
    """One call's bridge."""

    has_audio: bool
    """Replies come as audio."""
    says_end: bool
    """The dialect tells when a reply is complete; else its end is the pause after it."""

    def start(self) -> list[Frame]: ...

    def said(self, text: str, final: bool) -> list[Frame]: ...

    def interrupt(self, heard_ms: float | None) -> list[Frame]: ...

    def played(self, turn_id: int, audio_ms: float | None, token_index: int | None) -> list[Frame]: ...

    def end(self) -> list[Frame]: ...

    def receive(self, data: Frame, ear: Ear) -> None: ...


class NativeLine:
    """The native protocol, text or audio."""

    says_end = True

    def __init__(self, encoding: str | None = None, sample_rate_hz: int = 8000) -> None:
        self.has_audio = encoding is not None
        self._audio = None if encoding is None else {"encoding": encoding, "sample_rate_hz": sample_rate_hz}
        self._turn_id = -1

    def start(self) -> list[Frame]:
        return [json.dumps({"type": "start", "audio": self._audio})]

    def said(self, text: str, final: bool) -> list[Frame]:
        return [json.dumps({"type": "user_text", "text": text, "final": final})]

    def interrupt(self, heard_ms: float | None) -> list[Frame]:
        return [json.dumps({"type": "interrupt", "heard_ms": heard_ms})]

    def played(self, turn_id: int, audio_ms: float | None, token_index: int | None) -> list[Frame]:
        body = {"type": "played", "turn_id": turn_id, "audio_ms": audio_ms, "token_index": token_index}
        return [json.dumps(body)]

    def end(self) -> list[Frame]:
        return [json.dumps({"type": "end"})]

    def receive(self, data: Frame, ear: Ear) -> None:
        if isinstance(data, bytes):
            ear.audio(self._turn_id, 1)
            return
        message: dict[str, Any] = json.loads(data)
        kind = message["type"]
        if kind == "token":
            ear.token(message["turn_id"], message["text"], message["index"])
        elif kind == "audio_begin":
            self._turn_id = message["turn_id"]
        elif kind == "audio_clear":
            ear.cleared(message["turn_id"])
        elif kind == "turn_end":
            ear.turn_ended(message["turn_id"], message["reason"], message["timings_ms"])
        elif kind == "ready":
            ear.ready(message["call_id"])
        elif kind == "error":
            ear.fault(message["code"])
        elif kind == "end":
            ear.ended(message["reason"])
