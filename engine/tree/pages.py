"""vLLM's paged key-value cache on the CPU, read and written in the layout "vec".

A page of one layer is [key-value heads, block tokens, 2 · head size]: for each head first the keys, transposed to
[head size, block tokens], then the values as [block tokens, head size]. `probe` checks that against vLLM's own writer.
Writing goes through vLLM's operator.
"""

from collections.abc import Sequence
from typing import Any

import torch
from vllm import _custom_ops as ops

LAYOUT = "vec"


class Pages:
    """The cache of all layers.

    Args:
        caches: one per layer, each [blocks, key-value heads, block tokens, 2 · head size].
    """

    def __init__(self, caches: Sequence[torch.Tensor]) -> None:
        self._caches = list(caches)
        _, self.kv_heads, self.block_tokens, double = caches[0].shape
        self.head_size = double // 2
        self._halves = [_halves(cache) for cache in caches]

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self._caches)

    @property
    def like(self) -> torch.Tensor:
        """A layer's cache, for its shape and type."""
        return self._caches[0]

    def dense(self, capacity: int) -> torch.Tensor:
        """An empty dense store: [layers, 2, key-value heads, capacity, head size]."""
        return self._caches[0].new_empty(self.layers, 2, self.kv_heads, capacity, self.head_size)

    def read(self, blocks: Sequence[int], begin: int, end: int, store: torch.Tensor) -> None:
        """Copy the tokens `begin` to `end` of a request into a dense store, all layers.

        Args:
            blocks: the request's blocks.
            begin: first position.
            end: one past the last position.
            store: as `dense` makes it.
        """
        first = begin // self.block_tokens
        chosen = torch.tensor([int(block) for block in blocks[first : -(-end // self.block_tokens)]])
        heads, size = self.kv_heads, self.head_size
        inside = slice(begin - first * self.block_tokens, end - first * self.block_tokens)
        for layer, (keys, values) in enumerate(self._halves):
            pages = keys[chosen].view(-1, heads, size, self.block_tokens)
            store[layer, 0, :, begin:end] = pages.permute(1, 0, 3, 2).reshape(heads, -1, size)[:, inside]
            pages = values[chosen]
            store[layer, 1, :, begin:end] = pages.transpose(0, 1).reshape(heads, -1, size)[:, inside]

    def write(self, store: torch.Tensor, begin: int, end: int, slots: torch.Tensor) -> None:
        """Copy the positions `begin` to `end` of a dense store into slots of the cache, all layers.

        Args:
            store: as `dense` makes it.
            begin: first position.
            end: one past the last position.
            slots: [end - begin] places in the cache: block · block tokens + offset.
        """
        rows = store[:, :, :, begin:end].transpose(2, 3).contiguous()
        for (keys, values), (new_keys, new_values) in zip(self._halves, rows, strict=True):
            ops.cpu_attn_reshape_and_cache(new_keys, new_values, keys, values, slots, LAYOUT)

    def slots(self, blocks: Sequence[int], begin: int, end: int) -> torch.Tensor:
        """[end - begin] places of a request's positions in the cache."""
        size = self.block_tokens
        places = [int(blocks[position // size]) * size + position % size for position in range(begin, end)]
        return torch.tensor(places, dtype=torch.int64)


def _halves(cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    blocks, heads, tokens, _ = cache.shape
    keys, values = cache.view(blocks, heads, 2 * tokens, -1).chunk(2, dim=2)
    return keys, values


def probe(like: Any) -> bool:
    """Whether vLLM's writer lays pages out as this module reads them.

    Args:
        like: a layer's cache; only its shape and type are used.
    """
    _, heads, tokens, double = like.shape
    cache = torch.zeros(4, heads, tokens, double, dtype=like.dtype)
    pages = Pages([cache])
    length = tokens + tokens // 2
    known = torch.arange(2 * length * heads * double // 2, dtype=torch.float32).remainder(251).to(like.dtype)
    keys, values = known.view(2, length, heads, double // 2)
    blocks = [3, 1]
    ops.cpu_attn_reshape_and_cache(keys, values, *_halves(cache), pages.slots(blocks, 0, length), LAYOUT)
    store = pages.dense(length)
    pages.read(blocks, 0, length, store)
    return bool(torch.equal(store[0], torch.stack((keys, values)).transpose(1, 2)))
