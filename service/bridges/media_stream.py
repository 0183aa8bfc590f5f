"""The platform's side of a media stream: sends the caller's audio, plays ours, returns marks."""

import base64
import json
from typing import Any

from service.bridges.bridge import AudioArrived, Cleared, Fact, MarkArrived, Refused, Transcript
from service.bridges.speaker import Speaker
from service.protocols.events import AudioFormat, Frame
from service.protocols.media_tables import CONTENT_TYPES, TABLES

VERSIONS = {"twilio": "1.0.0", "signalwire": "0.2.0", "telnyx": "1.0.0"}


class MediaStreamBridge:
    """Twilio, SignalWire, Telnyx or Plivo media streaming.

    Args:
        vendor: which of them.
        call_id: of the call.
        audio: None: the vendor's default.
    """

    subprotocol: str | None = None

    def __init__(self, vendor: str = "twilio", call_id: str = "CA-test", audio: AudioFormat | None = None) -> None:
        self.dialect = f"{vendor}-media"
        self._table = TABLES[vendor]
        self._call_id = call_id
        self._format = audio or self._table.default_audio
        self.audio: AudioFormat | None = self._format
        self._speaker = Speaker(self._format.frame_bytes * 50)
        self._sequence = 0
        self._chunk = 0
        self._confirm: list[Frame] = []

    @property
    def heard_ms(self) -> float:
        return self._speaker.played_ms

    def opening(self) -> list[Frame]:
        table = self._table
        snake = table.vendor == "telnyx"
        encoding = {"mulaw": "PCMU", "alaw": "PCMA", "pcm16": "L16"} if snake else CONTENT_TYPES
        rate_hz: Any = self._format.sample_rate_hz
        form = {"encoding": encoding[self._format.encoding], table.rate_name: rate_hz, "channels": 1}
        start = {table.call_ids[0]: self._call_id, table.stream_id: "MZ-test", table.format_name: form}
        if table.parameters:
            start[table.parameters] = {}
        first = VERSIONS.get(table.vendor)
        frames = [json.dumps({"event": "connected", "protocol": "Call", "version": first})] if first else []
        return [*frames, self._event("start", {"start": start, **({"extra_headers": "{}"} if not first else {})})]

    def say(self, text: str, now: float) -> Transcript:
        return Transcript(f"/v1/calls/{self._call_id}/transcript", {"text": text, "final": True})

    def interrupt(self, now: float) -> list[Frame]:
        return []

    def press(self, digit: str) -> list[Frame]:
        return [self._event("dtmf", {"dtmf": {"track": "inbound_track", "digit": digit}})]

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        self._chunk += 1
        number: Any = self._chunk if self._table.vendor == "plivo" else str(self._chunk)
        media = {"track": "inbound", "chunk": number, "timestamp": str(self._chunk * 20)}
        return [self._event("media", {"media": {**media, "payload": base64.b64encode(payload).decode()}})]

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        table, message = self._table, json.loads(data)
        played = [self._mark(name) for name in self._speaker.advance(now)]
        if table.out_stream_id and message.get(table.stream_id) != "MZ-test":
            return [Refused(f"{table.stream_id} is wrong or missing")], played
        kind = message["event"]
        if kind == table.media_out:
            payload = base64.b64decode(message["media"]["payload"], validate=True)
            self._speaker.push(payload, now)
            return [AudioArrived(payload)], played
        if kind == table.mark_out:
            name = message["name"] if table.flat_marks else message["mark"]["name"]
            self._speaker.mark(name)
            return [MarkArrived(name)], [*played, *map(self._mark, self._speaker.advance(now))]
        if kind == table.clear_out:
            dropped = self._speaker.clear()
            answer = [self._event(table.cleared_in, {})] if table.cleared_in else [*map(self._mark, dropped)]
            return [Cleared()], [*played, *answer]
        return [Refused(f"unknown event {kind}")], played

    def tick(self, now: float) -> list[Frame]:
        return [self._mark(name) for name in self._speaker.advance(now)]

    def hang_up(self) -> list[Frame]:
        if self._table.vendor == "plivo":
            return []  # the socket just closes
        inner = {} if self._table.vendor == "signalwire" else {"stop": {self._table.call_ids[0]: self._call_id}}
        return [self._event("stop", inner)]

    def _mark(self, name: str) -> Frame:
        mark = {"name": name} if self._table.flat_marks else {"mark": {"name": name}}
        return self._event(self._table.mark_in, mark)

    def _event(self, kind: str, body: dict[str, Any]) -> Frame:
        self._sequence += 1
        key = "sequence_number" if self._table.vendor == "telnyx" else "sequenceNumber"
        number: Any = self._sequence if self._table.vendor == "plivo" else str(self._sequence)
        return json.dumps({"event": kind, key: number, self._table.stream_id: "MZ-test", **body})
