"""From the target's last hidden states to the candidates of a tree: one pass of the heads per level.

Only nodes that have children are run. All rows of a level go through one product with the vocabulary, so its matrix is
read once per level and not once per head and node.
"""

from dataclasses import dataclass
from functools import partial

import torch

from engine.heads.architectures import Heads
from engine.heads.loss import Target
from engine.tree.topology import Topology


@dataclass(frozen=True, slots=True)
class _Level:
    """What one pass drafts.

    Attributes:
        source: [expanded] place of each expanded node among the expanded ones of the level before, whose state it
            starts from.
        node: [expanded] its index among the tree's nodes; empty for the root.
        place: [drafted] among the expanded nodes, the parent of each node drafted here.
        rank: [drafted] which of its parent's candidates it is.
        drafted: [drafted] its index among the tree's nodes.
        candidates: how many the vocabulary product must find.
    """

    source: torch.Tensor
    node: torch.Tensor
    place: torch.Tensor
    rank: torch.Tensor
    drafted: torch.Tensor
    candidates: int


class Drafting:
    """Heads with the matrices they share with the target, for one tree.

    Args:
        heads: trained; on the target's device and in its type.
        target: the shared matrices.
        topology: the tree, no deeper than the heads.

    Raises:
        ValueError: the tree is deeper than the heads.
    """

    def __init__(self, heads: Heads, target: Target, topology: Topology) -> None:
        if topology.max_depth > heads.config.depth:
            raise ValueError(f"the tree is {topology.max_depth} deep, the heads only {heads.config.depth}")
        self._heads = heads
        self._target = target
        self._nodes = topology.nodes
        self._levels = _levels(topology, target.token_map.device)
        self._one_state = heads.config.architecture == "medusa"

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def draft(self, hidden: torch.Tensor, bonus: torch.Tensor) -> torch.Tensor:
        """Candidates for every node.

        Args:
            hidden: [batch, hidden] the state that the bonus token was taken from.
            bonus: [batch] the last token of each request.

        Returns:
            [batch, nodes] token ids in the tree's order.
        """
        batch = len(bonus)
        tokens = torch.empty((batch, self._nodes), dtype=torch.long, device=hidden.device)
        states = self._heads.start(hidden)[:, None]
        for depth, level in enumerate(self._levels):
            states = states[:, level.source]
            own = tokens[:, level.node] if depth else bonus[:, None]
            if self._one_state:
                # Independent heads: what they say does not depend on the parent.
                states, own = states[:, :1], own[:, :1]
            rows = states.shape[1]
            token = self._heads.embed(self._target.embedding[own.reshape(-1)])
            flat = self._heads.step(depth, states.reshape(batch * rows, -1), token)
            logits = self._heads.product(self._heads.output(depth, flat), self._target.matrix(depth))
            best = logits.topk(level.candidates).indices.view(batch, rows, -1)
            place = level.place.clamp_max(rows - 1)
            tokens[:, level.drafted] = self._target.token_map[best[:, place, level.rank]]
            states = flat.view(batch, rows, -1).expand(-1, len(level.source), -1)
        return tokens


def _levels(topology: Topology, device: torch.device) -> list[_Level]:
    """One per depth at which something is drafted."""
    tensor = partial(torch.tensor, dtype=torch.long, device=device)
    levels: list[_Level] = []
    before = [0]
    for depth in range(topology.max_depth):
        rows = [0] if depth == 0 else [row for row in topology.levels[depth - 1] if topology.children[row]]
        drafted = [child for row in rows for child in topology.children[row]]
        source = [0] if depth == 0 else [before.index(topology.parents[row - 1]) for row in rows]
        levels.append(
            _Level(
                source=tensor(source),
                node=tensor([row - 1 for row in rows]),
                place=tensor([rows.index(topology.parents[child - 1]) for child in drafted]),
                rank=tensor([topology.ranks[child - 1] for child in drafted]),
                drafted=tensor([child - 1 for child in drafted]),
                candidates=1 + max(topology.ranks[child - 1] for child in drafted),
            )
        )
        before = rows
    return levels
