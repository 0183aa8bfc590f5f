"""ElevenLabs over its multi-context WebSocket, a context per reply.

Protocol: https://elevenlabs.io/docs/api-reference/text-to-speech/v-1-text-to-speech-voice-id-multi-stream-input
What the page does not say: `voice_settings` in a second message of a context close the socket with 1008; flushing a
context without text creates one; `flush` alone brings no `isFinal`, closing the context does; but closing it before its
first audio may lose the text.
"""

import base64
import json
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from tts_adapter.audio import decode
from tts_adapter.voice import Samples, VoiceError
from tts_adapter.voices.dialect import (
    Answered,
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
from tts_adapter.voices.options import ElevenLabsOptions
from tts_adapter.voices.segments import speakable
from tts_adapter.voices.socket_voice import Endpoint, SocketVoice

_RATES_HZ = {"pcm_16000": 16_000, "pcm_22050": 22_050, "pcm_24000": 24_000, "ulaw_8000": 8_000}
_INACTIVITY_S = 180
# Characters that must be there before the next piece is spoken; the least that the service allows comes first.
_CHUNK_SCHEDULE = [50, 90, 160, 250]


def elevenlabs_voice(options: ElevenLabsOptions) -> SocketVoice:
    """The service as a voice.

    Raises:
        VoiceError: a setting is missing.
    """
    if options.api_key is None:
        raise VoiceError("elevenlabs: the setting voice.elevenlabs.api_key is missing")
    if not options.voice_id:
        raise VoiceError("elevenlabs: the setting voice.elevenlabs.voice_id is missing")
    query = {
        "model_id": options.model,
        "output_format": options.output_format,
        "inactivity_timeout": str(_INACTIVITY_S),
        "auto_mode": "false" if options.accepts_tokens else "true",
        "sync_alignment": "true",
    }
    if options.language is not None:
        query["language_code"] = options.language
    path = f"/v1/text-to-speech/{quote(options.voice_id, safe='')}/multi-stream-input"
    endpoint = Endpoint(
        url=f"{options.url.rstrip('/')}{path}?{urlencode(query)}",
        headers={"xi-api-key": options.api_key.get_secret_value()},
        connect_s=options.connect_s,
        stall_s=options.stall_s,
        keep_alive_s=options.keep_alive_s,
    )
    return SocketVoice(
        "elevenlabs",
        endpoint,
        sample_rate_hz=_RATES_HZ[options.output_format],
        accepts_tokens=options.accepts_tokens,
        dialect=lambda: ElevenLabsDialect(options),
    )


class ElevenLabsDialect:
    """One context."""

    reuse: Reuse = "always"
    spoken = False

    def __init__(self, options: ElevenLabsOptions) -> None:
        self._options = options
        self._rate_hz = _RATES_HZ[options.output_format]
        self._context = uuid.uuid4().hex
        self._words = Words()
        self._text = SpokenText()
        self._waiting: list[tuple[int, str]] = []
        self._open = False
        self._flushed = False
        self._sounded = False
        self._closed = False

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
        rest = self._words.finish()
        if rest:
            segment, text = rest[-1]
            self._waiting += [*rest[:-1], (segment, text + " ")]
        frames = self._texts()
        if not self._open:
            return ()
        frames.append(self._message(flush=True))
        if self._sounded:
            frames.append(self._close())
        return frames

    def cancel(self) -> Sequence[Wire]:
        """As in `Dialect`."""
        return [self._close()] if self._open and not self._closed else []

    def keep_alive(self) -> Sequence[Wire]:
        """As in `Dialect`."""
        return [self._message(text="")] if self._open else []

    def receive(self, message: Wire) -> Sequence[Event]:
        """As in `Dialect`."""
        fields = json.loads(message)
        if "error" in fields or "code" in fields:
            return [Failed(fault_name(fields.get("error"), fields.get("code")))]
        if fields.get("contextId") != self._context:
            return []
        events: list[Event] = []
        if fields.get("audio"):
            self._sounded = True
            events += self._sound(decode(base64.b64decode(fields["audio"]), self._encoding), fields)
            if self._flushed and not self._closed:
                events.append(Answered((self._close(),)))
        if fields.get("isFinal"):
            events.append(Finished() if self._sounded else Failed("it ended without any audio"))
        return events

    @property
    def _encoding(self) -> Any:
        return "mulaw" if self._options.output_format.startswith("ulaw") else "pcm16"

    def _sound(self, samples: Samples, fields: dict[str, Any]) -> list[Event]:
        starts_ms = (fields.get("alignment") or {}).get("charStartTimesMs", ())
        return [Sounded(segment, part) for segment, part in self._text.cut(samples, self._rate_hz, starts_ms)]

    def _texts(self) -> list[Wire]:
        """Frames of the waiting texts, once there is something to hear in this context."""
        if not self._waiting or not (self._open or any(speakable(text) for _, text in self._waiting)):
            return []
        frames: list[Wire] = [] if self._open else [self._initial()]
        self._open = True
        text = ""
        for segment, part in self._waiting:
            self._text.sent(segment, len(part))
            text += part
        self._waiting = []
        frames.append(self._message(text=text))
        return frames

    def _initial(self) -> str:
        fields: dict[str, Any] = {"text": " "}
        settings = {
            name: value
            for name in ("stability", "similarity_boost", "speed")
            if (value := getattr(self._options, name)) is not None
        }
        if settings:
            fields["voice_settings"] = settings
        if self._options.accepts_tokens:
            fields["generation_config"] = {"chunk_length_schedule": _CHUNK_SCHEDULE}
        return self._message(**fields)

    def _close(self) -> str:
        self._closed = True
        return self._message(close_context=True)

    def _message(self, **fields: object) -> str:
        return json.dumps({**fields, "context_id": self._context})
