"""Trees drafted by trained heads (`engine.heads`) from the target's last hidden state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.heads.architectures import NORM_EPSILON, SequentialHeads
from engine.heads.checkpoint import load
from engine.heads.drafting import Deeper, Draft, Drafting, Level
from engine.heads.loss import Target
from engine.heads.shipped import fits
from engine.tree.choice import heads_file
from engine.tree.source import Candidate
from engine.tree.topology import Topology


class HeadsSource:
    """Implements `engine.tree.source.Source`.

    Args:
        name: as `engine.heads` names heads.
        topology: the tree.
        target: vLLM's model.
        folder: the target's checkpoint.
        float16: whether weights are kept in float16 (`engine.options`, `cpu_weights`).

    Raises:
        HeadsMissing: no such heads.
        ValueError: they are of another model, or not as deep as the tree.
    """

    def __init__(self, name: str, topology: Topology, target: Any, folder: Path, float16: bool) -> None:
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

            heads.product = PackedProduct(float16)
            level = _compiled(heads, shared) if float16 else None
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


def _compiled(heads: Any, target: Target) -> Level | None:
    """A level in the compiled loops; None where they are not for these heads."""
    from engine.float16_weights import fits_float16
    from engine.native.draft_heads import DraftLevels, suits

    if not isinstance(heads, SequentialHeads) or target.own or not suits(heads.tokens, heads.downs, target.vocabulary):
        return None
    states, downs = list(heads.states), list(heads.downs)
    if not all(map(fits_float16, (heads.tokens, *states, *downs, target.vocabulary))):
        return None
    levels = DraftLevels(
        heads.tokens, states, downs, target.vocabulary, heads.carry, heads.scale, heads.shift, NORM_EPSILON
    )
    return lambda depth, states, tokens, candidates: levels(depth, states, target.embedding[tokens], candidates)
