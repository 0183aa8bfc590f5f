"""How large trees should be while serving, by load and by what they bring. Pure: it is told what was measured.

A tree makes a step longer, the more so the more nodes it has and the more requests are in the step, and it brings the
tokens that are accepted. Both are followed: step times by batch size and tree, and for each path how often the model
goes all the way along it, so that one tree tells what every smaller one would have brought. The tree with the most
tokens per second is chosen, none at all among them. It must promise a margin more than the current one for several
decisions in a row, so that the size does not flutter. One step in many tries the next smaller or larger tree, and early
ones no tree at all: what that costs and brings only shows then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.tree.row_costs import RowCosts
from engine.tree.topology import Path, Topology

# A tree replaces the current one when it promises this much more, so many decisions in a row.
MARGIN = 0.04
PATIENCE = 12
# One step in so many tries a neighbouring size.
PROBE_EVERY = 48
# Early steps that try no tree, the next larger and the next smaller one.
_EARLY = {8: "none", 16: "larger", 24: "smaller", 32: "none"}
# Weight of the newest observation in a running mean.
_NEWEST = 0.03
# A step counts as at most so many times the mean.
_OUTLIER = 2.0
# Steps of a kind before a mean of them is followed.
_FIRST = 4


@dataclass(slots=True)
class _Choice:
    """For batches of about one size: the tree in use, the one that may replace it, for how long it has won; steps."""

    current: int
    rival: int = 0
    wins: int = 0
    steps: int = 0


class SizePolicy:
    """Chooses among trees.

    Args:
        trees: to choose from, ascending in size; none at all is always among the choices.
        shares: by path, how often the model goes all the way along it, as far as known beforehand.
        costs: of steps by their rows, as far as known beforehand.
    """

    def __init__(self, trees: Sequence[Topology], shares: Mapping[Path, float], costs: RowCosts) -> None:
        self._trees: tuple[Topology | None, ...] = (None, *trees)
        self._shares = {path: shares.get(path, 0.0) for tree in trees for path in tree.paths}
        self._costs = costs
        self._times: dict[tuple[int, int], float] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._choices: dict[int, _Choice] = {}

    def choose(self, batch: int) -> Topology | None:
        """The tree for each of `batch` requests, None for none."""
        size = about(batch)
        best = max(range(len(self._trees)), key=lambda place: self.tokens_per_s(size, self._trees[place]))
        choice = self._choices.setdefault(size, _Choice(best))
        promised = self.tokens_per_s(size, self._trees[best])
        better = promised > self.tokens_per_s(size, self._trees[choice.current]) * (1 + MARGIN)
        choice.wins = choice.wins + 1 if better and best == choice.rival else 0
        choice.rival = best
        if choice.wins >= PATIENCE:
            choice.current, choice.wins = best, 0
        choice.steps += 1
        return self._trees[self._tried(choice)]

    def _tried(self, choice: _Choice) -> int:
        """The place of the current tree, or of one that is tried for a step."""
        due = _EARLY.get(choice.steps)
        if choice.steps % PROBE_EVERY == 0:
            due = "larger" if choice.steps // PROBE_EVERY % 2 else "smaller"
        place = {None: choice.current, "none": 0, "larger": choice.current + 1, "smaller": choice.current - 1}[due]
        return min(max(place, 0), len(self._trees) - 1)

    def saw_tree(self, tree: Topology, path: Sequence[int]) -> None:
        """A tree was verified.

        Args:
            tree: as much of it as was verified.
            path: the rows accepted, 1 for the first node.
        """
        taken = set(path)
        for row, node in enumerate(tree.paths, 1):
            if node in self._shares:
                self._shares[node] += _NEWEST * ((row in taken) - self._shares[node])

    def saw_step(self, batch: int, nodes: int, seconds: float) -> None:
        """A step took `seconds` in which each of `batch` requests had a tree of `nodes` nodes (0: none)."""
        key = (about(batch), nodes)
        before = self._times.get(key, seconds)
        self._seen[key] = seen = self._seen.get(key, 0) + 1
        if seen <= _FIRST:
            # Whatever disturbs a step makes it longer: of the first ones, some of them tries long ago, the quickest counts.
            self._times[key] = min(before, seconds)
        else:
            self._times[key] = before + _NEWEST * (min(seconds, _OUTLIER * before) - before)

    def tokens_per_s(self, batch: int, tree: Topology | None) -> float:
        """Tokens of one request per second to expect; in units of a plain step's time while no step was seen."""
        return self.tokens(tree) / self._seconds(batch, tree.nodes if tree else 0)

    def tokens(self, tree: Topology | None) -> float:
        """Tokens of one request in a step to expect, the one counted that is sampled in any case."""
        return 1.0 + sum(self._shares[path] for path in tree.paths) if tree else 1.0

    def times(self, batch: int, nodes: int, seconds: float) -> float | None:
        """`seconds` in units of the mean step with trees of `nodes` nodes; None while none was seen."""
        seen = self._times.get((about(batch), nodes))
        return None if seen is None else seconds / seen

    def times_with(self, batch: int, nodes: int, more: int) -> float:
        """A step with `more` rows than `batch` trees of `nodes` nodes have, in units of one without, by its rows alone."""
        rows = batch * (1 + nodes)
        return self._costs.times(rows + more) / self._costs.times(rows)

    def _seconds(self, batch: int, nodes: int) -> float:
        """As measured, or in proportion to what was measured of the same batch size, else of any."""
        if (seen := self._times.get((batch, nodes))) is not None:
            return seen
        known = {key: value for key, value in self._times.items() if key[0] == batch} or self._times
        ratios = [value / self._costs.times(size * (1 + count)) for (size, count), value in known.items()]
        scale = sum(ratios) / len(ratios) if ratios else 1.0
        return scale * self._costs.times(batch * (1 + nodes))


def about(batch: int) -> int:
    """Batch sizes that are looked at together: 1, 2, 3 to 4, 5 to 8 and so on."""
    return 1 << (batch - 1).bit_length()
