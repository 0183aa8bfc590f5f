"""How long a continuation found in the text should be that is grafted onto a tree. Pure: it is told what was measured.

How often the model goes along with the first, second, … grafted token is followed by how many tokens agreed where the
continuation was found, and by whether the tree's own candidates begin like it. What a grafted node adds to a step is
followed by batch size. The graft with the most tokens per second is chosen, none among them; where none pays, one
chance in many is tried all the same, for the text may have changed.
"""

from engine.tree.size_policy import about

# Nodes of a graft at most.
LONGEST_GRAFT = 6
# One chance in so many is tried where grafts do not pay.
PROBE_EVERY = 24
# How often the first grafted token, the first two, … are taken where nothing was seen.
_TYPICAL_SHARES = (0.6, 0.45, 0.35, 0.28, 0.22, 0.18)
# What a grafted node adds to a step where nothing was measured, as a share of the step.
_TYPICAL_ROW_COST = 0.02
# Weight of the newest observation in a running mean.
_NEWEST = 0.05
# A step counts as at most so many times the one without grafts.
_OUTLIER = 1.5


class GraftPolicy:
    """Chooses how many nodes to graft, and learns from what came of it."""

    def __init__(self) -> None:
        self._shares: dict[tuple[int, bool], list[float]] = {}
        self._row_costs: dict[int, float] = {}
        self._chances: dict[tuple[int, bool], int] = {}

    def length(self, batch: int, tokens: float, match: int, agrees: bool, room: int) -> int:
        """Nodes to graft onto one request's tree.

        Args:
            batch: requests in the step.
            tokens: of each in a step, to expect without grafts.
            match: tokens that agreed where the continuation was found.
            agrees: whether the tree holds its first token.
            room: most nodes.
        """
        room = min(room, LONGEST_GRAFT)
        if room < 1:
            return 0
        rates = [self._rate(batch, tokens, match, agrees, length) for length in range(room + 1)]
        best = max(range(room + 1), key=lambda length: rates[length])
        if best:
            return best
        key = (match, agrees)
        self._chances[key] = chances = self._chances.get(key, 0) + 1
        return 0 if chances % PROBE_EVERY else room

    def _rate(self, batch: int, tokens: float, match: int, agrees: bool, length: int) -> float:
        """Tokens of the whole step in the time of a step without the graft."""
        gain = sum(self._shares_of(match, agrees)[:length])
        cost = self._row_costs.get(about(batch), _TYPICAL_ROW_COST)
        return (batch * tokens + gain) / (1 + cost * length)

    def _shares_of(self, match: int, agrees: bool) -> list[float]:
        return self._shares.setdefault((match, agrees), list(_TYPICAL_SHARES))

    def saw_graft(self, match: int, agrees: bool, length: int, accepted: int) -> None:
        """Of a graft of `length` nodes the first `accepted` were taken."""
        shares = self._shares_of(match, agrees)
        for place in range(length):
            shares[place] += _NEWEST * ((place < accepted) - shares[place])

    def saw_step(self, batch: int, nodes: int, times: float) -> None:
        """A step with `nodes` grafted nodes in all took so many times as long as one without."""
        size = about(batch)
        before = self._row_costs.get(size, _TYPICAL_ROW_COST)
        cost = (min(times, _OUTLIER) - 1) / nodes
        self._row_costs[size] = max(0.0, before + _NEWEST * (cost - before))
