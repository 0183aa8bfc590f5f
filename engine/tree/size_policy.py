"""How large trees should be while serving, by load and by what they bring. Pure: it is told what was measured.

A tree of n nodes makes a step longer, the more so the more requests are in it, and brings the tokens that are accepted.
Both are followed: step times by batch size and tree size, and for each node how often it lies on the accepted path, so
that one tree tells what each of its prefixes would have brought. The size with the most tokens per second is chosen, 0
(no trees) among them. It must promise a margin more than the current one for several decisions in a row, so that the
size does not flutter. One step in many tries the next smaller or larger size: what it costs and brings only shows then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A size replaces the current one when it promises this much more, so many decisions in a row.
MARGIN = 0.04
PATIENCE = 12
# One step in so many tries a neighbouring size.
PROBE_EVERY = 48
# Weight of the newest observation in a running mean.
_NEWEST = 0.03
# A step counts as at most so many times the mean.
_OUTLIER = 2.0
# Step time for each row beyond the first, as a share of a plain step of one row, where nothing was measured.
_TYPICAL_ROW_COST = 0.03


@dataclass(slots=True)
class _Choice:
    """For batches of about one size: the size in use, the one that may replace it, and for how long it has won."""

    current: int
    rival: int = 0
    wins: int = 0
    steps: int = 0


class SizePolicy:
    """Chooses among prefixes of one tree.

    Args:
        sizes: numbers of nodes to choose from.
        shares: for every node, how often it is on the accepted path as far as known beforehand.
        row_cost: step time for each row beyond the first as a share of a plain step, as far as known beforehand.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[float], row_cost: float = _TYPICAL_ROW_COST) -> None:
        self._sizes = tuple(sorted({0, *sizes}))
        self._shares = list(shares)
        self._row_cost = row_cost
        self._times: dict[tuple[int, int], float] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._choices: dict[int, _Choice] = {}

    def choose(self, batch: int) -> int:
        """Nodes for the trees of a step with `batch` requests, 0 for none."""
        size = 1 << (batch - 1).bit_length()
        best = max(self._sizes, key=lambda nodes: self.tokens_per_s(size, nodes))
        choice = self._choices.setdefault(size, _Choice(best))
        promised, now = self.tokens_per_s(size, best), self.tokens_per_s(size, choice.current)
        choice.wins = choice.wins + 1 if best == choice.rival and promised > now * (1 + MARGIN) else 0
        choice.rival = best
        if choice.wins >= PATIENCE:
            choice.current, choice.wins = best, 0
        choice.steps += 1
        if choice.steps % PROBE_EVERY:
            return choice.current
        return self._neighbour(choice.current, larger=bool(choice.steps // PROBE_EVERY % 2))

    def _neighbour(self, nodes: int, *, larger: bool) -> int:
        place = self._sizes.index(nodes) + (1 if larger else -1)
        return self._sizes[place] if 0 <= place < len(self._sizes) else nodes

    def saw_tree(self, nodes: int, path: Sequence[int]) -> None:
        """A tree of `nodes` nodes was verified.

        Args:
            nodes: its size.
            path: the rows accepted, 1 for the first node.
        """
        taken = set(path)
        for node in range(nodes):
            self._shares[node] += _NEWEST * ((node + 1 in taken) - self._shares[node])

    def saw_step(self, batch: int, nodes: int, seconds: float) -> None:
        """A step took `seconds` in which each of `batch` requests had a tree of `nodes` nodes (0: none)."""
        key = (1 << (batch - 1).bit_length(), nodes)
        before, seen = self._times.get(key, seconds), self._seen.get(key, 0) + 1
        # The first steps of a kind may be slow for reasons of their own, so they weigh no more than later ones; and one
        # step that had to wait for something else says little.
        weight = max(_NEWEST, 1 / seen)
        self._times[key] = before + weight * (min(seconds, _OUTLIER * before) - before)
        self._seen[key] = seen

    def tokens_per_tree(self, nodes: int) -> float:
        """Tokens of a step to expect for one request, the bonus token included."""
        return 1.0 + sum(self._shares[:nodes])

    def tokens_per_s(self, batch: int, nodes: int) -> float:
        """Tokens of one request per second to expect; in units of a plain step's time while no step was seen."""
        return self.tokens_per_tree(nodes) / self._seconds(batch, nodes)

    def _seconds(self, batch: int, nodes: int) -> float:
        """As measured, or in proportion to what was measured of the same batch size, else of any."""
        if (seen := self._times.get((batch, nodes))) is not None:
            return seen
        known = {key: value for key, value in self._times.items() if key[0] == batch} or self._times
        ratios = [value / self._typical(*key) for key, value in known.items()]
        scale = sum(ratios) / len(ratios) if ratios else 1.0
        return scale * self._typical(batch, nodes)

    def _typical(self, batch: int, nodes: int) -> float:
        return 1.0 + self._row_cost * (batch * (1 + nodes) - 1)
