"""Trees drafted by trained heads (`engine.heads`) from the target's last hidden state."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engine.heads.architectures import NORM_EPSILON, SequentialHeads
from engine.heads.checkpoint import load
from engine.heads.drafting import Deeper, Draft, Drafting, Level
from engine.heads.loss import Target
from engine.heads.shipped import fits
from engine.tree.choice import heads_file
from engine.tree.source import Candidate
from engine.tree.topology import Topology

if TYPE_CHECKING:
    from engine.native.library import Kept


class HeadsSource:
    """Implements `engine.tree.source.Source`.

    Args:
        name: as `engine.heads` names heads.
        topology: the tree.
        target: vLLM's model.
        folder: the target's checkpoint.
        kept: how weights are kept (`engine.options`, `cpu_weights`); None: as they are computed with.

    Raises:
        HeadsMissing: no such heads.
        ValueError: they are of another model, or not as deep as the tree.
    """

    def __init__(self, name: str, topology: Topology, target: Any, folder: Path, kept: "Kept | None") -> None:
        checkpoint = load(heads_file(name))
        if not fits(checkpoint.about, folder):
            raise ValueError(f"heads: {name} were trained on another model than {folder.name}")
        vocabulary = target.lm_head.weight.detach()
        embedding = target.model.embed_tokens.weight.detach()
        self._dtype, self._device = vocabulary.dtype, vocabulary.device
        own = tuple(matrix.to(self._device, self._dtype) for matrix in checkpoint.own)
        shared = Target.of(vocabulary, embedding, checkpoint.token_map.to(self._device), own)
        heads = checkpoint.heads.to(device=self._device, dtype=self._dtype)
        level = None
        if self._device.type == "cpu":
            from engine.tree.packed_product import PackedProduct

            heads.product = PackedProduct(kept)
            level = _compiled(heads, shared, kept) if kept else None
        self._drafting = Drafting(heads, shared, topology, level)
        self._nodes = topology.nodes

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, deeper: Deeper | None) -> list[Draft]:
        """See `Source`."""
        bonus = torch.tensor([candidate.bonus for candidate in candidates], device=self._device)
        hidden = hidden.to(self._dtype)
        if deeper is not None:
            likely: list[Draft] = self._drafting.draft_likely(hidden, bonus, deeper)
            return likely
        rows = list(range(1, self._nodes + 1))
        return [Draft(rows, tokens, []) for tokens in self._drafting.draft(hidden, bonus).tolist()]


def _compiled(heads: Any, target: Target, kept: "Kept") -> Level | None:
    """A level in the compiled loops; None where they are not for these heads."""
    from engine.kept_weights import can_keep
    from engine.native.draft_heads import DraftLevels, suits

    if (
        not isinstance(heads, SequentialHeads)
        or target.own
        or not suits(heads.tokens, heads.downs, target.vocabulary, kept)
    ):
        return None
    states, downs = list(heads.states), list(heads.downs)
    if not all(map(can_keep, (heads.tokens, *states, *downs, target.vocabulary))):
        return None
    levels = DraftLevels(
        heads.tokens, states, downs, target.vocabulary, heads.carry, heads.scale, heads.shift, NORM_EPSILON, kept
    )
    return lambda depth, states, tokens, candidates: levels(depth, states, target.embedding[tokens], candidates)
