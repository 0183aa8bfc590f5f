"""From the target's last hidden states to the candidates of a tree: one pass of the heads per level.

Only nodes that have children are run, or only those that are likely enough. All rows of a level go through one product
with the vocabulary, so its matrix is read once per level and not once per head and node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

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


# What a level does: depth, states [rows, state], tokens [rows] and a number of candidates give the states behind and,
# likeliest first, [rows, candidates] rows of the draft vocabulary and their probabilities.
Level = Callable[[int, torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Draft:
    """What is drafted for one request.

    Attributes:
        rows: of the tree, ascending; every parent is among them.
        tokens: of these.
        chances: for each, what the heads say of its whole path: the product of its tokens' probabilities; empty where
            nothing is said.
    """

    rows: list[int]
    tokens: list[int]
    chances: list[float]


class Deeper(Protocol):
    """Says below which candidates it is worth drafting on."""

    def __call__(self, chances: Sequence[float], requests: Sequence[int]) -> list[int]:
        """Places of those, of candidates of one level: the chance of each, and the place of its request."""


class Drafting:
    """Heads with the matrices they share with the target, for one tree.

    Args:
        heads: trained; on the target's device and in its type.
        target: the shared matrices.
        topology: the tree, no deeper than the heads.
        level: runs a level of these heads; None: torch's operators do.

    Raises:
        ValueError: the tree is deeper than the heads, or wants more candidates than they can draft.
    """

    def __init__(self, heads: Heads, target: Target, topology: Topology, level: Level | None = None) -> None:
        if topology.max_depth > heads.config.depth:
            raise ValueError(f"the tree is {topology.max_depth} deep, the heads only {heads.config.depth}")
        if max(topology.ranks) >= len(target.token_map):
            raise ValueError(
                f"the tree has a candidate {max(topology.ranks)}, the heads draft {len(target.token_map)} tokens"
            )
        self._heads = heads
        self._target = target
        self._topology = topology
        self._levels = _levels(topology, target.token_map.device)
        self._level = level or self._by_torch
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
        tokens = torch.empty((batch, self._topology.nodes), dtype=torch.long, device=hidden.device)
        states = self._heads.start(hidden)[:, None]
        for depth, level in enumerate(self._levels):
            states = states[:, level.source]
            own = tokens[:, level.node] if depth else bonus[:, None]
            if self._one_state:
                # Independent heads: what they say does not depend on the parent.
                states, own = states[:, :1], own[:, :1]
            rows = states.shape[1]
            flat, best, _ = self._level(depth, states.reshape(batch * rows, -1), own.reshape(-1), level.candidates)
            place = level.place.clamp_max(rows - 1)
            tokens[:, level.drafted] = self._target.token_map[best.view(batch, rows, -1)[:, place, level.rank]]
            states = flat.view(batch, rows, -1).expand(-1, len(level.source), -1)
        return tokens

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def draft_likely(self, hidden: torch.Tensor, bonus: torch.Tensor, deeper: Deeper) -> list[Draft]:
        """Candidates for the nodes whose parents `deeper` took, one draft for each request.

        Args:
            hidden: as in `draft`.
            bonus: as in `draft`.
            deeper: asked after every level about its nodes that have children.
        """
        drafts = [Draft([], [], []) for _ in range(len(bonus))]
        states, tokens = self._heads.start(hidden), bonus
        # By request, row of the tree, chance of its path, and the place of its state among the states.
        parents = [(request, 0, 1.0, request) for request in range(len(bonus))]
        for depth, level in enumerate(self._levels):
            states, best, shares = self._level(depth, states, tokens, level.candidates)
            found = self._children(parents, self._target.token_map[best].tolist(), shares.tolist(), drafts)
            if not found:
                break
            taken = [found[place] for place in deeper([one[2] for one in found], [one[0] for one in found])]
            if not taken:
                break
            if self._one_state:
                # Independent heads: what they say does not depend on the parent.
                parents = [(request, row, chance, request) for request, row, chance, _, _ in taken]
                continue
            parents = [(request, row, chance, place) for place, (request, row, chance, _, _) in enumerate(taken)]
            places = torch.tensor([(place, token) for _, _, _, place, token in taken], device=hidden.device)
            states, tokens = states[places[:, 0]], places[:, 1]
        return [_in_order(draft) for draft in drafts]

    def _children(
        self,
        parents: Sequence[tuple[int, int, float, int]],
        tokens: list[list[int]],
        shares: list[list[float]],
        drafts: Sequence[Draft],
    ) -> list[tuple[int, int, float, int, int]]:
        """Notes the children of some nodes in the drafts; returns those that have children themselves: by request, row,
        chance, place of the state they start from, and token."""
        topology, found = self._topology, []
        for request, parent, before, place in parents:
            for row in topology.children[parent]:
                rank = topology.ranks[row - 1]
                token, chance = tokens[place][rank], before * shares[place][rank]
                draft = drafts[request]
                draft.rows.append(row)
                draft.tokens.append(token)
                draft.chances.append(chance)
                if topology.children[row]:
                    found.append((request, row, chance, place, token))
        return found

    def _by_torch(
        self, depth: int, states: torch.Tensor, tokens: torch.Tensor, candidates: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        states = self._heads.step(depth, states, self._heads.embed(self._target.embedding[tokens]))
        logits = self._heads.product(self._heads.output(depth, states), self._target.matrix(depth))
        best = logits.topk(candidates)
        return states, best.indices, (best.values - logits.logsumexp(-1, keepdim=True)).exp()


def _in_order(draft: Draft) -> Draft:
    order = sorted(range(len(draft.rows)), key=draft.rows.__getitem__)
    rows, tokens, chances = draft.rows, draft.tokens, draft.chances
    return Draft([rows[at] for at in order], [tokens[at] for at in order], [chances[at] for at in order])


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
