"""Rime over its JSON WebSocket (`ws3`), a connection per reply.

Protocol: https://docs.rime.ai/api-reference/arcana/websockets and its page on segmentation settings
With `segment=never` the service speaks on `flush` alone, never on punctuation, so a reply without a full stop is not
silent. Flushes that overlap are answered by one `done`, so one segment at a time is sent. `clear` does not stop what is
being spoken: a reply that is cancelled takes its connection with it.
"""

import base64
import json
from collections.abc import Sequence
from urllib.parse import urlencode

from tts_adapter.audio import decode
from tts_adapter.voice import VoiceError
from tts_adapter.voices.dialect import Answered, Event, Failed, OneByOne, Reuse, SegmentEnded, Sounded, Wire, fault_name
from tts_adapter.voices.options import RimeOptions
from tts_adapter.voices.socket_voice import Endpoint, SocketVoice


def rime_voice(options: RimeOptions) -> SocketVoice:
    """The service as a voice.

    Raises:
        VoiceError: a setting is missing.
    """
    if options.api_key is None:
        raise VoiceError("rime: the setting voice.rime.api_key is missing")
    query = {
        "speaker": options.speaker,
        "modelId": options.model,
        "audioFormat": "pcm",
        "samplingRate": str(options.sample_rate_hz),
        "segment": "never",
    }
    if options.language is not None:
        query["lang"] = options.language
    endpoint = Endpoint(
        url=f"{options.url.rstrip('/')}/ws3?{urlencode(query)}",
        headers={"Authorization": f"Bearer {options.api_key.get_secret_value()}"},
        connect_s=options.connect_s,
        stall_s=options.stall_s,
    )
    return SocketVoice(
        "rime", endpoint, sample_rate_hz=options.sample_rate_hz, accepts_tokens=False, dialect=RimeDialect
    )


class RimeDialect:
    """One reply."""

    reuse: Reuse = "finished"

    def __init__(self) -> None:
        self._segments = OneByOne()

    @property
    def spoken(self) -> bool:
        """As in `Dialect`."""
        return self._segments.spoken

    def push(self, segment: int, text: str) -> Sequence[Wire]:
        """As in `Dialect`."""
        return _frames(self._segments.push(segment, text))

    def flush(self) -> Sequence[Wire]:
        """As in `Dialect`: every segment is flushed already."""
        return ()

    def cancel(self) -> Sequence[Wire]:
        """As in `Dialect`."""
        return [json.dumps({"operation": "clear"})]

    def keep_alive(self) -> Sequence[Wire]:
        """As in `Dialect`: there is no such message."""
        return ()

    def receive(self, message: Wire) -> Sequence[Event]:
        """As in `Dialect`."""
        fields = json.loads(message)
        match fields["type"]:
            case "chunk":
                return [Sounded(self._segments.segment, decode(base64.b64decode(fields["data"]), "pcm16"))]
            case "done":
                return [SegmentEnded(), Answered(tuple(_frames(self._segments.ended())))]
            case "error":
                return [Failed(fault_name(fields.get("code")))]
        return []


def _frames(text: str | None) -> list[Wire]:
    if text is None:
        return []
    return [json.dumps({"text": text}), json.dumps({"operation": "flush"})]
