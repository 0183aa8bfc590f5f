"""Deepgram Aura over its WebSocket, a connection per reply.

Protocol: https://developers.deepgram.com/docs/tts-websocket
Audio is not labelled, so one segment at a time is sent and flushed; `Flushed` ends it. At most 20 flushes a minute are
taken, so once a reply has used `_SINGLE_FLUSHES` of them, everything that waits goes out as one. A reply that is
cancelled takes its connection with it.
"""

import json
from collections.abc import Sequence
from urllib.parse import urlencode

from tts_adapter.audio import decode
from tts_adapter.voice import Samples, VoiceError
from tts_adapter.voices.dialect import Answered, Event, Failed, OneByOne, Reuse, SegmentEnded, Sounded, Wire, fault_name
from tts_adapter.voices.options import DeepgramOptions
from tts_adapter.voices.socket_voice import Endpoint, SocketVoice

_SINGLE_FLUSHES = 8


def deepgram_voice(options: DeepgramOptions) -> SocketVoice:
    """The service as a voice.

    Raises:
        VoiceError: a setting is missing.
    """
    if options.api_key is None:
        raise VoiceError("deepgram: the setting voice.deepgram.api_key is missing")
    query = {
        "model": options.model,
        "encoding": "linear16",
        "sample_rate": str(options.sample_rate_hz),
    }
    endpoint = Endpoint(
        url=f"{options.url.rstrip('/')}/v1/speak?{urlencode(query)}",
        headers={"Authorization": f"Token {options.api_key.get_secret_value()}"},
        connect_s=options.connect_s,
        stall_s=options.stall_s,
    )
    return SocketVoice(
        "deepgram",
        endpoint,
        sample_rate_hz=options.sample_rate_hz,
        accepts_tokens=False,
        dialect=DeepgramDialect,
    )


class DeepgramDialect:
    """One reply."""

    reuse: Reuse = "finished"

    def __init__(self) -> None:
        self._segments = OneByOne(_SINGLE_FLUSHES)
        self._odd = b""

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
        return [json.dumps({"type": "Clear"})]

    def keep_alive(self) -> Sequence[Wire]:
        """As in `Dialect`: the socket lives for an hour."""
        return ()

    def receive(self, message: Wire) -> Sequence[Event]:
        """As in `Dialect`."""
        if isinstance(message, bytes):
            return [Sounded(self._segments.segment, self._decoded(message))]
        fields = json.loads(message)
        match fields["type"]:
            case "Flushed":
                self._odd = b""
                return [SegmentEnded(), Answered(tuple(_frames(self._segments.ended())))]
            case "Error" | "Warning":
                # A warning says that a text or a flush was not taken: its segment would never end.
                return [Failed(fault_name(fields.get("err_code") or fields.get("code")))]
        return []

    def _decoded(self, data: bytes) -> Samples:
        data = self._odd + data
        whole = len(data) // 2 * 2
        self._odd = data[whole:]
        return decode(data[:whole], "pcm16")


def _frames(text: str | None) -> list[Wire]:
    if text is None:
        return []
    return [json.dumps({"type": "Speak", "text": text}), json.dumps({"type": "Flush"})]
