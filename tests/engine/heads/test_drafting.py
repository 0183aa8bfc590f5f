"""What is drafted for a tree, against the heads taken one path at a time."""

from collections.abc import Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.heads.acceptance import accepted, ranks
from engine.heads.config import Architecture
from engine.heads.drafting import Drafting
from engine.tree.topology import Path, Topology
from tests.engine.heads import small

ARCHITECTURES: tuple[Architecture, ...] = ("medusa", "sequential")


@st.composite
def trees(draw: st.DrawFn) -> Topology:
    """Up to 12 nodes, up to 3 deep, ranks with holes."""
    paths: list[Path] = []
    for _ in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from([(), *[path for path in paths if len(path) < 3]]))
        path = (*parent, draw(st.integers(0, 5)))
        if path not in paths:
            paths.append(path)
    return Topology.from_paths(paths)


def candidates(architecture: Architecture, hidden: torch.Tensor, said: list[int]) -> list[int]:
    """The head's ranking of the next token after the bonus token and the chosen ones, `said`."""
    heads, target = small.heads(architecture), small.target()
    state = heads.start(hidden[None])
    for depth, token in enumerate(said):
        state = heads.step(depth, state, heads.embed(target.embedding[[token]]))
    logits = heads.output(len(said) - 1, state) @ target.vocabulary.T
    return target.token_map[logits[0].argsort(descending=True)].tolist()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=40, deadline=None)
@given(topology=trees(), seed=st.integers(0, 99))
def test_every_node_holds_its_parents_candidate_of_its_rank(
    architecture: Architecture, topology: Topology, seed: int
) -> None:
    torch.manual_seed(seed)
    hidden, bonus = torch.randn(2, small.HIDDEN), torch.randint(small.VOCABULARY, (2,))
    drafted = Drafting(small.heads(architecture), small.target(), topology).draft(hidden, bonus).tolist()
    for request in range(2):
        token_of = {(): int(bonus[request])}
        for path, token in zip(topology.paths, drafted[request], strict=True):
            said = [token_of[path[:length]] for length in range(len(path))]
            assert token == candidates(architecture, hidden[request], said)[path[-1]]
            token_of[path] = token


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=25, deadline=None)
@given(topology=trees(), seed=st.integers(0, 99))
def test_replayed_acceptance_is_that_of_the_drafted_tree(
    architecture: Architecture, topology: Topology, seed: int
) -> None:
    heads, target = small.heads(architecture), small.target()
    rows, _ = small.rows((9, 4, 1, 7), seed)
    replayed = accepted(ranks(heads, target, rows), topology.paths)
    drafted = Drafting(heads, target, topology).draft(rows.hidden, rows.tokens)
    for row, tokens in enumerate(drafted.tolist()):
        node, kept = 0, 0
        for said in rows.tokens[row + 1 : row + 1 + int(rows.left[row])].tolist():
            node = next((child for child in topology.children[node] if tokens[child - 1] == said), -1)
            if node < 0:
                break
            kept += 1
        assert replayed[row] == kept


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=40, deadline=None)
@given(topology=trees(), seed=st.integers(0, 99), choices=st.randoms(use_true_random=False))
def test_likely_drafts_are_the_whole_tree_s_but_for_what_hangs_below_nodes_that_were_left(
    architecture: Architecture, topology: Topology, seed: int, choices: Random
) -> None:
    torch.manual_seed(seed)
    hidden, bonus = torch.randn(3, small.HIDDEN), torch.randint(small.VOCABULARY, (3,))
    drafting = Drafting(small.heads(architecture), small.target(), topology)
    whole = drafting.draft(hidden, bonus).tolist()
    asked: list[tuple[int, float, bool]] = []

    def deeper(chances: Sequence[float], requests: Sequence[int]) -> list[int]:
        taken = [place for place in range(len(chances)) if choices.random() < 0.6]
        asked.extend((request, chances[place], place in taken) for place, request in enumerate(requests))
        return taken

    for request, draft in enumerate(drafting.draft_likely(hidden, bonus, deeper)):
        assert draft.rows == sorted(draft.rows)
        assert draft.tokens == [whole[request][row - 1] for row in draft.rows]
        left = [chance for place, chance, taken in asked if place == request and not taken]
        below = {parent for row in draft.rows if (parent := topology.parents[row - 1])}
        chance_of = dict(zip(draft.rows, draft.chances, strict=True))
        assert set(topology.children[0]) <= set(draft.rows)
        assert not below & {row for row in draft.rows if chance_of[row] in left and topology.children[row]}
        for row in draft.rows:
            assert 0 <= chance_of[row] <= chance_of.get(topology.parents[row - 1], 1.0)


def test_the_chance_of_a_path_is_the_product_of_its_tokens_probabilities() -> None:
    heads, target, tree = small.heads("sequential"), small.target(), Topology.chain(3)
    hidden = torch.randn(1, small.HIDDEN)
    (draft,) = Drafting(heads, target, tree).draft_likely(hidden, torch.tensor([5]), lambda chances, _: [0])
    state, expected = heads.start(hidden), 1.0
    for depth, token in enumerate([5, *draft.tokens[:2]]):
        state = heads.step(depth, state, heads.embed(target.embedding[[token]]))
        expected *= float((heads.output(depth, state) @ target.vocabulary.T).softmax(-1).max())
        assert draft.chances[depth] == pytest.approx(expected, rel=1e-4)


def test_a_tree_deeper_than_the_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="4 deep"):
        Drafting(small.heads("medusa"), small.target(), Topology.chain(4))


def test_a_tree_with_more_candidates_than_can_be_drafted_is_refused() -> None:
    Drafting(small.heads("medusa"), small.target(), Topology.from_paths([(23,)]))
    with pytest.raises(ValueError, match="a candidate 24, the heads draft 24 tokens"):
        Drafting(small.heads("medusa"), small.target(), Topology.from_paths([(24,)]))


def test_heads_with_matrices_of_their_own_use_them() -> None:
    heads, target = small.heads("medusa"), small.target()
    torch.manual_seed(3)
    own = [torch.randn(small.VOCABULARY, small.HIDDEN) for _ in range(3)]
    other = type(target).of(torch.randn_like(own[0]), target.embedding, target.token_map, own)
    hidden = torch.randn(1, small.HIDDEN)
    drafted = Drafting(heads, other, Topology.chain(3)).draft(hidden, torch.tensor([0]))
    for depth in range(3):
        logits = heads.output(depth, hidden) @ own[depth][target.token_map].T
        assert drafted[0, depth] == target.token_map[logits.argmax()]
