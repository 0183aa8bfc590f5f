"""One sleeper that can be woken early: the only way shells wait for "next wakeup or news, whichever is first"."""

import asyncio
import math

from service.event_loop import PreciseLoop


class Alarm:
    """`ring` from anywhere on the loop wakes the one task in `wait_until`; a ring while nobody waits is kept."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._sleeper: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        """Wake the sleeper."""
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait_until(self, when: float | None) -> None:
        """Return at `when` (loop time, seconds; None: never) or when rung, whichever is first."""
        if not self._rung and (when is None or when > self._loop.time()):
            self._sleeper = self._loop.create_future()
            timer = None if when is None else self._timer(when, self._sleeper)
            try:
                await self._sleeper
            finally:
                self._sleeper = None
                if timer is not None:
                    timer.cancel()
        self._rung = False

    def _timer(self, when: float, sleeper: "asyncio.Future[None]") -> asyncio.TimerHandle:
        if isinstance(self._loop, PreciseLoop):
            return self._loop.call_at(when, self._wake, sleeper)
        # Whole milliseconds, rounded up: uvloop's own timers are no finer, and one that came early would be waited for
        # again and again.
        return self._loop.call_later(math.ceil((when - self._loop.time()) * 1000) / 1000, self._wake, sleeper)

    @staticmethod
    def _wake(sleeper: "asyncio.Future[None]") -> None:
        if not sleeper.done():
            sleeper.set_result(None)
