"""The calls in progress: places and the queue for them, lookup by id, and the end of all of them at shutdown."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from service.admission import Admission

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
    """Every call of this process.

    Args:
        admission: decides on each new call.
        max_waiting: calls that may wait for a place before the upgrade; one more is refused at once.
        max_wait_s: how long each of them waits.
    """

    def __init__(self, admission: Admission, max_waiting: int, max_wait_s: float) -> None:
        self.admission = admission
        self.draining = False
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._taken = 0
        self._waiting = 0
        self._sessions: dict[str, Session] = {}
        self._changed = asyncio.Condition()

    @property
    def count(self) -> int:
        """Calls in progress, those still connecting included."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Calls that wait for a place."""
        return self._waiting

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Hold one place for a call, after waiting for it where that is allowed.

        Raises:
            Refused: no place, or the service is draining.
        """
        await self._enter()
        try:
            yield
        finally:
            self._taken -= 1
            async with self._changed:
                self._changed.notify_all()

    async def _enter(self) -> None:
        reason = self._refusal()
        if reason is not None and reason != "draining" and self._waiting < self._max_waiting:
            reason = await self._wait()
        if reason is not None:
            raise Refused(reason, 30 if reason == "draining" else 5)
        self._taken += 1

    async def _wait(self) -> str | None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._max_wait_s), self._changed:
                await self._changed.wait_for(lambda: self.draining or self._refusal() is None)
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1
        return self._refusal()

    def _refusal(self) -> str | None:
        return "draining" if self.draining else self.admission.refusal(self._taken)

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
            async with asyncio.timeout(limit_s), self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: not self._taken)
        except TimeoutError:
            for session in list(self._sessions.values()):
                session.hang_up("shutdown")
