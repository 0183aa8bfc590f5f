"""A level of sequential heads in the compiled loop, against the same heads in float64; without an engine."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.heads.architectures import NORM_EPSILON, SequentialHeads, build
from engine.heads.config import HeadsConfig
from engine.native.draft_heads import DraftLevels, suits
from engine.native.library import Kept
from tests.engine.loops import as_kept, as_multiplied

HIDDEN, INNER, DEPTH, VOCABULARY = 96, 160, 3, 224


def heads(layers: int) -> SequentialHeads:
    torch.manual_seed(layers)
    built = build(HeadsConfig("sequential", DEPTH, HIDDEN, INNER, layers, VOCABULARY))
    assert isinstance(built, SequentialHeads)
    with torch.no_grad():
        for parameter in built.parameters():
            # What float16 can say, so that only the sums round.
            parameter.copy_((torch.randn_like(parameter) * 0.1).half())
    return built.requires_grad_(False)


def compiled(own: SequentialHeads, vocabulary: torch.Tensor, kept: Kept) -> DraftLevels:
    matrices = (own.tokens, list(own.states), list(own.downs), vocabulary)
    return DraftLevels(*matrices, own.carry, own.scale, own.shift, NORM_EPSILON, kept)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 2), st.integers(0, DEPTH - 1), st.integers(1, 12), st.integers(0, 99))
def test_states_candidates_and_probabilities_are_those_of_the_heads(
    kept: Kept,
    rows: int,
    layers: int,
    depth: int,
    candidates: int,
    seed: int,
) -> None:
    own = heads(layers)
    torch.manual_seed(seed)
    vocabulary = (torch.randn(VOCABULARY, HIDDEN) * 0.1).half().float()
    states, embedded = torch.randn(rows, HIDDEN), torch.randn(rows, HIDDEN)
    before = states.clone()
    after, ids, shares = compiled(own, vocabulary, kept)(depth, states, embedded, candidates)
    assert torch.equal(states, before)
    exact = own.double()
    exact.product = lambda x, matrix: as_multiplied(x, kept) @ as_kept(matrix, kept).T
    expected = exact.step(depth, states.double(), exact.embed(embedded.double()))
    everything = exact.product(exact.output(depth, after.double()), vocabulary).softmax(-1)
    # What float64 rounds to one step in 254 the loops may round to the next.
    near, as_likely = (1e-4, 1e-3) if kept == "float16" else (5e-2, 0.3)
    assert torch.allclose(after.double(), expected, rtol=near, atol=near)
    assert torch.allclose(shares.double(), everything.gather(1, ids), rtol=as_likely, atol=1e-6)
    assert torch.allclose(shares.double(), everything.topk(candidates).values, rtol=as_likely, atol=1e-6)
    assert all(len(set(row)) == candidates for row in ids.tolist())


def test_of_equal_candidates_the_first_ones_are_taken(kept: Kept) -> None:
    own = heads(1)
    vocabulary = torch.randn(16, HIDDEN).half().float().repeat(VOCABULARY // 16, 1)
    _, ids, shares = compiled(own, vocabulary, kept)(0, torch.randn(2, HIDDEN), torch.randn(2, HIDDEN), 7)
    assert all(row == [row[0] + 16 * place for place in range(7)] for row in ids.tolist())
    assert torch.equal(shares, shares[:, :1].expand(-1, 7))


def test_states_that_are_no_numbers_give_tokens_that_exist(kept: Kept) -> None:
    own = heads(1)
    states = torch.full((1, HIDDEN), float("nan"))
    _, ids, shares = compiled(own, torch.randn(VOCABULARY, HIDDEN), kept)(0, states, torch.randn(1, HIDDEN), 5)
    assert 0 <= int(ids.min()) <= int(ids.max()) < VOCABULARY


def test_heads_of_other_sizes_are_left_to_torch(kept: Kept) -> None:
    own = heads(1)
    vocabulary = torch.randn(VOCABULARY, HIDDEN)
    assert suits(own.tokens, own.downs, vocabulary, kept)
    assert not suits(own.tokens, own.downs, vocabulary[:-1], kept)
    assert not suits(own.tokens.double(), own.downs, vocabulary, kept)
    assert not suits(own.tokens, [down[:-1] for down in own.downs], vocabulary, kept)
