"""Marks that are out: what a mark coming back means.

A mark asks the bridge to say when everything before it has been played. Some bridges return every pending mark when
their buffer is cleared, others forget them; either way a mark is answered once, as played or as cleared, never as both.
"""

from service.protocols.events import MarkReached

MAX_MARKS = 512


class Marks:
    """The marks of one call. When `MAX_MARKS` are out, the oldest is forgotten: its return then means nothing."""

    __slots__ = ("_cleared", "_pending")

    def __init__(self) -> None:
        self._pending: dict[str, int] = {}
        self._cleared: dict[str, int] = {}

    def sent(self, name: str, turn_id: int) -> None:
        """`name` is on its way behind the audio sent so far."""
        self._pending[name] = turn_id
        _forget_oldest(self._pending)

    def clear(self, turn_id: int) -> None:
        """The buffer is being cleared: pending marks of this turn and earlier ones will come back unheard."""
        for name in [name for name, turn in self._pending.items() if turn <= turn_id]:
            self._cleared[name] = self._pending.pop(name)
        _forget_oldest(self._cleared)

    def returned(self, name: str) -> MarkReached | None:
        """What the return of `name` means; None for one that is not out (a duplicate, or not ours)."""
        if name in self._pending:
            del self._pending[name]
            return MarkReached(name, True)
        if name in self._cleared:
            del self._cleared[name]
            return MarkReached(name, False)
        return None

    def oldest(self) -> str | None:
        """The pending mark sent first: what a bridge that names none must mean."""
        return next(iter(self._pending), None)

    def give_up(self) -> list[MarkReached]:
        """The bridge has dropped its marks and will not return them: all that were being cleared are settled now."""
        names = list(self._cleared)
        self._cleared.clear()
        return [MarkReached(name, False) for name in names]


def _forget_oldest(marks: dict[str, int]) -> None:
    while len(marks) > MAX_MARKS:
        del marks[next(iter(marks))]
