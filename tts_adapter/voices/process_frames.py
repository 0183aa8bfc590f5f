"""What the service and a speaking process say to each other over stdin and stdout. Pure.

A frame is a 13-byte header in network byte order (kind: 1 character; utterance, segment, length of the payload: 32 bits
each) and the payload.

| to the process | utterance | segment | payload |
|---|---|---|---|
| `S` say | yes | yes | UTF-8 text |
| `X` forget the utterance | yes | | |

| from the process | utterance | segment | payload |
|---|---|---|---|
| `R` ready | | | sample rate in Hz, decimal |
| `A` audio of a segment | yes | yes | int16, little-endian, mono |
| `L` last audio of a segment, perhaps empty | yes | yes | the same |
| `F` the utterance failed | yes | yes | kind of error |
| `W` far enough ahead of what is played, so it waits | | | |
| `N` not usable, the process ends | | | one line naming what is missing |

End of file on the process's stdin ends it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

SAY, FORGET, READY, AUDIO, LAST, FAILED, UNUSABLE, WAITING = b"S", b"X", b"R", b"A", b"L", b"F", b"N", b"W"

_HEADER = struct.Struct("!cIII")
_PAYLOAD_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """One message; fields as in the module's tables."""

    kind: bytes
    utterance: int = 0
    segment: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """The bytes on the pipe."""
        return _HEADER.pack(self.kind, self.utterance, self.segment, len(self.payload)) + self.payload


class FrameDecoder:
    """Frames from bytes, however these were cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Every frame that `data` completes.

        Raises:
            ValueError: not the protocol, so nothing that follows can be understood.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            kind, utterance, segment, length = _HEADER.unpack_from(self._buffer)
            if length > _PAYLOAD_LIMIT:
                raise ValueError(f"a frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield Frame(kind, utterance, segment, payload)
