"""Continuations found in the text on drafted trees."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.tree.grafting import GIVEN_WAY, NOTHING, Grafting, Load, followed
from engine.tree.node_policy import NodePolicy
from engine.tree.row_costs import RowCosts
from engine.tree.topology import Topology
from engine.tree.walk import greedy_path

WHOLE = Topology.from_paths([(0,) * depth for depth in range(1, 5)] + [(rank,) for rank in range(1, 13)])
SMALL = Topology.from_paths([(0,), (1,), (0, 0)])
ALONE = Load(1, 1)
SHARES = {path: 0.5 / place for place, path in enumerate(WHOLE.paths, 1)}


def followed_by(*rest: int) -> np.ndarray:
    """A text that ends as it began, when it went on like this."""
    return np.array([70, 71, 72, *rest, 60, 70, 71, 72], np.int32)


def grafting() -> Grafting:
    return Grafting(WHOLE, SHARES, NodePolicy(SHARES.values(), RowCosts({})))


def walked(topology: Topology, drafts: list[int], truth: Sequence[int]) -> int:
    """Tokens accepted where the model goes on like this."""
    best = [truth[depth] for depth in (0, *topology.depths)]
    return len(greedy_path(topology, drafts, best))


def test_what_the_tree_does_not_hold_hangs_below_what_it_holds() -> None:
    text = followed_by(1, 2, 3, 4, 5)
    cases = {(1, 9, 8): 1, (9, 8, 1): 3, (1, 2, 8): 2, (9, 8, 7): 0}
    for drafts, row in cases.items():
        tree, tokens = grafting().grafted(text, SMALL, list(drafts), ALONE)
        assert tree.paths[:3] == SMALL.paths
        assert tokens[:3] == list(drafts)
        depth = SMALL.depths[row - 1] if row else 0
        assert tokens[3:] == [1, 2, 3, 4, 5, 60, 70, 71, 72][depth : depth + tree.graft_nodes]
        assert (tree.parents[3], tree.graft_depth, tree.graft_match) == (row, depth, 3)
        reached = depth + tree.graft_nodes
        assert reached > 4
        assert walked(tree, tokens, [1, 2, 3, 4, 5, 60, 70, 71, 72, 70, 71]) == reached


def test_the_whole_tree_has_no_room_and_none_is_needed_for_what_it_holds() -> None:
    drafts = list(range(100, 116))
    assert grafting().grafted(followed_by(1, 2, 3), WHOLE, drafts, ALONE) == (WHOLE, drafts)
    assert grafting().grafted(np.arange(50, dtype=np.int32), SMALL, [1, 2, 3], ALONE) == (SMALL, [1, 2, 3])
    end = np.array([5, 5, 5, 5], np.int32)
    assert grafting().grafted(end, SMALL, [5, 6, 7], ALONE) == (SMALL, [5, 6, 7])


def test_where_trees_are_always_whole_their_least_likely_nodes_give_way() -> None:
    always = Grafting(WHOLE, SHARES, None)
    tree, tokens = always.grafted(followed_by(1, 2, 3, 4, 5), WHOLE, list(range(100, 116)), 1)
    assert tree.nodes == len(tokens) == WHOLE.nodes
    assert tree.graft_nodes == GIVEN_WAY
    kept = tree.paths[:-GIVEN_WAY]
    assert kept == WHOLE.paths[: len(kept)]
    assert tokens == [*range(100, 110), 1, 2, 3, 4, 5, 60]


def test_a_graft_needs_no_drafted_tree() -> None:
    tree, tokens = grafting().grafted(followed_by(1, 2, 3, 4, 5), NOTHING, [], ALONE)
    assert len(tokens) > 2
    assert tokens == [1, 2, 3, 4, 5, 60, 70, 71, 72][: len(tokens)]
    assert tree.parents == tuple(range(len(tokens)))
    # A drafter that drafts nothing, as one that drafts less.
    always = Grafting(WHOLE, SHARES, None)
    assert always.grafted(followed_by(1, 2, 3, 4, 5), WHOLE, [], ALONE)[1] == [1, 2, 3, 4, 5, 60, 70, 71, 72]
    cut, drafts = always.grafted(followed_by(1, 2, 3, 4, 5), WHOLE, [1, 9], ALONE)
    assert (cut.paths[:2], drafts) == (WHOLE.paths[:2], [1, 9, 2, 3, 4, 5, 60, 70, 71, 72])


@given(st.lists(st.integers(0, 3), min_size=16, max_size=16), st.lists(st.integers(0, 3), min_size=8, max_size=30))
def test_a_graft_takes_nothing_from_the_drafts_and_stays_within_the_whole_tree(
    drafts: list[int], text: list[int]
) -> None:
    ids = np.array(text, np.int32)
    small, small_drafts = WHOLE.prefix(7), drafts[:7]
    tree, tokens = grafting().grafted(ids, small, small_drafts, ALONE)
    assert tree.nodes == len(tokens) <= WHOLE.nodes
    assert (tree.paths[:7], tokens[:7]) == (small.paths, small_drafts)
    truth = [*text[:4], *[9] * 20]
    assert walked(tree, tokens, truth) >= walked(small, small_drafts, truth)
    row, depth = followed(small, small_drafts, text)
    assert (small.depths[row - 1] if row else 0) == depth
    whole, whole_drafts = Grafting(WHOLE, SHARES, None).grafted(ids, WHOLE, drafts, ALONE)
    assert whole.nodes == len(whole_drafts) <= WHOLE.nodes
