"""Attention over vLLM's paged cache for steps that hold trees, as a Triton kernel.

One launch serves trees, whole or cut, next to prompts and plain rows. Scores and softmax are float32 whatever the
inputs are. Long contexts are cut into parts (flash-decoding); a second kernel merges what the parts found.

vLLM 0.32 has a Triton kernel that takes a bias between the rows of a request, and this one does without it: that bias
is one for all requests of a call, prompts included, so that trees would have to be of one shape and be called for apart
from all else; its rows are not bounded, so a tree's padding must be allocated behind it; with more than one row per
request it does not cut contexts, which leaves most of a GPU idle while a single caller speaks; it can neither be
imported without vLLM nor be run by Triton's interpreter. Here a row has a word of bits instead
(`engine.tree.gpu.row_tiles`).

Sources: online softmax and its parts, Dao et al., FlashAttention (arXiv 2205.14135) and Flash-Decoding
(pytorch.org/blog/flash-decoding); pages, Kwon et al. (arXiv 2309.06180); trees, Cai et al., Medusa (arXiv 2401.10774).
"""

import torch
import triton
import triton.language as tl

from engine.tree.gpu.row_tiles import RowTiles

_LOG2_E = 1.4426950408889634


@triton.jit  # type: ignore[untyped-decorator]
def _fold(peak, total, mixed, scores, value):  # type: ignore[no-untyped-def]
    """One more tile of keys into the running softmax; scores are logarithms to base 2."""
    new = tl.maximum(peak, tl.max(scores, 1))
    # Nothing seen yet: any finite base leaves weights of zero, where minus infinity would give no numbers.
    base = tl.where(new == float("-inf"), 0.0, new)
    weights = tl.exp2(scores - base[:, None])
    decay = tl.exp2(peak - base)
    total = total * decay + tl.sum(weights, 1)
    mixed = mixed * decay[:, None]
    mixed += tl.dot(weights.to(value.dtype), value, input_precision="ieee")
    return new, total, mixed


@triton.jit(do_not_specialize=["parts"])  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    query,
    keys,
    values,
    output,
    peaks,
    totals,
    tiles,
    starts,
    lengths,
    tables,
    lineages,
    scale,
    parts,
    query_row,
    query_head,
    output_row,
    output_head,
    key_page,
    key_token,
    key_head,
    value_page,
    value_token,
    value_head,
    table_row,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    LANES: tl.constexpr,
    KEYS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """One tile of rows, one key-value head, one part of the context."""
    request = tl.load(tiles + 3 * tl.program_id(0))
    first = tl.load(tiles + 3 * tl.program_id(0) + 1)
    is_tree = tl.load(tiles + 3 * tl.program_id(0) + 2)
    head = tl.program_id(1)
    part = tl.program_id(2)
    begin = tl.load(starts + request)
    rows = tl.load(starts + request + 1) - begin
    context = tl.load(lengths + request) - rows

    lane = tl.arange(0, LANES)
    dims = tl.arange(0, SIZE)
    offsets = tl.arange(0, KEYS)
    row = first + lane // GROUP
    own = head * GROUP + lane % GROUP
    live = (row < rows) & (lane < LANES // GROUP * GROUP)
    place = (begin + row).to(tl.int64)
    asked = tl.load(
        query + place[:, None] * query_row + own[:, None] * query_head + dims[None, :], mask=live[:, None], other=0.0
    )
    lineage = tl.load(lineages + place, mask=live, other=0)

    # No row sees behind itself, and ancestors stand before their descendants.
    end = context + tl.minimum(rows, first + LANES // GROUP)
    share = tl.cdiv(tl.cdiv(end, KEYS), parts) * KEYS
    low = part * share
    high = tl.minimum(low + share, end)
    open_until = tl.minimum(high, context) // KEYS * KEYS

    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    mixed = tl.zeros([LANES, SIZE], tl.float32)
    pages = tables + request * table_row.to(tl.int64)
    for at in range(low, open_until, KEYS):
        seen = at + offsets
        page = tl.load(pages + seen // PAGE).to(tl.int64)
        key = tl.load(
            keys + (page * key_page + seen % PAGE * key_token + head * key_head)[:, None] + dims[None, :],
        )
        value = tl.load(
            values + (page * value_page + seen % PAGE * value_token + head * value_head)[:, None] + dims[None, :],
        )
        scores = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale
        peak, total, mixed = _fold(peak, total, mixed, scores, value)
    for at in range(tl.maximum(low, open_until), high, KEYS):
        seen = at + offsets
        inside = seen < high
        page = tl.load(pages + seen // PAGE, mask=inside, other=0).to(tl.int64)
        key = tl.load(
            keys + (page * key_page + seen % PAGE * key_token + head * key_head)[:, None] + dims[None, :],
            mask=inside[:, None],
            other=0.0,
        )
        value = tl.load(
            values + (page * value_page + seen % PAGE * value_token + head * value_head)[:, None] + dims[None, :],
            mask=inside[:, None],
            other=0.0,
        )
        scores = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale
        behind = seen - context
        node = tl.minimum(tl.maximum(behind - 1, 0), 63).to(tl.int64)
        on_path = ((lineage[:, None] >> node[None, :]) & 1) == 1
        in_tree = (behind <= 0)[None, :] | on_path
        before = behind[None, :] <= row[:, None]
        visible = ((is_tree != 0) & in_tree) | ((is_tree == 0) & before)
        scores = tl.where(visible & inside[None, :], scores, float("-inf"))
        peak, total, mixed = _fold(peak, total, mixed, scores, value)

    if WHOLE:
        tl.store(
            output + place[:, None] * output_row + own[:, None] * output_head + dims[None, :],
            mixed / total[:, None],
            mask=live[:, None],
        )
    else:
        found = (place * HEADS + own) * parts + part
        tl.store(peaks + found, peak, mask=live)
        tl.store(totals + found, total, mask=live)
        tl.store(output + found[:, None] * SIZE + dims[None, :], mixed, mask=live[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _merge(  # type: ignore[no-untyped-def]
    mixed,
    peaks,
    totals,
    output,
    output_row,
    output_head,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PARTS: tl.constexpr,
):
    """The parts of one row and head."""
    place = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    found = (place * HEADS + head) * PARTS + tl.arange(0, PARTS)
    dims = tl.arange(0, SIZE)
    peak = tl.load(peaks + found)
    # Every row sees at least itself, so the highest peak is finite.
    weight = tl.exp2(peak - tl.max(peak, 0))
    total = tl.sum(tl.load(totals + found) * weight, 0)
    part = tl.load(mixed + found[:, None] * SIZE + dims[None, :])
    merged = tl.sum(part * weight[:, None], 0) / total
    tl.store(output + place * output_row + head * output_head + dims, merged)


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    output: torch.Tensor,
    step: RowTiles,
    scale: float,
) -> None:
    """Attention of all rows of a step, whose keys and values are in the cache already.

    Args:
        query: [rows, query heads, head size], float32, bfloat16 or float16; the last dimension dense, as in all others.
        keys: [pages, tokens of a page, key-value heads, head size] of the same type, in any order in memory.
        values: as `keys`.
        output: as `query`; written.
        step: which rows belong together and what they may see.
        scale: of the scores.

    Raises:
        ValueError: a head size that is no power of two, or heads that cannot be shared evenly.
    """
    rows, heads, size = query.shape
    kv_heads = keys.shape[2]
    if size & (size - 1) or size < 16 or heads % kv_heads:
        raise ValueError(f"tree attention: {heads} heads of {size} over {kv_heads}")
    launch, parts = step.launch, step.parts
    whole = parts == 1
    found = output if whole else query.new_empty((rows, heads, parts, size), dtype=torch.float32)
    marks = output if whole else query.new_empty((2, rows, heads, parts), dtype=torch.float32)
    _attend[(len(step.tiles), kv_heads, parts)](
        query,
        keys,
        values,
        found,
        marks[0],
        marks[-1],
        step.tiles,
        step.starts,
        step.lengths,
        step.tables,
        step.lineages,
        scale * _LOG2_E,
        parts,
        query.stride(0),
        query.stride(1),
        output.stride(0),
        output.stride(1),
        *keys.stride()[:3],
        *values.stride()[:3],
        step.tables.stride(0),
        HEADS=heads,
        GROUP=heads // kv_heads,
        SIZE=size,
        PAGE=keys.shape[1],
        LANES=launch.lanes,
        KEYS=launch.keys,
        WHOLE=whole,
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    if not whole:
        _merge[(rows, heads)](
            found, marks[0], marks[1], output, output.stride(0), output.stride(1), HEADS=heads, SIZE=size, PARTS=parts
        )
