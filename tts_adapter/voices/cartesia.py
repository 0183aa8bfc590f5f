"""Cartesia over its WebSocket, a context per reply.

Protocol: https://docs.cartesia.ai/api-reference/tts/websocket
Texts are joined verbatim, so their spaces are kept. A context expires a second after its last audio; when the text goes
on after that (the model was waiting for a tool, say), it goes on in a new one. An idle socket lives for five minutes.
"""

import base64
import json
import uuid
from collections.abc import Sequence
from typing import Any

from tts_adapter.audio import decode
from tts_adapter.voice import VoiceError
from tts_adapter.voices.dialect import (
    Event,
    Failed,
    Finished,
    Reuse,
    Sounded,
    SpokenText,
    Wire,
    Words,
    fault_name,
)
from tts_adapter.voices.options import CartesiaOptions
from tts_adapter.voices.segments import speakable
from tts_adapter.voices.socket_voice import Endpoint, SocketVoice

_API_VERSION = "2025-04-16"


def cartesia_voice(options: CartesiaOptions) -> SocketVoice:
    """The service as a voice.

    Raises:
        VoiceError: a setting is missing.
    """
    if options.api_key is None:
        raise VoiceError("cartesia: the setting voice.cartesia.api_key is missing")
    if not options.voice_id:
        raise VoiceError("cartesia: the setting voice.cartesia.voice_id is missing")
    endpoint = Endpoint(
        url=f"{options.url.rstrip('/')}/tts/websocket",
        headers={"X-API-Key": options.api_key.get_secret_value(), "Cartesia-Version": _API_VERSION},
        connect_s=options.connect_s,
        stall_s=options.stall_s,
    )
    return SocketVoice(
        "cartesia",
        endpoint,
        sample_rate_hz=options.sample_rate_hz,
        accepts_tokens=options.accepts_tokens,
        dialect=lambda: CartesiaDialect(options),
    )


class CartesiaDialect:
    """One reply: a context, or several one after the other."""

    reuse: Reuse = "always"
    spoken = False

    def __init__(self, options: CartesiaOptions) -> None:
        self._options = options
        self._words = Words()
        self._waiting: list[tuple[int, str]] = []
        self._spoken_words = SpokenText()
        self._context: str | None = None
        self._starts_s: list[float] = []
        self._heard_samples = 0
        self._flushed = False

    def push(self, segment: int, text: str) -> Sequence[Wire]:
        """As in `Dialect`."""
        if self._options.accepts_tokens:
            self._waiting += self._words.push(segment, text)
        elif text:
            self._waiting.append((segment, text if text[-1].isspace() else text + " "))
        return self._texts()

    def flush(self) -> Sequence[Wire]:
        """As in `Dialect`."""
        self._flushed = True
        self._waiting += self._words.finish()
        frames = self._texts()
        if self._context is not None:
            frames.append(self._message("", more=False))
        return frames

    def cancel(self) -> Sequence[Wire]:
        """As in `Dialect`."""
        return [json.dumps({"context_id": self._context, "cancel": True})] if self._context is not None else []

    def keep_alive(self) -> Sequence[Wire]:
        """As in `Dialect`: there is no such message."""
        return []

    def receive(self, message: Wire) -> Sequence[Event]:
        """As in `Dialect`."""
        fields = json.loads(message)
        if fields.get("context_id") not in (self._context, None):
            return []
        match fields["type"]:
            case "chunk":
                return self._sound(fields)
            case "timestamps":
                self._starts_s += fields["word_timestamps"]["start"]
            case "error":
                return [Failed(fault_name(fields.get("error_code"), fields.get("status_code")))]
            case "done" if not self._heard_samples:
                return [Failed("it ended without any audio")]
            case "done" if self._flushed:
                return [Finished()]
            case "done":
                self._context = None
        return []

    def _sound(self, fields: dict[str, Any]) -> list[Event]:
        samples = decode(base64.b64decode(fields["data"]), "pcm16")
        rate_hz, begin = self._options.sample_rate_hz, self._heard_samples
        self._heard_samples += len(samples)
        # Words that were announced before their audio; one that is announced late starts with the next audio.
        due = [start for start in self._starts_s if start * rate_hz < self._heard_samples]
        del self._starts_s[: len(due)]
        starts_ms = [max(0.0, start * 1000 - begin * 1000 / rate_hz) for start in due]
        return [Sounded(segment, part) for segment, part in self._spoken_words.cut(samples, rate_hz, starts_ms)]

    def _texts(self) -> list[Wire]:
        if not self._waiting or not (self._context or any(speakable(text) for _, text in self._waiting)):
            return []
        if self._context is None:
            self._context = uuid.uuid4().hex
            self._starts_s, self._heard_samples = [], 0
        transcript = ""
        for segment, text in self._waiting:
            self._spoken_words.sent(segment, len(text.split()))
            transcript += text
        self._waiting = []
        return [self._message(transcript, more=True)]

    def _message(self, transcript: str, more: bool) -> str:
        options = self._options
        fields: dict[str, Any] = {
            "context_id": self._context,
            "model_id": options.model,
            "transcript": transcript,
            "voice": {"mode": "id", "id": options.voice_id},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": options.sample_rate_hz},
            "continue": more,
            # Whole segments have been collected already; collecting them again would only delay them.
            "max_buffer_delay_ms": options.max_buffer_delay_ms if options.accepts_tokens else 0,
            "add_timestamps": True,
        }
        if options.language is not None:
            fields["language"] = options.language
        return json.dumps(fields)
