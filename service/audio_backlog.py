"""Audio that waits to be listened to: bounded, and when it is full the oldest goes. Pure."""

from collections import deque

from service.protocols.events import AudioFormat


class AudioBacklog:
    """At most `max_s` seconds of one caller's audio.

    Whoever listens may be slow or away. The caller's newest words matter more than the oldest, so those are dropped.

    Args:
        audio: format of what is pushed.
        max_s: length kept, seconds.
    """

    def __init__(self, audio: AudioFormat, max_s: float) -> None:
        self._max_bytes = max(audio.frame_bytes, int(audio.frame_bytes * 50 * max_s))
        self._payloads: deque[bytes] = deque()
        self._bytes = 0
        self.dropped_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._payloads)

    def push(self, payload: bytes) -> None:
        """The newest audio."""
        self._payloads.append(payload)
        self._bytes += len(payload)
        while self._bytes > self._max_bytes and len(self._payloads) > 1:
            oldest = self._payloads.popleft()
            self._bytes -= len(oldest)
            self.dropped_bytes += len(oldest)

    def take(self) -> list[bytes]:
        """All that waits, oldest first."""
        payloads = list(self._payloads)
        self._payloads.clear()
        self._bytes = 0
        return payloads
