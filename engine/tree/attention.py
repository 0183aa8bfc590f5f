"""Tree attention on the CPU: vLLM's own backend, with another way for the rows of trees.

Rows of trees attend to a dense copy of their context (`engine.tree.mirror`) and to their ancestors in one masked
scaled-dot-product call per request and layer. All other rows go through vLLM's operator, unchanged; where both are in
one step, the others are handed to it as a batch of their own.

A step's trees travel on vLLM's attention metadata, as attribute `trees`; metadata without it is plain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from vllm.v1.attention.backends import cpu_attn

from engine.tree.mirror import Mirror
from engine.tree.pages import LAYOUT
from engine.tree.step import Tree
from engine.tree.stopwatch import now_s
from engine.tree.topology import Topology


class TreeMetadataBuilder(cpu_attn.CPUAttentionMetadataBuilder):  # type: ignore[misc]
    """vLLM's, with the one page layout that `engine.tree.pages` reads."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], *args: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, *args)
        self.isa = LAYOUT
        self._set_isa_to_layers(layer_names)


class TreeAttentionImpl(cpu_attn.CPUAttentionBackendImpl):  # type: ignore[misc]
    """vLLM's, with the way for trees.

    Attributes:
        layer_index: the layer's place in the dense copies; set by the runner.
    """

    layer_index: int = 0

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        **scales: Any,
    ) -> torch.Tensor:
        """As vLLM's; [tokens, heads, head size] in and out.

        Raises:
            RuntimeError: the step's trees are not told of here (`engine.llama_loops`).
        """
        trees: StepTrees | None = getattr(attn_metadata, "trees", None)
        if hasattr(attn_metadata, "spans"):
            # Read as chains, trees would give another text.
            raise RuntimeError("trees were left to the compiled loops, which have not taken the step")
        if trees is None:
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output, **scales)
        begin_s = now_s()
        if trees.others is not None:
            rows, metadata = trees.others
            part = torch.empty_like(output[: len(rows)])
            super().forward(layer, query[rows], key[rows], value[rows], kv_cache, metadata, part, **scales)
            output[rows] = part
        for view in trees.views:
            view.attend(self.layer_index, self.scale, query, key, value, output)
        trees.seconds += now_s() - begin_s
        return output


class TreeAttentionBackend(cpu_attn.CPUAttentionBackend):  # type: ignore[misc]
    """Takes the place of vLLM's CPU backend in its registry."""

    @staticmethod
    def get_impl_cls() -> type[TreeAttentionImpl]:
        """The implementation with the way for trees."""
        return TreeAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[TreeMetadataBuilder]:
        """The builder with the one page layout."""
        return TreeMetadataBuilder


class View:
    """One request's tree over its dense copy, for all layers of a step.

    Args:
        tree: where its rows stand.
        mirror: filled up to the tree's context, with room for its rows.
        query_heads: of the model.
    """

    def __init__(self, tree: Tree, mirror: Mirror, query_heads: int) -> None:
        self._begin, self._end = tree.begin, tree.end
        store, context, rows = mirror.store, tree.context, tree.rows
        self._kv_heads = store.shape[2]
        self._group = query_heads // self._kv_heads
        self._new_keys = store[:, 0, :, context : context + rows].unbind(0)
        self._new_values = store[:, 1, :, context : context + rows].unbind(0)
        self._keys = store[:, 0, None, :, : context + rows].unbind(0)
        self._values = store[:, 1, None, :, : context + rows].unbind(0)
        self._mask = torch.nn.functional.pad(_bias(tree.topology, self._group, store.dtype), (context, 0))

    def attend(
        self,
        layer: int,
        scale: float,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        output: torch.Tensor,
    ) -> None:
        """Write the tree's keys and values behind its context and its attention into `output`.

        Args:
            layer: which of the dense copies.
            scale: of the scores.
            query: [tokens, query heads, head size] of the whole step.
            key: [tokens, key-value heads, head size].
            value: as `key`.
            output: as `query`.
        """
        begin, end = self._begin, self._end
        self._new_keys[layer].copy_(key[begin:end].transpose(0, 1))
        self._new_values[layer].copy_(value[begin:end].transpose(0, 1))
        rows, heads, size = end - begin, self._kv_heads, query.shape[-1]
        # The queries that share a key-value head become rows of one product: keys and values are read once for all.
        folded = query[begin:end].view(rows, heads, self._group, size).permute(1, 2, 0, 3).reshape(1, heads, -1, size)
        attended = torch.nn.functional.scaled_dot_product_attention(
            folded, self._keys[layer], self._values[layer], attn_mask=self._mask, scale=scale
        )
        unfolded = attended.view(heads, self._group, rows, size).permute(2, 0, 1, 3)
        output[begin:end].view(rows, heads, self._group, size).copy_(unfolded)


@dataclass(slots=True)
class StepTrees:
    """Attributes:
    views: one per tree.
    others: places of the rows that are no trees and vLLM's metadata for them as a batch; None where there are none.
    seconds: spent in attention so far.
    """

    views: list[View]
    others: tuple[torch.Tensor, Any] | None
    seconds: float = 0.0


@lru_cache(maxsize=512)
def _bias(topology: Topology, group: int, dtype: torch.dtype) -> torch.Tensor:
    """[group · rows, rows] to add to the scores among a tree's rows; all of them see the whole context."""
    bias = torch.zeros(topology.nodes + 1, topology.nodes + 1, dtype=dtype)
    bias.masked_fill_(~torch.from_numpy(topology.ancestors), float("-inf"))
    return bias.repeat(group, 1)


def metadata_of(builder: Any, common: Any, requests: Sequence[int]) -> tuple[torch.Tensor, Any]:
    """vLLM's attention metadata for some requests of a batch, as a batch of their own.

    Args:
        builder: vLLM's metadata builder.
        common: vLLM's common metadata of the whole batch.
        requests: rows of the batch.

    Returns:
        The places of their tokens in the step, and the metadata.
    """
    starts = common.query_start_loc_cpu.tolist()
    places = [place for request in requests for place in range(starts[request], starts[request + 1])]
    counts = [starts[request + 1] - starts[request] for request in requests]
    chosen = torch.tensor(list(requests))
    begins = torch.zeros(len(requests) + 1, dtype=common.query_start_loc.dtype)
    begins[1:] = torch.tensor(counts).cumsum(0)
    rows = torch.tensor(places)
    part = replace(
        common,
        query_start_loc=begins,
        query_start_loc_cpu=begins,
        seq_lens=common.seq_lens[chosen],
        num_reqs=len(requests),
        num_actual_tokens=len(places),
        max_query_len=max(counts),
        block_table_tensor=common.block_table_tensor[chosen],
        slot_mapping=common.slot_mapping[rows],
    )
    return rows, builder.build(0, part)
