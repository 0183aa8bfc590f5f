"""Finds the highest number of calls that still meets the objective: doubling, then halving the gap. Pure.

A machine has bad moments, so a number fails only if it fails twice.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Search:
    """Ask `proposal`, run that many calls, tell `record`; None means done and `best` is the answer.

    Args:
        start: first number tried.
        limit: highest number tried.
        tolerance: stop when the answer is known to this share of itself.
    """

    start: int
    limit: int
    tolerance: float = 0.05
    best: int = 0
    _worst: int | None = None  # lowest number that failed twice
    _doubtful: int | None = None  # failed once

    @property
    def proposal(self) -> int | None:
        if self._doubtful is not None:
            return self._doubtful
        if self._worst is None:
            if self.best >= self.limit:
                return None
            return min(self.limit, max(self.start, self.best * 2))
        if self._worst - self.best <= max(1, int(self.best * self.tolerance)):
            return None
        return (self.best + self._worst) // 2

    def record(self, calls: int, met: bool) -> None:
        """The outcome of a run of `calls`."""
        if met:
            self.best, self._doubtful = max(self.best, calls), None
        elif self._doubtful == calls:
            self._worst, self._doubtful = calls, None
        else:
            self._doubtful = calls
