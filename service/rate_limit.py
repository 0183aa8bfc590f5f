"""How fast a peer may send: a token bucket. Pure."""


class RateLimit:
    """`rate_per_s` on average, with bursts of up to two seconds' worth."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._most = 2 * rate_per_s
        self._left = self._most
        self._at: float | None = None

    def allows(self, now: float) -> bool:
        """Count one message at `now` (seconds); False where it is one too many."""
        if self._at is not None:
            self._left = min(self._most, self._left + (now - self._at) * self._rate_per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
