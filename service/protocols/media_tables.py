"""How four vendors write the same media stream: one row each, nothing but names and defaults.

Sources: Twilio "Media Streams WebSocket messages"; SignalWire "<Stream>"; Telnyx "Stream call media over WebSocket";
Plivo "Audio streaming".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.protocols.events import AudioFormat, Encoding

ENCODINGS: Mapping[str, Encoding] = {
    "audio/x-mulaw": "mulaw",
    "audio/pcmu": "mulaw",
    "pcmu": "mulaw",
    "mulaw": "mulaw",
    "ulaw": "mulaw",
    "audio/x-alaw": "alaw",
    "audio/pcma": "alaw",
    "pcma": "alaw",
    "alaw": "alaw",
    "audio/x-l16": "pcm16",
    "audio/l16": "pcm16",
    "l16": "pcm16",
}
CONTENT_TYPES: Mapping[Encoding, str] = {
    "mulaw": "audio/x-mulaw",
    "alaw": "audio/x-alaw",
    "pcm16": "audio/x-l16",
}
SAMPLE_RATES_HZ = (8000, 16000, 24000)


@dataclass(frozen=True, slots=True)
class MediaTable:
    """One vendor's words.

    Attributes:
        vendor: its name, as in the endpoint.
        call_ids: fields of `start.start` that may hold the call's id, best first.
        stream_id: name of the stream's id in `start` and, where `out_stream_id`, in what we send.
        format_name, rate_name: where `start.start` says what the audio is.
        default_audio: what it is when `start` does not say.
        parameters: object of `start.start` with what the operator attached; None where there is none.
        extra_headers: top-level text of `start` that holds them instead.
        out_stream_id: what we send carries the stream's id.
        ordered: False where frames may arrive out of order.
        media_out, mark_out, clear_out: our events.
        mark_in: event by which a mark comes back.
        cleared_in: event that confirms a clear; marks still out then are gone for good. None: each comes back.
        flat_marks: the mark's name stands at the top level.
        labels_audio: every frame out says its content type.
    """

    vendor: str
    call_ids: tuple[str, ...]
    stream_id: str = "streamSid"
    format_name: str = "mediaFormat"
    rate_name: str = "sampleRate"
    default_audio: AudioFormat = field(default_factory=lambda: AudioFormat("mulaw", 8000))
    parameters: str | None = "customParameters"
    extra_headers: str | None = None
    out_stream_id: bool = True
    ordered: bool = True
    media_out: str = "media"
    mark_out: str = "mark"
    clear_out: str = "clear"
    mark_in: str = "mark"
    cleared_in: str | None = None
    flat_marks: bool = False
    labels_audio: bool = False


TABLES: Mapping[str, MediaTable] = {
    table.vendor: table
    for table in (
        MediaTable("twilio", ("callSid",)),
        MediaTable("signalwire", ("callSid",)),
        MediaTable(
            "telnyx",
            ("call_control_id", "call_session_id"),
            stream_id="stream_id",
            format_name="media_format",
            rate_name="sample_rate",
            parameters="custom_parameters",
            out_stream_id=False,
            ordered=False,
        ),
        MediaTable(
            "plivo",
            ("callId",),
            stream_id="streamId",
            default_audio=AudioFormat("pcm16", 8000),
            parameters=None,
            extra_headers="extra_headers",
            media_out="playAudio",
            mark_out="checkpoint",
            clear_out="clearAudio",
            mark_in="playedStream",
            cleared_in="clearedAudio",
            flat_marks=True,
            labels_audio=True,
        ),
    )
}
