"""How long a continuation found in the text should be that is grafted onto a tree. Pure: it is told what was measured.

How often the model goes along with the first grafted token, then with the second after the first and so on, is followed
by how many tokens agreed where the continuation was found, and by whether the tree's own candidates begin like it. What
grafts add to a step beyond what its rows let expect is followed by batch size. The graft with the most tokens per second
is chosen, none among them; where none pays, one chance in many is tried all the same, for the text may have changed.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from engine.tree.node_policy import about

# Nodes of a graft at most. In calls that quote their system prompt two grafts in five of 6 nodes are accepted whole.
LONGEST_GRAFT = 10
# One chance in so many is tried where grafts do not pay.
PROBE_EVERY = 24
# How often a grafted token is right behind one that was, where nothing was seen.
_TYPICAL_SHARE = 0.75
# Weight of the newest observation in a running mean.
_NEWEST = 0.05
# A step counts as at most so many times as long as expected.
_OUTLIER = 1.5


class GraftPolicy:
    """Chooses how many nodes to graft, and learns from what came of it."""

    def __init__(self) -> None:
        self._right: dict[tuple[int, bool], list[float]] = {}
        self._beyond: dict[int, float] = {}
        self._chances: dict[tuple[int, bool], int] = {}

    def length(self, batch: int, tokens: float, match: int, agrees: bool, times: Sequence[float]) -> int:
        """Nodes to graft onto one request's tree.

        Args:
            batch: requests in the step.
            tokens: of each in a step, to expect without grafts.
            match: tokens that agreed where the continuation was found.
            agrees: whether the tree holds its first token.
            times: by number of grafted nodes, from 1 to as many as there is room for, how many times as long the step is
                by its rows as without.
        """
        shares = accumulate(self._right_of(match, agrees), mul)
        gains = accumulate(shares)
        beyond = self._beyond.get(about(batch), 1.0)
        rates = [(batch * tokens + gain) / (beyond * time) for gain, time in zip(gains, times, strict=False)]
        if rates and max(rates) > batch * tokens:
            return 1 + rates.index(max(rates))
        key = (match, agrees)
        self._chances[key] = chances = self._chances.get(key, 0) + 1
        return 0 if chances % PROBE_EVERY else len(rates)

    def _right_of(self, match: int, agrees: bool) -> list[float]:
        return self._right.setdefault((match, agrees), [_TYPICAL_SHARE] * LONGEST_GRAFT)

    def saw_graft(self, match: int, agrees: bool, length: int, accepted: int) -> None:
        """Of a graft of `length` nodes the first `accepted` were taken."""
        right = self._right_of(match, agrees)
        for place in range(min(accepted + 1, length)):
            right[place] += _NEWEST * ((place < accepted) - right[place])

    def saw_step(self, batch: int, times: float) -> None:
        """A step with grafts took so many times as long as its rows let expect."""
        before = self._beyond.get(about(batch), 1.0)
        self._beyond[about(batch)] = before + _NEWEST * (min(times, _OUTLIER) - before)
