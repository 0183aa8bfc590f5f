"""Tree attention in vLLM on a GPU: its Triton backend, with our kernel for steps that hold trees.

A step's trees travel on vLLM's attention metadata, as attribute `trees`; then all rows of the step, prompts and plain rows
too, go through the one launch. Metadata without it is plain and goes vLLM's way.
"""

from typing import Any

import torch
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl

from engine.tree.gpu.attention_kernel import attend
from engine.tree.gpu.row_tiles import RowTiles


class TreeTritonImpl(TritonAttentionImpl):  # type: ignore[misc]
    """vLLM's, with the way for trees."""

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
        """As vLLM's; [tokens, heads, head size] in and out, keys and values are in the cache already."""
        trees: RowTiles | None = getattr(attn_metadata, "trees", None)
        if trees is None:
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output, **scales)
        if any(scale is not None for scale in scales.values()):
            raise ValueError("tree attention does not quantise its output")
        count = attn_metadata.num_actual_tokens
        keys, values = kv_cache.transpose(1, 2).split(self.head_size, -1)
        attend(query[:count], keys, values, output[:count], trees, self.scale)
        return output


class TreeTritonBackend(TritonAttentionBackend):  # type: ignore[misc]
    """Takes the place of vLLM's Triton backend in its registry, name included."""

    @staticmethod
    def get_impl_cls() -> type[TreeTritonImpl]:
        """The implementation with the way for trees."""
        return TreeTritonImpl


def layout_is_known(layer: Any) -> bool:
    """Whether what vLLM's implementation writes is found where the kernels look for it.

    Args:
        layer: one of vLLM's attention layers, with its cache; the cache itself is not written to.
    """
    like, size = layer.kv_cache, layer.impl.head_size
    cache = torch.zeros_like(like[:4])
    _, heads, tokens, _ = cache.shape
    slots = torch.tensor([3 * tokens + 1, tokens - 1, 2 * tokens], device=cache.device)
    known = torch.arange(3 * heads * 2 * size, device=cache.device).remainder(251).to(cache.dtype).view(3, heads, -1)
    keys, values = (half.contiguous() for half in known.split(size, -1))
    layer.impl.do_kv_cache_update(layer, keys, values, cache, slots)
    return bool(torch.equal(cache[slots // tokens, :, slots % tokens], known))
