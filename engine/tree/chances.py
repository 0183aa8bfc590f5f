"""How often the model goes along with drafts that the heads are so sure of. Pure: it is told what came of them.

Heads give every drafted path a probability. How often such paths are the model's own depends on more than the heads know:
at temperature 0 the likeliest token is said more often than its probability, and other callers say other things. So what
heads promise is set against what was kept, apart for each range of promises.
"""

from bisect import bisect_left

# Ranges of promised chances, by their upper ends.
_RANGES = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8)
# Promises that a range is taken to have kept before anything was seen.
_BEFOREHAND = 2.0
# What is seen counts for half after about so many promises that follow it.
_MEMORY = 0.5 ** (1 / 200)
# What is left of it after each fading.
_FADING = 0.9


class Chances:
    """For requests of one kind."""

    def __init__(self) -> None:
        self._promised = [_BEFOREHAND] * (len(_RANGES) + 1)
        self._kept = [_BEFOREHAND] * (len(_RANGES) + 1)

    def of(self, promised: float) -> float:
        """The chance of a path that heads gave this probability; of what is none, 0."""
        if not 0.0 <= promised <= 1.0:
            return 0.0
        place = bisect_left(_RANGES, promised)
        return min(1.0, promised * self._kept[place] / self._promised[place])

    def saw(self, promised: float, kept: bool) -> None:
        """A path of this probability was verified, and kept or not."""
        if not 0.0 <= promised <= 1.0:
            return
        place = bisect_left(_RANGES, promised)
        self._promised[place] = _BEFOREHAND + _MEMORY * (self._promised[place] - _BEFOREHAND) + promised
        self._kept[place] = _BEFOREHAND + _MEMORY * (self._kept[place] - _BEFOREHAND) + kept

    def fade(self) -> None:
        """Believe a little more in what is promised. What seems unlikely is not verified, so that it would never be seen
        that it has become likelier."""
        for sums in (self._promised, self._kept):
            sums[:] = [_BEFOREHAND + _FADING * (value - _BEFOREHAND) for value in sums]
