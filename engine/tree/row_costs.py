"""What a step costs by the rows in it, as measured on this machine before there is any load."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate

# Products come in blocks of six rows, or of twelve: the last row of a block and the first of the next one.
ROWS = (1, 3, 6, 7, 12, 13, 18, 19, 24, 25, 30, 36, 48, 72, 96, 144)
_RUNS = 3
_TYPICAL_ROW_COST = 0.05


def measured(step: Callable[[int], object], most: int, now_s: Callable[[], float]) -> dict[int, float]:
    """Seconds by rows, up to `most` rows; the quickest of some runs each, with all others between them: what disturbs one,
    a voice that is being loaded beside, has passed by another.

    Args:
        step: runs a step with so many rows.
        most: rows that a step can have.
        now_s: the clock.
    """
    rounds = [{rows: _timed(step, rows, now_s) for rows in ROWS if rows <= most} for _ in range(_RUNS)]
    return {rows: min(seconds[rows] for seconds in rounds) for rows in rounds[0]}


def _timed(step: Callable[[int], object], rows: int, now_s: Callable[[], float]) -> float:
    begin_s = now_s()
    step(rows)
    return now_s() - begin_s


class RowCosts:
    """Step time by rows, in proportion to a step of one row.

    Args:
        seconds: as `measured` gives them; empty where nothing was measured.
        row_cost: of each row beyond the first, as a share of a step of one row, where nothing was measured.

    Attributes:
        one_row_s: seconds of a step of one row; None where nothing was measured.
    """

    def __init__(self, seconds: Mapping[int, float], row_cost: float = _TYPICAL_ROW_COST) -> None:
        self._row_cost = row_cost
        # Disturbed steps take longer, never less, and fewer rows never take longer than more: what says so was disturbed.
        rows = sorted(seconds)
        least = list(accumulate((seconds[count] for count in reversed(rows)), min))[::-1]
        self.one_row_s = least[0] if len(rows) > 1 else None
        self._points = [(count, value / least[0]) for count, value in zip(rows, least, strict=True)]

    def times(self, rows: int) -> float:
        """Times a step of one row; between two measured points and behind the last one along a line."""
        points = self._points
        if len(points) < 2:
            return 1.0 + self._row_cost * (rows - 1)
        at = min(max(bisect_left(points, (rows, 0.0)), 1), len(points) - 1)
        (first, low), (last, high) = points[at - 1], points[at]
        return low + (high - low) * (rows - first) / (last - first)
