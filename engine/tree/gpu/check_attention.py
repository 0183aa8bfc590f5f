"""How long one layer's attention takes, against the bytes that it must move."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from engine.tree.gpu.check_cases import PAGE, Attention, Cache, Request
from engine.tree.gpu.check_model import Sizes
from engine.tree.gpu.check_parts import ALLOWED, tree_of
from engine.tree.gpu.check_timing import per_call_us
from engine.tree.gpu.row_tiles import Launch

# More than a GPU's cache holds: a step's weights would have emptied it before each layer's attention.
_COLD_BYTES = 192 * 2**20
_MOST_COPIES = 64

# What `Launch` could be instead.
_LAUNCHES = (
    Launch(16, 64, 4, 2),
    Launch(32, 64, 4, 2),
    Launch(64, 64, 4, 2),
    Launch(64, 64, 4, 3),
    Launch(64, 32, 4, 3),
    Launch(64, 128, 4, 2),
    Launch(64, 128, 8, 2),
    Launch(128, 64, 8, 2),
    Launch(128, 64, 4, 2),
)


def attention_times(
    sizes: Sizes,
    batches: Sequence[int],
    contexts: Sequence[int],
    trees: Sequence[int],
    device: str,
    processors: int,
    bytes_per_s: Callable[[], float],
) -> list[dict[str, Any]]:
    """One layer's attention for plain rows (0 nodes) and trees of these sizes, with cold caches.

    Returns:
        Per case the microseconds, those that moving the least bytes would take, and the largest error; for plain rows
        also torch's own attention over dense keys and values.
    """
    rows = []
    for batch in batches:
        for context in contexts:
            cache, copies, pages = _cold(sizes, batch, Request.verifying(context, tree_of(max(trees))), device)
            for nodes in (0, *trees):
                request = Request.verifying(context, tree_of(nodes) if nodes else None)
                cases = [Attention(cache, [request] * batch, processors, copy * pages) for copy in range(copies)]
                time_us = per_call_us([case.run for case in cases], device)
                largest, _ = cases[0].errors()
                floor_us = cases[0].least_bytes / bytes_per_s() * 1e6
                row = {"model": sizes.name, "batch": batch, "context": context, "nodes": nodes}
                row |= {
                    "us": time_us,
                    "floor_us": floor_us,
                    "parts": cases[0].step.parts,
                    "error": largest,
                    "ok": largest <= ALLOWED[cache.keys.dtype],
                }
                if not nodes:
                    row["torch_us"] = _dense_us(cache, batch, context + 1, copies, device)
                rows.append(row)
    return rows


def _cold(sizes: Sizes, batch: int, most: Request, device: str) -> tuple[Cache, int, int]:
    """A cache with room for so many copies of a step that together they empty the device's own; pages of a copy."""
    pages = batch * most.pages
    page_bytes = 2 * PAGE * sizes.attention.kv_heads * sizes.attention.head_size * 2
    on_gpu = device == "cuda"
    copies = min(_MOST_COPIES, max(2, -(-_COLD_BYTES // (pages * page_bytes)))) if on_gpu else 1
    dtype = torch.bfloat16 if on_gpu else torch.float32
    return Cache(copies * pages, sizes.attention, dtype, device), copies, pages


def tuning(
    sizes: Sizes, batches: Sequence[int], contexts: Sequence[int], nodes: int, device: str, processors: int
) -> list[dict[str, Any]]:
    """Other ways to launch, and more or fewer parts, for trees of one size."""
    rows = []
    for batch in batches:
        for context in contexts:
            request = Request.verifying(context, tree_of(nodes) if nodes else None)
            cache, copies, pages = _cold(sizes, batch, request, device)
            for launch in (None, *_LAUNCHES):
                for share in (0.5, 1.0, 2.0):
                    cases = [
                        Attention(cache, [request] * batch, int(processors * share), copy * pages, launch)
                        for copy in range(copies)
                    ]
                    row = {"model": sizes.name, "batch": batch, "context": context, "nodes": nodes}
                    row |= {"launch": str(launch or cases[0].step.launch), "chosen": launch is None}
                    row |= {"parts": cases[0].step.parts, "us": per_call_us([case.run for case in cases], device)}
                    rows.append(row)
    return rows


def _dense_us(cache: Cache, batch: int, length: int, copies: int, device: str) -> float:
    """Torch's attention of one row per request, with dense keys and values."""
    shape, like = cache.shape, cache.keys
    query = torch.empty(batch, shape.query_heads, 1, shape.head_size, dtype=like.dtype, device=device).normal_()
    keys, values = torch.empty(
        2, copies, batch, shape.kv_heads, length, shape.head_size, dtype=like.dtype, device=device
    ).normal_()
    call = functional.scaled_dot_product_attention
    calls = [partial(call, query, key, value, enable_gqa=True) for key, value in zip(keys, values, strict=True)]
    return per_call_us(calls, device)
