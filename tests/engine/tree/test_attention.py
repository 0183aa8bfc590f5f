"""Tree attention against a dense float64 reference: trees whole and cut, next to prompts and plain rows."""

from typing import Any

import pytest
import torch

from engine.tree.attention import LAYOUT, StepTrees, TreeAttentionImpl, TreeMetadataBuilder, View, metadata_of
from engine.tree.mirror import Mirror, Mirrors
from engine.tree.pages import Pages, probe
from engine.tree.step import Step, describe
from engine.tree.topology import Topology

HEADS, KV_HEADS, SIZE, BLOCK = 6, 2, 32, 32
SCALE = SIZE**-0.5
TREE = Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0)])
# Context and tokens of the step; drafts. The second is a prompt's last chunk, as long as a tree.
REQUESTS = [(45, 9, 8), (32, 9, 0), (7, 4, 3), (64, 1, 0), (0, 5, 0), (96, 2, 1)]
BLOCKS = [[9, 3], [4, 12], [2], [8, 1, 15], [5], [6, 7, 10, 11]]


def test_pages_are_laid_out_as_they_are_read() -> None:
    assert probe(torch.empty(1, KV_HEADS, BLOCK, 2 * SIZE))
    assert probe(torch.empty(1, 1, 64, 2 * 64, dtype=torch.bfloat16))


def random_like(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def prepared() -> tuple[Pages, torch.Tensor, Step, Any, Any, torch.Tensor, torch.Tensor]:
    """A cache with the contexts, and one step's keys and values written into it as vLLM does."""
    torch.manual_seed(1)
    cache = random_like(16, KV_HEADS, BLOCK, 2 * SIZE)
    pages = Pages([torch.zeros_like(cache), cache])
    known = pages.dense(128)
    known.normal_()
    starts = [0]
    for _, tokens, _ in REQUESTS:
        starts.append(starts[-1] + tokens)
    keys, values = random_like(starts[-1], KV_HEADS, SIZE), random_like(starts[-1], KV_HEADS, SIZE)
    slots = []
    for row, (context, tokens, _) in enumerate(REQUESTS):
        if context:
            pages.write(known, 0, context, pages.slots(BLOCKS[row], 0, context))
        slots.append(pages.slots(BLOCKS[row], context, context + tokens))
    slot_mapping = torch.cat(slots)
    impl = attention()
    impl.do_kv_cache_update(LAYER, keys, values, cache, slot_mapping)
    drafted = [drafts for _, _, drafts in REQUESTS]
    step = describe([str(row) for row in range(6)], starts, [c for c, _, _ in REQUESTS], drafted, lambda name: TREE)
    return pages, known, step, common(starts, slot_mapping), impl, keys, values


class Layer:
    isa = LAYOUT
    _k_scale_float = 1.0
    _v_scale_float = 1.0


LAYER = Layer()


def attention() -> Any:
    impl = TreeAttentionImpl.__new__(TreeAttentionImpl)
    impl.layer_index, impl.scale, impl.num_heads = 1, SCALE, HEADS
    impl.attn_type, impl.kv_cache_dtype, impl.sinks, impl.alibi_slopes = "decoder", "auto", None, None
    impl.sliding_window, impl.logits_soft_cap = -1, 0
    return impl


def common(starts: list[int], slot_mapping: torch.Tensor) -> Any:
    from vllm.v1.attention.backend import CommonAttentionMetadata

    begins = torch.tensor(starts, dtype=torch.int32)
    lengths = torch.tensor([context + tokens for context, tokens, _ in REQUESTS], dtype=torch.int32)
    tables = torch.zeros(len(REQUESTS), 4, dtype=torch.int32)
    for row, blocks in enumerate(BLOCKS):
        tables[row, : len(blocks)] = torch.tensor(blocks)
    return CommonAttentionMetadata(
        query_start_loc=begins,
        query_start_loc_cpu=begins,
        seq_lens=lengths,
        num_reqs=len(REQUESTS),
        num_actual_tokens=starts[-1],
        max_query_len=9,
        max_seq_len=int(lengths.max()),
        block_table_tensor=tables,
        slot_mapping=slot_mapping,
    )


def builder() -> Any:
    made = TreeMetadataBuilder.__new__(TreeMetadataBuilder)
    made.num_heads, made.num_kv_heads, made.head_dim, made.block_size = HEADS, KV_HEADS, SIZE, BLOCK
    made.dtype, made.window_size, made.isa, made.kv_cache_dtype = torch.float32, -1, LAYOUT, "auto"
    made.is_cross_attention = made.is_encoder_only_attention = False
    return made


def reference(
    step: Step, known: torch.Tensor, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Every row over exactly the tokens that it may see, in float64."""
    expected = torch.empty(query.shape, dtype=torch.float64)
    for row, (context, tokens, _) in enumerate(REQUESTS):
        begin, tree = step.starts[row], step.trees.get(row)
        for place in range(tokens):
            seen = range(place + 1) if tree is None else tree.topology.lineages[place]
            own = torch.tensor([begin + index for index in seen])
            all_keys = torch.cat((known[1, 0, :, :context].transpose(0, 1), keys[own])).double()
            all_values = torch.cat((known[1, 1, :, :context].transpose(0, 1), values[own])).double()
            for head in range(HEADS):
                scores = all_keys[:, head // (HEADS // KV_HEADS)] @ query[begin + place, head].double() * SCALE
                expected[begin + place, head] = scores.softmax(0) @ all_values[:, head // (HEADS // KV_HEADS)]
    return expected


def test_every_row_sees_its_context_and_its_ancestors_alone() -> None:
    pages, known, step, batch, impl, keys, values = prepared()
    query = random_like(step.starts[-1], HEADS, SIZE)
    mirrors, views = Mirrors(pages), []
    for tree in step.trees.values():
        mirror = mirrors.of(tree.request_id)
        mirror.fill(tree.context, BLOCKS[tree.row], tree.rows)
        views.append(View(tree, mirror, HEADS))
    metadata = builder().build(0, batch)
    metadata.trees = StepTrees(views, metadata_of(builder(), batch, step.others()))
    output = torch.empty_like(query)
    cache = pages._caches[1]
    impl.forward(LAYER, query, keys, values, cache, metadata, output)
    torch.testing.assert_close(output.double(), reference(step, known, query, keys, values), atol=2e-6, rtol=0)


def test_the_path_taken_lies_in_the_cache_like_a_chain() -> None:
    pages, known, step, _, impl, keys, values = prepared()
    tree = step.trees[0]
    mirror = Mirror(pages)
    mirror.fill(tree.context, BLOCKS[0], tree.rows)
    layers = View(tree, mirror, HEADS)
    layers.attend(1, SCALE, random_like(9, HEADS, SIZE), keys[:9], values[:9], torch.empty(9, HEADS, SIZE))
    path = [4, 7, 8]
    moved = mirror.commit(path)
    assert moved == (46, 49)
    pages.write(mirror.store, *moved, pages.slots(BLOCKS[0], *moved))
    stored = pages.dense(64)
    pages.read(BLOCKS[0], 0, 49, stored)
    rows = torch.tensor([0, *path])
    assert torch.equal(stored[1, 0, :, :45], known[1, 0, :, :45])
    assert torch.equal(stored[1, 0, :, 45:49], keys[rows].transpose(0, 1))
    assert torch.equal(stored[1, 1, :, 45:49], values[rows].transpose(0, 1))
    assert torch.equal(mirror.store[1, :, :, :49], stored[1, :, :, :49])


@pytest.mark.parametrize(("path", "moved"), [([], None), ([1, 2], None), ([1, 2, 3], None), ([1, 6], (12, 13))])
def test_what_is_in_place_is_not_moved(path: list[int], moved: tuple[int, int] | None) -> None:
    pages = prepared()[0]
    mirror = Mirror(pages)
    mirror.fill(10, BLOCKS[0], 9)
    assert mirror.commit(path) == moved
    assert mirror.length == 11 + len(path)


def test_a_copy_grows_and_reads_only_what_it_lacks() -> None:
    pages, known, *_ = prepared()
    mirror = Mirror(pages)
    mirror.fill(20, BLOCKS[5], 9)
    mirror.store[:, :, :, :20] = 5.0
    mirror.fill(60, BLOCKS[5], 300)
    assert mirror.store.shape[3] >= 360
    assert (mirror.store[:, :, :, :20] == 5.0).all()
    assert torch.equal(mirror.store[1, :, :, 20:60], known[1, :, :, 20:60])


def test_copies_are_dropped_by_request() -> None:
    mirrors = Mirrors(prepared()[0])
    one = mirrors.of("a")
    assert mirrors.of("a") is one
    mirrors.of("b")
    mirrors.drop(["a", "unknown"])
    assert len(mirrors) == 1
    assert mirrors.of("a") is not one
    mirrors.of("c")
    mirrors.keep({"c": 3, "d": 1})
    assert len(mirrors) == 1
