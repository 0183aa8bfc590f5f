"""A platform's playback in virtual time: audio with marks in it, or text spoken at a rate."""

from collections import deque


class Speaker:
    """Plays audio as it comes, in real time, and meets marks on the way.

    Args:
        bytes_per_s: of the format played.
    """

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._queue: deque[tuple[float, str | None]] = deque()  # length in seconds, or a mark
        self._clock = 0.0
        self.played_ms = 0.0

    def push(self, payload: bytes, now: float) -> None:
        """More audio. Where nothing was left to play, it starts now."""
        if not self._queue:
            self._clock = max(self._clock, now)
        self._queue.append((len(payload) / self._bytes_per_s, None))

    def mark(self, name: str) -> None:
        self._queue.append((0.0, name))

    def advance(self, now: float) -> list[str]:
        """Play until now; the marks met."""
        met: list[str] = []
        while self._queue and self._clock + self._queue[0][0] <= now + 1e-9:
            length_s, name = self._queue.popleft()
            self._clock += length_s
            self.played_ms += length_s * 1000
            if name is not None:
                met.append(name)
        return met

    def clear(self) -> list[str]:
        """Drop what is left; the marks in it."""
        dropped = [name for _, name in self._queue if name is not None]
        self._queue.clear()
        self.played_ms = 0.0
        return dropped

    @property
    def queued_s(self) -> float:
        return sum(length_s for length_s, _ in self._queue)


class Reader:
    """Speaks text as it comes, at so many characters a second."""

    def __init__(self, chars_per_s: float) -> None:
        self._chars_per_s = chars_per_s
        self._began: float | None = None
        self._clock = 0.0
        self._spoken = 0.0
        self.text = ""

    def push(self, text: str, now: float) -> None:
        self.advance(now)
        if self._began is None:
            self._began = now
        self._clock = max(self._clock, now)
        self.text += text

    def advance(self, now: float) -> str:
        """Speak until now; what of the current reply has been spoken, in whole words."""
        ready = len(self.text) - self._spoken
        speakable = min(ready, max(0.0, now - self._clock) * self._chars_per_s)
        self._spoken += speakable
        self._clock = max(self._clock, now)
        head = self.text[: int(self._spoken + 1e-9)]
        return head if len(head) == len(self.text) else head.rpartition(" ")[0]

    def since_start_ms(self, now: float) -> int:
        return 0 if self._began is None else int((now - self._began) * 1000)

    @property
    def waiting_chars(self) -> int:
        """Characters that have not been spoken."""
        return len(self.text) - int(self._spoken)

    def reset(self) -> None:
        """The next text begins a new reply."""
        self._began, self._spoken, self.text = None, 0.0, ""
