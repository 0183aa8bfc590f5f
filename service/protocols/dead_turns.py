"""Which turns may still send: nothing of a turn that was cut short leaves after it.

Turn ids grow, so one number is enough. Every dialect asks before it writes a token or a frame, which closes the gap
between the bridge's own word that it was interrupted and the session's reaction to it.
"""


class DeadTurns:
    """The newest turn seen and the newest one that is over."""

    __slots__ = ("_dead", "_newest")

    def __init__(self) -> None:
        self._newest = -1
        self._dead = -1

    def admits(self, turn_id: int) -> bool:
        """True where something of this turn may leave. Remembers the turn."""
        self._newest = max(self._newest, turn_id)
        return turn_id > self._dead

    def end(self, turn_id: int) -> None:
        """Nothing of this turn or an earlier one leaves any more."""
        self._newest = max(self._newest, turn_id)
        self._dead = max(self._dead, turn_id)

    def end_newest(self) -> None:
        """The same for the turn that spoke last: the bridge has stopped it by itself."""
        self._dead = max(self._dead, self._newest)
