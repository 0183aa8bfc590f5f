"""Attention of the compiled loops over vLLM's pages, against dense attention in float64; without an engine."""

import functools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm import _custom_ops as ops

from engine import llama_loops
from engine.llama_loops import LlamaLoops
from engine.native import paged_attention
from engine.native.library import Kept, library, width
from engine.native.llama_layer import LayerWeights, LlamaLayers, Sizes
from engine.native.paged_attention import MOST_ROWS, Caches, Span, causal
from engine.native.panels import Panels
from engine.tree.pages import LAYOUT, Pages

HEADS, GROUP, HEAD, HIDDEN = 2, 3, 32, 32
SIZES = Sizes(queries=HEADS * GROUP * HEAD, keys=HEADS * HEAD, head=HEAD, epsilon=1e-5)
LAYERS = 2


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def weights(seed: int, kept: Kept) -> LayerWeights:
    shapes = [(SIZES.queries + 2 * SIZES.keys, HIDDEN), (HIDDEN, SIZES.queries), (64, HIDDEN), (HIDDEN, 32)]
    qkv, output, gate_up, down = (Panels(random(seed + n, *shape) / 4, kept) for n, shape in enumerate(shapes))
    return LayerWeights(qkv, output, gate_up, down, torch.ones(HIDDEN), torch.ones(HIDDEN))


ANGLES = torch.cat((torch.ones(4096, HEAD // 2), torch.zeros(4096, HEAD // 2)), 1)


@functools.cache
def model_of(kept: Kept, loops: object) -> LlamaLayers:
    return LlamaLayers([weights(10 * layer, kept) for layer in range(LAYERS)], SIZES, torch.ones(HIDDEN), ANGLES)


@pytest.fixture
def model(kept: Kept) -> LlamaLayers:
    """For the loops at hand."""
    return model_of(kept, library(kept))


class Cache:
    """Pages full of numbers that nobody wrote, for requests of some lengths."""

    def __init__(self, kept: Kept, tokens: int, lengths: list[int]) -> None:
        self.tokens = tokens
        need = [-(-length // tokens) for length in lengths]
        order = torch.randperm(sum(need), generator=torch.Generator().manual_seed(3)).int() + 1
        self.table = torch.zeros(len(lengths), max(need), dtype=torch.int32)
        for row, blocks in enumerate(order.split(need)):
            self.table[row, : len(blocks)] = blocks
        shape = (sum(need) + 1, HEADS, tokens, 2 * HEAD)
        self.caches = [torch.full(shape, torch.nan) for _ in range(LAYERS)]
        self.loops = Caches(self.caches, HEADS * GROUP, HEAD**-0.5, kept)
        self.pages = Pages(self.caches)

    def slots(self, row: int, begin: int, end: int) -> torch.Tensor:
        return self.pages.slots(self.table[row].tolist(), begin, end)

    def fill(self, row: int, length: int) -> None:
        """Write the first tokens of a request as vLLM does."""
        for layer, cache in enumerate(self.caches):
            keys, values = random(1000 * row + layer, 2, length, HEADS, HEAD)
            halves = cache.view(len(cache), HEADS, 2 * self.tokens, -1).chunk(2, dim=2)
            ops.cpu_attn_reshape_and_cache(keys, values, *halves, self.slots(row, 0, length), LAYOUT)

    def dense(self, row: int, length: int) -> torch.Tensor:
        store = self.pages.dense(length)
        self.pages.read(self.table[row].tolist(), 0, length, store)
        return store.double()


def attended(qkv: torch.Tensor, layer: int, spans: list[Span], cache: Cache) -> torch.Tensor:
    """What the rows of a layer see, once their own keys and values are in the cache."""
    result = torch.empty(len(qkv), SIZES.queries)
    for span in spans:
        length = span.visible + len(span.seen) - 1
        keys, values = cache.dense(span.row, length)[layer]
        for place, bits in enumerate(span.seen):
            extra = [bool(bits >> n & 1) for n in range(length - span.visible)]
            seen = torch.tensor([True] * span.visible + extra)
            query = qkv[span.begin + place, : SIZES.queries].double().view(HEADS, GROUP, HEAD)
            scores = (query @ keys.transpose(1, 2) * HEAD**-0.5).masked_fill(~seen, -torch.inf)
            result[span.begin + place] = (scores.softmax(-1) @ values).flatten().float()
    return result


def written(cache: Cache, spans: list[Span]) -> torch.Tensor:
    """Where the rows of a step write their keys and values: behind the tokens that a span's rows all see."""
    return torch.cat([cache.slots(s.row, s.visible - 1, s.visible - 1 + len(s.seen)) for s in spans])


def paged(model: LlamaLayers, cache: Cache, spans: list[Span], residual: torch.Tensor) -> torch.Tensor:
    """[rows, hidden] by the loops alone."""
    step = cache.loops.step(spans, cache.table)
    positions = torch.zeros(len(residual), dtype=torch.int64)
    result, seconds = model.run_paged(residual.clone(), positions, written(cache, spans), cache.loops, step)
    assert seconds > 0
    return result


def check(model: LlamaLayers, cache: Cache, spans: list[Span]) -> None:
    """The loops alone say what they say with dense attention between them."""
    residual = random(5, sum(len(span.seen) for span in spans), HIDDEN)
    found = paged(model, cache, spans, residual)
    positions = torch.zeros(len(residual), dtype=torch.int64)
    dense = model.run(residual.clone(), positions, lambda layer, qkv: attended(qkv, layer, spans, cache))
    if model.kept == "float16":
        torch.testing.assert_close(found, dense, atol=1e-4, rtol=1e-4)
    else:
        # What differs by its last bit may be rounded to the next of 254 steps, and the layers behind make more of it.
        assert (found - dense).square().mean(-1).sqrt().max() < 0.2


def random_tree(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """What each row of a tree sees: its parent's path and itself."""
    seen = [0]
    for node in range(count - 1):
        seen.append(seen[draw(st.integers(0, node))] | 1 << node)
    return tuple(seen)


@st.composite
def steps(draw: st.DrawFn, kept: Kept) -> tuple[Cache, list[Span]]:
    contexts = draw(st.lists(st.sampled_from([0, 1, 15, 31, 127, 128, 200, 300]), min_size=1, max_size=3))
    counts = [draw(st.integers(1, 9)) for _ in contexts]
    lengths = [context + count for context, count in zip(contexts, counts, strict=True)]
    cache, spans, begin = Cache(kept, draw(st.sampled_from([width(kept), 32, 128])), lengths), [], 0
    for row, (context, count) in enumerate(zip(contexts, counts, strict=True)):
        if context:
            cache.fill(row, context)
        if draw(st.booleans()):
            spans += causal(row, begin, begin + count, context + count)
        else:
            spans.append(Span(row, begin, context + 1, random_tree(draw, count)))
        begin += count
    return cache, spans


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_rows_see_what_they_should_and_nothing_else(model: LlamaLayers, data: st.DataObject) -> None:
    check(model, *data.draw(steps(model.kept)))


@pytest.mark.parametrize("rows", [MOST_ROWS, MOST_ROWS + 1, 200])
def test_a_long_piece_of_a_prompt(model: LlamaLayers, rows: int) -> None:
    cache = Cache(model.kept, 32, [100 + rows])
    cache.fill(0, 100)
    check(model, cache, causal(0, 0, rows, 100 + rows))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_path_through_a_tree_is_bitwise_its_text_alone(model: LlamaLayers, data: st.DataObject) -> None:
    """Also where the text goes from one part of the context to the next: some way down the tree, or before it."""
    context = data.draw(st.integers(1, 24) | st.integers(110, 140) | st.integers(240, 260))
    count, tokens = data.draw(st.integers(2, MOST_ROWS)), data.draw(st.sampled_from([width(model.kept), 32, 128]))
    seen = random_tree(data.draw, count)
    residual = random(data.draw(st.integers(0, 99)), count, HIDDEN)
    cache = Cache(model.kept, tokens, [context + count])
    cache.fill(0, context)
    trees = paged(model, cache, [Span(0, 0, context + 1, seen)], residual)
    row = data.draw(st.integers(1, count - 1))
    path = [0, *[node + 1 for node in range(count - 1) if seen[row] >> node & 1]]
    alone = Cache(model.kept, tokens, [context + len(path)])
    alone.fill(0, context)
    for place, node in enumerate(path):
        result = paged(model, alone, causal(0, 0, 1, context + place + 1), residual[node : node + 1])
        assert torch.equal(result[0], trees[node])


@pytest.mark.parametrize("rows", [5, 64, 65, 66, 150])
@pytest.mark.parametrize("context", [0, 3, 100, 127, 128, 200])
def test_a_text_is_bitwise_the_same_read_at_once_or_token_by_token(model: LlamaLayers, context: int, rows: int) -> None:
    residual, results = random(1, rows, HIDDEN), []
    for pieces in ([rows], [1] * rows):
        cache, begin = Cache(model.kept, 32, [context + rows]), 0
        if context:
            cache.fill(0, context)
        for piece in pieces:
            spans = causal(0, 0, piece, context + begin + piece)
            results.append(paged(model, cache, spans, residual[begin : begin + piece]))
            begin += piece
    assert torch.equal(results[0], torch.cat(results[1:]))


def test_many_rows_over_a_long_context_are_attended_to_in_rounds(
    model: LlamaLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, lengths = [70, 3], [400, 300]
    spans = [*causal(0, 0, 70, lengths[0]), *causal(1, 70, 73, lengths[1])]
    residual, results, sizes = random(1, sum(rows), HIDDEN), [], []
    for most in (2**22, 20_000, 1):
        monkeypatch.setattr(paged_attention, "_ROUND", most)
        cache = Cache(model.kept, 32, lengths)
        for row, length in enumerate(lengths):
            cache.fill(row, length - rows[row])
        results.append(paged(model, cache, spans, residual))
        step = cache.loops.step(spans, cache.table)
        sizes.append((len(step._kept[4]) - 1, len(step._kept[5])))
    assert all(torch.equal(results[0], other) for other in results[1:])
    rounds, numbers = zip(*sizes, strict=True)
    assert rounds[0] == 1 < rounds[1] < rounds[2] == len(spans) * HEADS
    assert numbers[0] > numbers[1] > 0


def test_a_row_does_not_depend_on_the_rows_beside_it(model: LlamaLayers) -> None:
    lengths = [140, 20, 300]
    cache = Cache(model.kept, 32, lengths)
    for row, length in enumerate(lengths):
        cache.fill(row, length - 1)
    residual = random(5, 3, HIDDEN)
    together = paged(model, cache, [s for row, n in enumerate(lengths) for s in causal(row, row, row + 1, n)], residual)
    for row, length in enumerate(lengths):
        alone = paged(model, cache, causal(row, 0, 1, length), residual[row : row + 1])
        assert torch.equal(alone[0], together[row])


@given(st.lists(st.integers(0, 39), min_size=1, max_size=12, unique=True).map(sorted))
def test_tokens_move_towards_the_front(kept: Kept, path: list[int]) -> None:
    cache = Cache(kept, width(kept), [80])
    cache.fill(0, 80)
    before = cache.dense(0, 80)
    slots = cache.slots(0, 0, 80).tolist()
    cache.loops.move([slots[40 + place] for place in path], slots[40 : 40 + len(path)])
    after = cache.dense(0, 80)
    assert torch.equal(after[:, :, :, 40 : 40 + len(path)], before[:, :, :, [40 + place for place in path]])
    assert torch.equal(after[:, :, :, :40], before[:, :, :, :40])
    rest = slice(40 + len(path), 80)
    assert torch.equal(after[:, :, :, rest], before[:, :, :, rest])


def test_other_caches_are_left_to_others(kept: Kept) -> None:
    assert Caches.suit([torch.empty(4, 2, 32, 64)], kept)
    assert not Caches.suit([torch.empty(4, 2, 32, 64, dtype=torch.bfloat16)], kept)
    assert not Caches.suit([torch.empty(4, 2, 24, 64)], kept)
    assert not Caches.suit([torch.empty(4, 2, 256, 64)], kept)
    assert not Caches.suit([torch.empty(4, 2, 32, 40)], kept)


def test_a_table_of_another_type_is_refused(kept: Kept) -> None:
    cache = Cache(kept, 32, [10])
    with pytest.raises(ValueError, match="block table: int32"):
        cache.loops.step(causal(0, 0, 1, 10), cache.table.long())


def rehearsing(model: LlamaLayers, blocks: int, monkeypatch: pytest.MonkeyPatch) -> LlamaLoops:
    """Loops over an empty cache of vLLM's kind."""
    monkeypatch.setattr(llama_loops, "_is_plain", lambda attention: True)
    impl = SimpleNamespace(num_heads=HEADS * GROUP, scale=HEAD**-0.5)
    caches = [torch.zeros(blocks, HEADS, 32, 2 * HEAD) for _ in range(LAYERS)]
    return LlamaLoops(model, [SimpleNamespace(layer_name="", kv_cache=cache, impl=impl) for cache in caches])


def test_a_step_is_rehearsed_request_by_request_behind_a_context(
    model: LlamaLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = rehearsing(model, 4, monkeypatch)
    hidden = loops.rehearse(40, 17, 100)
    assert hidden is not None
    assert hidden.isfinite().all()
    assert torch.equal(hidden[:17], hidden[17:34])
    assert torch.equal(hidden[:6], hidden[34:])
    # Behind keys and values of zero a row's own weigh less, the more there are.
    behind_none = loops.rehearse(40, 17, 0)
    assert behind_none is not None
    assert not torch.allclose(hidden, behind_none)


def test_nothing_is_rehearsed_where_there_are_too_few_pages(
    model: LlamaLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = rehearsing(model, 4, monkeypatch)
    assert loops.rehearse(5, 17, 4 * 32 - 17) is not None
    assert loops.rehearse(5, 17, 4 * 32 - 16) is None
