"""Audio in whole frames, and caller audio back in order.

Uneven pieces click on a phone line (openai-agents-python #1906), so whatever length arrives, only 20 ms frames leave.
"""

from service.protocols.events import AudioFormat, Encoding

SILENCE: dict[Encoding, bytes] = {"pcm16": b"\x00", "mulaw": b"\xff", "alaw": b"\xd5"}
MAX_HELD_CHUNKS = 5  # 100 ms: older audio is of no use to a listener that must react
RESTART_CHUNKS = 500  # that far back, the numbers have started again


class FrameCutter:
    """Cuts pieces of any length into frames of `frame_bytes`; what is left over waits for the next piece."""

    __slots__ = ("_left", "_silence", "frame_bytes")

    def __init__(self, audio: AudioFormat, frame_bytes: int | None = None) -> None:
        self.frame_bytes = frame_bytes or audio.frame_bytes
        self._silence = SILENCE[audio.encoding]
        self._left = b""

    def push(self, payload: bytes) -> list[bytes]:
        """Whole frames that are complete now."""
        size = self.frame_bytes
        if not self._left and len(payload) == size:
            return [payload]
        data = self._left + payload
        whole = len(data) // size * size
        self._left = data[whole:]
        return [data[start : start + size] for start in range(0, whole, size)]

    def flush(self) -> list[bytes]:
        """The rest, filled up with silence; nothing where nothing is left."""
        if not self._left:
            return []
        frame = self._left + self._silence * (self.frame_bytes - len(self._left))
        self._left = b""
        return [frame]

    def reset(self) -> None:
        """Forget what is left: it belongs to a reply that was cut short."""
        self._left = b""


class ChunkOrder:
    """Puts numbered chunks back in order, holding at most `MAX_HELD_CHUNKS` of them.

    A chunk that is still missing when the hold is full is given up; one that arrives after its turn is dropped.
    """

    __slots__ = ("_held", "_next")

    def __init__(self) -> None:
        self._held: dict[int, tuple[bytes, float | None]] = {}
        self._next: int | None = None

    def push(self, number: int, payload: bytes, timestamp_ms: float | None) -> list[tuple[bytes, float | None]]:
        """Chunks that are in order now."""
        if self._next is None or number + RESTART_CHUNKS < self._next:
            self._next = number
            self._held.clear()
        if number < self._next:
            return []
        self._held.setdefault(number, (payload, timestamp_ms))
        if len(self._held) > MAX_HELD_CHUNKS and self._next not in self._held:
            self._next = min(self._held)
        ready: list[tuple[bytes, float | None]] = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        return ready
