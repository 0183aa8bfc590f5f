"""Which nodes of a tree are worth their rows, and whether trees are. Pure: it is told what was measured.

A row makes a step longer, the more so the more requests are in it, and brings its node's chance of being accepted. Steps
follow each other, so what counts is tokens per second over many of them: a node is worth its row where its chance
exceeds the tokens that usually come in the time that the row adds (the rule of renewal reward; Dinkelbach, "On nonlinear
fractional programming", 1967). Likewise the heads are asked for another level only where it can bring more than its
time does elsewhere. That heads know where they are unsure, and trees should grow where they are not: EAGLE-2 (Li et al.,
arXiv 2406.16858).

Where steps without any tree bring more tokens per second, nothing is drafted: that must hold by a margin for several
decisions in a row, so that it does not flutter. Now and then a step is tried that does otherwise: what that costs and
brings only shows then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from engine.tree.row_costs import RowCosts

# Trees begin or end when that promises this much more, so many decisions in a row.
MARGIN = 0.03
PATIENCE = 12
# One step in so many does otherwise.
PROBE_EVERY = 48
# Early steps that try no tree.
_EARLY = (8, 32)
# Weight of the newest observation in a running mean, of steps as they are usual and of tries.
_NEWEST, _NEWEST_TRY = 0.02, 0.1
# A step counts as at most so many times the mean.
_OUTLIER = 1.5
# A likely node's best child is right about half of the time.
_CHILD = 0.5


@dataclass(slots=True)
class _Kind:
    """Steps of one kind, for batches of about one size, as running means.

    Attributes:
        seconds: of a step, the drafting of its trees included.
        tokens: of each request, as its nodes let expect: what was accepted says the same less evenly.
        row_s: seconds of its rows as `RowCosts` has them.
        seen: how many.
    """

    seconds: float = 0.0
    tokens: float = 1.0
    row_s: float = 0.0
    seen: int = 0

    @property
    def beyond_s(self) -> float:
        """Seconds of a step beside those of its rows."""
        return max(0.0, self.seconds - self.row_s)

    def saw(self, seconds: float, tokens: float, row_s: float, newest: float) -> None:
        self.seen += 1
        weight = max(1 / self.seen, newest)
        if self.seen > 1:
            seconds = min(seconds, _OUTLIER * self.seconds)
        self.seconds += weight * (seconds - self.seconds)
        self.row_s += weight * (row_s - self.row_s)
        self.tokens += weight * (tokens - self.tokens)


@dataclass(slots=True)
class _Load:
    """Batches of one kind: whether they have trees, for how long the other way has been better, and steps."""

    trees: _Kind
    plain: _Kind
    on: bool
    wins: int = 0
    steps: int = 0


class NodePolicy:
    """Chooses, and learns from what came of it.

    Args:
        shares: of the tree's paths, how often the model goes all the way along each, as far as known beforehand.
        costs: of steps by their rows, as far as known beforehand.

    Attributes:
        trying: whether the trees of the step at hand are a try: more of them than seem to be worth it, or any.
    """

    def __init__(self, shares: Iterable[float], costs: RowCosts) -> None:
        self._likeliest = sorted(shares, reverse=True)
        self._costs = costs
        self._unit_s = costs.one_row_s or inf
        self._loads: dict[tuple[int, bool], _Load] = {}
        self._level_s = 0.0
        # Of the step at hand.
        self.trying = self._generous = False
        self._beside, self._tokens, self._levels = 0, 1.0, 1
        self._sampled = False

    def trees(self, batch: int, beside: int = 0, sampled: bool = False) -> bool:
        """Whether the next step has trees; asked once a step.

        Args:
            batch: requests that may have them.
            beside: rows of others.
            sampled: whether any of the requests draws its tokens. Heads then are right less often, and a step takes
                longer, so what such steps bring and take is known apart.
        """
        self._beside, self._tokens, self._levels = beside, 1.0, 1
        self._sampled = sampled
        load = self._load(batch)
        on, off = self._rates(batch, load)
        better = off > on * (1 + MARGIN) if load.on else on > off * (1 + MARGIN)
        load.wins = load.wins + 1 if better else 0
        if load.wins >= PATIENCE:
            load.on, load.wins = not load.on, 0
        load.steps += 1
        tried = load.steps % PROBE_EVERY == 0
        # With trees the tries take turns: none, and more nodes than seem to be worth it.
        self._generous = tried and load.on and load.steps // PROBE_EVERY % 2 == 0
        other = (tried and not self._generous) or (load.on and load.steps in _EARLY)
        trees = load.on != other
        self.trying = trees and (self._generous or not load.on)
        return trees

    def kept(self, batch: int, chances: Sequence[Sequence[float]]) -> list[list[int]]:
        """Which nodes a step verifies.

        Args:
            batch: requests of the step.
            chances: for each request those of its nodes; no node's is higher than that of its parent, which comes first.

        Returns:
            For each request their places among its nodes, ascending.
        """
        price = self._price(batch)
        nodes = [(-chance, place, request) for request, own in enumerate(chances) for place, chance in enumerate(own)]
        nodes.sort()
        before = self._row_s(batch + self._beside)
        worth = [
            gain - price * (self._row_s(batch + self._beside + count) - before)
            for count, gain in enumerate(accumulate((-node[0] for node in nodes), initial=0.0))
        ]
        best = nodes[: worth.index(max(worth))]
        self._tokens = 1.0 - sum(node[0] for node in best) / batch
        kept: list[list[int]] = [[] for _ in chances]
        for _, place, request in sorted(best, key=lambda node: node[1]):
            kept[request].append(place)
        return kept

    def deeper(self, batch: int, chances: Sequence[float]) -> list[int]:
        """Below which of a level's nodes the heads draft on.

        Args:
            batch: requests of the step.
            chances: of the nodes that can have children.

        Returns:
            Their places.
        """
        price, row = self._price(batch), self._row_price(batch)
        gains = {place: _CHILD * chance - row for place, chance in enumerate(chances) if _CHILD * chance > row}
        if sum(gains.values()) <= price * self._level_s:
            return []
        self._levels += 1
        return list(gains)

    def expected(self, batch: int) -> float:
        """Drafted tokens that each request's tree brings if every path is as likely as known beforehand: those of the nodes
        that would be worth their rows. Where heads know when they are sure, trees bring more than that."""
        row = self._row_price(batch)
        return sum(share for share in self._likeliest if share > row)

    def saw_drafting(self, seconds: float) -> None:
        """The step's trees were drafted, in so many seconds."""
        each = seconds / self._levels
        if self._level_s:
            each = min(each, _OUTLIER * self._level_s)
        self._level_s += (_NEWEST if self._level_s else 1.0) * (each - self._level_s)

    def saw_step(self, batch: int, trees: bool, rows: int, seconds: float) -> None:
        """The step that was chosen for last.

        Args:
            batch: requests of it that could have trees.
            trees: whether it was to have trees; one without any, because none seemed worth it, is of that kind too.
            rows: of it.
            seconds: that it took, the drafting of its trees included.
        """
        # No step is quicker than its rows, whatever was measured beforehand, on a machine that may have been busy.
        self._unit_s = min(self._unit_s, seconds / self._costs.times(rows))
        load = self._load(batch)
        kind = load.trees if trees else load.plain
        if not trees and load.trees.seen:
            # Fewer rows and no drafting: what takes longer was disturbed.
            seconds = min(seconds, load.trees.seconds)
        tokens = self._tokens if trees else 1.0
        kind.saw(seconds, tokens, self._row_s(rows), _NEWEST if load.on == trees else _NEWEST_TRY)

    def times(self, batch: int, trees: bool, rows: int, seconds: float) -> float | None:
        """`seconds` in units of what such a step with so many rows is expected to take; None while none was seen."""
        load = self._load(batch)
        kind = load.trees if trees else load.plain
        return seconds / (self._row_s(rows) + kind.beyond_s) if kind.seen else None

    def times_with(self, rows: int, more: int) -> float:
        """A step with `more` rows beside `rows`, in units of one without, by its rows alone."""
        return self._costs.times(rows + more) / self._costs.times(rows)

    def _load(self, batch: int) -> _Load:
        kind = about(batch), self._sampled
        load = self._loads.get(kind)
        if load is None:
            load = self._loads[kind] = _Load(_Kind(), _Kind(), on=True)
            on, off = self._rates(batch, load)
            load.on = on > off
        return load

    def _rates(self, batch: int, load: _Load) -> tuple[float, float]:
        """Tokens per second of one request with and without trees: as seen, else by what rows cost."""
        plain_s, tree_s, tokens = load.plain.seconds, load.trees.seconds, load.trees.tokens
        if not load.trees.seen:
            nodes = self._nodes_beforehand(batch)
            tokens = 1.0 + sum(self._likeliest[:nodes])
            tree_s = self._row_s(batch * (1 + nodes))
            if load.plain.seen:
                tree_s += load.plain.beyond_s
        if not load.plain.seen:
            plain_s = self._row_s(batch)
            if load.trees.seen:
                plain_s += load.trees.beyond_s
        return tokens / tree_s, 1.0 / plain_s

    def _nodes_beforehand(self, batch: int) -> int:
        """Of the trees of the likeliest nodes, how many the best has."""
        tokens = list(accumulate(self._likeliest, initial=1.0))
        return max(range(len(tokens)), key=lambda nodes: tokens[nodes] / self._costs.times(batch * (1 + nodes)))

    def _price(self, batch: int) -> float:
        """Tokens that a second brings elsewhere, of all requests."""
        price = batch * max(self._rates(batch, self._load(batch)))
        return price / 2 if self._generous else price

    def _row_price(self, batch: int) -> float:
        """Tokens that must come of one more row: in the time that it adds where every request has one node already."""
        return self._price(batch) * (self._row_s(2 * batch) - self._row_s(batch)) / batch

    def _row_s(self, rows: int) -> float:
        """Seconds of a step's rows; of steps of one row while nothing was measured."""
        return (1.0 if self._unit_s == inf else self._unit_s) * self._costs.times(rows)


def about(batch: int) -> int:
    """Batch sizes that are looked at together: 1, 2, 3 to 4, 5 to 8 and so on."""
    return 1 << (batch - 1).bit_length()
