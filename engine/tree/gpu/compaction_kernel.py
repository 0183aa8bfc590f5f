"""Keys and values of the paths taken, moved within vLLM's paged cache on a GPU to where a chain's would be.

One launch for all layers and requests. A program moves one head of one request's path in order, from the root on. A node
never stands before its place in the chain, so what is still to be read has not been written over.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _move(  # type: ignore[no-untyped-def]
    like,
    addresses,
    paths,
    contexts,
    tables,
    page_stride,
    head_stride,
    token_stride,
    table_row,
    DEPTH: tl.constexpr,
    PAGE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """One request, layer and key-value head; a path is rows of the tree, 0 behind its end."""
    request = tl.program_id(0)
    cache = tl.load(addresses + tl.program_id(1)).to(like.dtype) + tl.program_id(2) * head_stride
    root = tl.load(contexts + request)
    pages = tables + request * table_row.to(tl.int64)
    lane = tl.arange(0, WIDTH)
    for depth in range(DEPTH):
        row = tl.load(paths + request * DEPTH + depth)
        if row > depth + 1:
            source = root + row
            target = root + depth + 1
            page = tl.load(pages + source // PAGE).to(tl.int64)
            moved = tl.load(cache + page * page_stride + source % PAGE * token_stride + lane)
            page = tl.load(pages + target // PAGE).to(tl.int64)
            tl.store(cache + page * page_stride + target % PAGE * token_stride + lane, moved)


class Compaction:
    """Of a cache that stays where it is.

    Args:
        caches: one per layer, each [pages, key-value heads, tokens of a page, 2 · head size], keys before values; all
            with the same strides, the last dimension dense.

    Raises:
        ValueError: caches that differ in shape, or a head size that is no power of two.
    """

    def __init__(self, caches: Sequence[torch.Tensor]) -> None:
        self._first = first = caches[0]
        self._layers = len(caches)
        if any(cache.stride() != first.stride() or cache.dtype != first.dtype for cache in caches):
            raise ValueError("layers of the cache are not laid out alike")
        if first.shape[3] & (first.shape[3] - 1) or first.stride(3) != 1:
            raise ValueError(f"compaction: a token's keys and values are {first.shape[3]} numbers, no power of two")
        self._caches = list(caches)
        self._addresses = torch.tensor([cache.data_ptr() for cache in caches], dtype=torch.int64, device=first.device)

    def move(self, paths: torch.Tensor, contexts: torch.Tensor, tables: torch.Tensor) -> None:
        """Move what is not in place; may be recorded into a CUDA graph.

        Args:
            paths: [requests, deepest] int32 or int64, the rows accepted by depth, 0 behind a path's end.
            contexts: [requests] tokens before the root, which stays.
            tables: [requests, pages] int32.
        """
        first = self._first
        _move[(len(paths), self._layers, first.shape[1])](
            first,
            self._addresses,
            paths,
            contexts,
            tables,
            first.stride(0),
            first.stride(1),
            first.stride(2),
            tables.stride(0),
            DEPTH=paths.shape[1],
            PAGE=first.shape[2],
            WIDTH=first.shape[3],
            num_warps=1 if first.shape[3] <= 128 else 2,
        )
