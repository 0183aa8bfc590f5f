"""The calls in progress, by id: admission, lookup for transcripts, and the end of all of them at shutdown."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.session import Session


class Refused(Exception):
    """A new call is not taken.

    Args:
        reason: one of `service.metrics.REFUSALS`.
        retry_after_s: when to try again.
    """

    def __init__(self, reason: str, retry_after_s: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Calls:
    """Every call of this process."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._taken = 0
        self._sessions: dict[str, Session] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self.draining = False

    @property
    def count(self) -> int:
        """Calls in progress, those still connecting included."""
        return self._taken

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Hold one place for a call.

        Raises:
            Refused: no place, or the service is draining.
        """
        if self.draining:
            raise Refused("draining", 30)
        if self._taken >= self._max_calls:
            raise Refused("capacity", 5)
        self._taken += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._taken -= 1
            if not self._taken:
                self._empty.set()

    def new_id(self, wanted: str | None) -> str:
        """The bridge's own id for the call where it is still free, else a fresh one."""
        if wanted and wanted not in self._sessions:
            return wanted
        return secrets.token_hex(8)

    def enter(self, call_id: str, session: "Session") -> None:
        """The call has started under this id."""
        self._sessions[call_id] = session

    def leave(self, call_id: str) -> None:
        """The call has ended."""
        self._sessions.pop(call_id, None)

    def find(self, call_id: str) -> "Session | None":
        """The running call of that id."""
        return self._sessions.get(call_id)

    async def drain(self, limit_s: float) -> None:
        """Take no more calls, let the running ones finish for `limit_s`, then hang up on those left."""
        self.draining = True
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            for session in list(self._sessions.values()):
                session.hang_up("shutdown")
