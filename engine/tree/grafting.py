"""Grafts what the text has said before onto drafted trees: free candidates beside those of the heads.

The tree is followed along the continuation as far as its nodes hold it, and the rest hangs below the last of them. A path
of its own from the root would be hidden behind a drafted node with the same first token, for the walk takes the first
child that has the model's token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.tree.graft_policy import LONGEST_GRAFT, GraftPolicy
from engine.tree.lookup import continuation
from engine.tree.node_policy import NodePolicy
from engine.tree.topology import Path, Topology
from engine.tree.walk import child_with

# Nodes that a graft has at most where the whole tree gives way to it.
GIVEN_WAY = 6

NOTHING = Topology(())
"""The tree without nodes: what a graft hangs on where no tree is drafted."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a step has without grafts.

    Attributes:
        batch: requests that may have grafts.
        rows: of the step.
        tokens: of each request, to expect.
    """

    batch: int
    rows: int
    tokens: float = 1.0


class Grafting:
    """For all requests of an engine.

    Args:
        topology: the whole tree; no tree gets more nodes than it has.
        shares: by path, how often the model goes all the way along it, as far as known beforehand.
        nodes: what chooses nodes of trees; None where all trees are whole: then every continuation is grafted, and the
            least likely nodes give way to it.
    """

    def __init__(self, topology: Topology, shares: Mapping[Path, float], nodes: NodePolicy | None) -> None:
        self._most = topology.nodes
        self._longest = topology.max_depth + LONGEST_GRAFT
        self._likeliest = sorted(topology.paths, key=lambda path: (-shares.get(path, 0.0), len(path), path))
        self._nodes = nodes
        self._policy = GraftPolicy() if nodes is not None else None
        self._trimmed: dict[Topology, Topology] = {}

    def grafted(
        self, token_ids: npt.NDArray[np.int32], tree: Topology, drafts: list[int], load: Load
    ) -> tuple[Topology, list[int]]:
        """One request's tree and drafts with a graft; as they were where there is nothing to graft.

        Args:
            token_ids: prompt and reply so far.
            tree: that was drafted.
            drafts: its tokens in node order; fewer are a cut tree.
            load: of the step without grafts.
        """
        found = continuation(token_ids, self._longest)
        if found is None:
            return tree, drafts
        if len(drafts) < tree.nodes:
            tree = tree.prefix(len(drafts)) if drafts else NOTHING
        base, own = tree, drafts
        if self._policy is None and tree.nodes + GIVEN_WAY > self._most:
            base, own = self._trim(tree, drafts)
        row, depth = followed(base, own, found.tokens)
        rest = found.tokens[depth:]
        length = min(self._most - base.nodes, len(rest), LONGEST_GRAFT)
        if self._policy is not None and self._nodes is not None:
            times = [self._nodes.times_with(load.rows, more) for more in range(1, length + 1)]
            length = self._policy.length(load.batch, load.tokens, found.match, depth > 0, times)
        if length < 1:
            return tree, drafts
        return base.grafted(row, length, found.match), own + rest[:length]

    def saw_graft(self, tree: Topology, accepted: int) -> None:
        """Of a tree's graft, or as much of it as was verified, so many nodes were taken."""
        if self._policy is not None:
            self._policy.saw_graft(tree.graft_match, tree.graft_depth > 0, tree.graft_nodes, accepted)

    def saw_step(self, batch: int, times: float) -> None:
        """See `GraftPolicy`."""
        if self._policy is not None:
            self._policy.saw_step(batch, times)

    def _trim(self, tree: Topology, drafts: list[int]) -> tuple[Topology, list[int]]:
        """The likeliest nodes of a tree, so many that the longest graft finds room."""
        places = {path: place for place, path in enumerate(tree.paths)}
        trimmed = self._trimmed.get(tree)
        if trimmed is None:
            kept = [path for path in self._likeliest if path in places][: max(0, self._most - GIVEN_WAY)]
            trimmed = self._trimmed[tree] = Topology.from_paths(kept) if kept else NOTHING
        return trimmed, [drafts[places[path]] for path in trimmed.paths]


def followed(tree: Topology, drafts: Sequence[int], tokens: Sequence[int]) -> tuple[int, int]:
    """The row at which a tree stops to hold these tokens from its root on, and how many it holds."""
    row = 0
    for depth, token in enumerate(tokens):
        child = child_with(tree, drafts, row, token)
        if child is None:
            return row, depth
        row = child
    return row, len(tokens)
