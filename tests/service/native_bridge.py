"""A client of the native protocol in the shape of a bridge, and every bridge there is by name."""

import json
from typing import Any

from service.bridges.bridge import AudioArrived, Bridge, CallOver, Cleared, Fact, ReplyEnded, TextArrived, Transcript
from service.bridges.catalog import BRIDGES
from service.bridges.speaker import Speaker
from service.protocols.events import AudioFormat, Frame


class NativeBridge:
    """Acknowledges every token it is sent, or plays audio and says how far it has come.

    Args:
        call_id: of the call.
        audio: asked for; None: a text call.
        greeting: to be said first.
        tools: offered to the model.

    Attributes:
        messages: everything the service said in text.
    """

    dialect = "native"
    subprotocol = None

    def __init__(
        self, call_id: str = "c", audio: AudioFormat | None = None, greeting: str | None = None, tools: Any = None
    ) -> None:
        self.audio = audio
        self._call_id = call_id
        self._greeting = greeting
        self._tools = tools
        self.messages: list[dict[str, Any]] = []
        self._speaker = Speaker(audio.frame_bytes * 50 if audio else 1)
        self._turn_id = 0

    @property
    def heard_ms(self) -> float:
        return self._speaker.played_ms

    def opening(self) -> list[Frame]:
        audio = self.audio and {"encoding": self.audio.encoding, "sample_rate_hz": self.audio.sample_rate_hz}
        body = {"type": "start", "call_id": self._call_id, "audio": audio, "greeting": self._greeting}
        return [_dump({**body, "tools": self._tools})]

    def say(self, text: str, now: float) -> list[Frame] | Transcript:
        return [_dump({"type": "user_text", "text": text})]

    def interrupt(self, now: float) -> list[Frame]:
        return [*self.tick(now), _dump({"type": "interrupt"})]

    def press(self, digit: str) -> list[Frame]:
        return []

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        return [payload] if self.audio else []

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        if isinstance(data, bytes):
            self._speaker.push(data, now)
            return [AudioArrived(data)], []
        message: dict[str, Any] = json.loads(data)
        self.messages.append(message)
        match message["type"]:
            case "token":
                facts: list[Fact] = [TextArrived(message["text"])]
                played = {"type": "played", "turn_id": message["turn_id"], "token_index": message["index"]}
                return facts, [] if self.audio else [_dump(played)]
            case "audio_begin":
                self._turn_id = message["turn_id"]
            case "audio_clear":
                self._speaker.clear()
                return [Cleared()], []
            case "turn_end":
                return [ReplyEnded()], []
            case "end":
                return [CallOver()], []
        return [], []

    def tick(self, now: float) -> list[Frame]:
        self._speaker.advance(now)
        if not self.heard_ms:
            return []
        return [_dump({"type": "played", "turn_id": self._turn_id, "audio_ms": self.heard_ms})]

    def hang_up(self) -> list[Frame]:
        return [_dump({"type": "end"})]


NATIVE = {"native": None, "native-audio": AudioFormat("pcm16", 8000)}
TEXT_DIALECTS = ("native", "twilio-relay", "telnyx-relay", "jambonz")
AUDIO_DIALECTS = ("native-audio", "twilio-media", "telnyx-media", "signalwire-media", "plivo-media", "asterisk")
EVERY_DIALECT = (*TEXT_DIALECTS, *AUDIO_DIALECTS)


def bridge_of(name: str, call_id: str = "call-7") -> Bridge:
    """The bridge's side of a dialect; `native-audio` is the native protocol with audio."""
    if name in NATIVE:
        return NativeBridge(call_id, NATIVE[name])
    return BRIDGES[name](call_id=call_id)


def _dump(body: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in body.items() if value is not None})
