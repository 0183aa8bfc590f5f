"""Ending, from one task, the wait of another without owning or cancelling either task.

`cancel()` of an utterance comes from the task that heard the caller speak, while other tasks wait for audio or for room
in a queue. Those waits run under `Interruption.wait`, which the cancel ends at once.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """The wait was ended by `Interruption.set`."""


class Interruption:
    """A one-way switch. Once set, every wait under it ends, now and later."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._is_set = False

    @property
    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    def set(self) -> None:
        """End every wait. Safe to repeat."""
        self._is_set = True
        self.nudge()

    def nudge(self) -> None:
        """Let every present wait time out at once, so that it looks at what has changed."""
        now = asyncio.get_running_loop().time()
        for scope in self._scopes:
            if not scope.expired():
                scope.reschedule(now)
        self._scopes.clear()

    async def wait(self, work: Coroutine[Any, Any, T], limit_s: float | None = None) -> T:
        """Await `work` for at most `limit_s` seconds.

        Raises:
            Interrupted: `set` was called before or while waiting.
            TimeoutError: `limit_s` passed, or `nudge` was called.
        """
        if self._is_set:
            work.close()
            raise Interrupted
        scope = asyncio.timeout(limit_s)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    result = await work
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if self._is_set:
                raise Interrupted from None
            raise
        if self._is_set:
            raise Interrupted
        return result
