"""Trees drafted by trained heads (`engine.heads`) from the target's last hidden state."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine.heads.checkpoint import load
from engine.heads.drafting import Drafting
from engine.heads.loss import Target
from engine.heads.shipped import fits
from engine.tree.choice import heads_file
from engine.tree.drafter import Candidate
from engine.tree.topology import Topology


class HeadsSource:
    """Implements `engine.tree.drafter.Source`.

    Args:
        name: as `engine.heads` names heads.
        topology: the deepest tree.
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
        if self._device.type == "cpu":
            from engine.tree.packed_product import PackedProduct

            heads.product = PackedProduct(float16)
        self._draftings = partial(Drafting, heads, shared)
        self._made = {topology: self._draftings(topology)}

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, tree: Topology) -> list[list[int]]:
        """See `Source`."""
        drafting = self._made.get(tree)
        if drafting is None:
            drafting = self._made[tree] = self._draftings(tree)
        bonus = torch.tensor([candidate.bonus for candidate in candidates], device=self._device)
        drafts: list[list[int]] = drafting.draft(hidden.to(self._dtype), bonus).tolist()
        return drafts
