"""From what heads draft to the trees that are verified: only nodes that are worth their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from engine.heads.drafting import Draft
from engine.tree.chances import Chances
from engine.tree.grafting import NOTHING
from engine.tree.node_policy import NodePolicy
from engine.tree.source import Candidate, Source
from engine.tree.topology import Path, Topology


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request's next tree.

    Attributes:
        tree: drafted, a graft included.
        promised: by row, what the heads said of its nodes' chances; of grafted nodes they say nothing.
        greedy: of the request, as in `Candidate`.
        tokens: of a step to expect, without the graft.
    """

    tree: Topology
    promised: Sequence[float] = ()
    greedy: bool = True
    tokens: float = 1.0


class Selection:
    """For all requests of an engine.

    Args:
        topology: the whole tree.
        shares: by path, how often the model goes all the way along it, as far as known beforehand; for sources that say
            nothing of chances.
        policy: says which nodes are worth it.

    Attributes:
        policy: the same.
    """

    def __init__(self, topology: Topology, shares: Mapping[Path, float], policy: NodePolicy) -> None:
        self._topology, self.policy = topology, policy
        self._shares = [shares.get(path, 0.0) for path in topology.paths]
        self._chances = {greedy: Chances() for greedy in (False, True)}

    def drafted(
        self, source: Source, candidates: Sequence[Candidate], hidden: torch.Tensor
    ) -> tuple[list[Chosen], list[list[int]]]:
        """For each candidate its tree and the tokens of its nodes.

        Args:
            source: drafts.
            candidates: as for `Source`.
            hidden: as for `Source`.
        """
        batch = len(candidates)
        if self.policy.trying:
            for kind in self._chances.values():
                kind.fade()

        def deeper(chances: Sequence[float], requests: Sequence[int]) -> list[int]:
            kinds = [self._chances[candidates[request].greedy] for request in requests]
            return self.policy.deeper(batch, [kind.of(chance) for kind, chance in zip(kinds, chances, strict=True)])

        drafts = source.draft(candidates, hidden, deeper)
        promised = [draft.chances or [self._shares[row - 1] for row in draft.rows] for draft in drafts]
        likely = [self._likely(*given) for given in zip(drafts, promised, candidates, strict=True)]
        chosen, tokens = [], []
        for request, nodes in enumerate(self.policy.kept(batch, likely)):
            draft = drafts[request]
            tree = self._topology.subtree([draft.rows[node] for node in nodes]) if nodes else NOTHING
            own = [promised[request][node] for node in nodes]
            gain = sum(likely[request][node] for node in nodes)
            chosen.append(Chosen(tree, own, candidates[request].greedy, 1.0 + gain))
            tokens.append([draft.tokens[node] for node in nodes])
        return chosen, tokens

    def saw_tree(self, chosen: Chosen, nodes: int, path: Sequence[int]) -> None:
        """The first `nodes` nodes of a tree were verified, and the rows of `path` accepted, 1 for the first node."""
        taken = set(path)
        for row, promised in enumerate(chosen.promised[:nodes], 1):
            self._chances[chosen.greedy].saw(promised, row in taken)

    def _likely(self, draft: Draft, promised: Sequence[float], candidate: Candidate) -> list[float]:
        """What a draft's nodes have a chance of, none more than its parent."""
        likely = {0: 1.0}
        for row, chance in zip(draft.rows, promised, strict=True):
            own = self._chances[candidate.greedy].of(chance)
            likely[row] = min(own, likely[self._topology.parents[row - 1]])
        return list(likely.values())[1:]
