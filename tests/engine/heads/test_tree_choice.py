"""The tree of the likeliest paths, and its size by tokens per second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.heads.tree_choice import (
    PathShare,
    acceptance_length,
    best_sizes,
    between,
    expected_tokens,
    likeliest,
    path_shares_of,
)
from engine.tree.topology import Topology

SHARES = [
    PathShare((0,), 0.6),
    PathShare((1,), 0.2),
    PathShare((0, 0), 0.4),
    PathShare((0, 1), 0.05),
    PathShare((0, 0, 0), 0.3),
]


def test_the_likeliest_paths_make_the_tree() -> None:
    assert likeliest(SHARES, 3) == [(0,), (0, 0), (0, 0, 0)]
    assert expected_tokens(SHARES, 3) == pytest.approx(2.3)
    assert expected_tokens(SHARES, 0) == 1.0


def test_any_tree_has_an_expected_length() -> None:
    assert acceptance_length(SHARES, [(0,), (1,)]) == pytest.approx(1.8)
    assert acceptance_length(SHARES, [(7,)]) == 1.0
    assert acceptance_length(SHARES, likeliest(SHARES, 3)) == pytest.approx(expected_tokens(SHARES, 3))


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=80), st.integers(1, 40))
def test_every_prefix_is_a_tree(replayed: list[list[int]], nodes: int) -> None:
    prefixes = [tuple(path[:length]) for path in replayed for length in range(1, len(path) + 1)]
    shares = [PathShare(path, prefixes.count(path) / len(replayed)) for path in set(prefixes)]
    chosen = likeliest(shares, nodes)
    assert Topology.from_paths(chosen).nodes == min(nodes, len(shares))
    left = max((entry.share for entry in shares if entry.path not in chosen), default=0)
    assert all(entry.share >= left for entry in shares if entry.path in chosen)


def test_the_size_follows_what_a_step_costs() -> None:
    cheap = {0: 0.040, 8: 0.041}
    dear = {0: 0.040, 1: 0.080, 8: 0.200}
    one, eight = best_sizes(SHARES, {1: cheap, 8: dear}, at_most=64)
    assert (one.batch, one.nodes) == (1, 5)
    assert one.tokens_per_s == pytest.approx(2.55 / (0.040 + 0.001 * 5 / 8))
    assert (eight.batch, eight.nodes, eight.tokens_per_step) == (8, 0, 1.0)


def test_sizes_that_were_not_measured_are_not_chosen() -> None:
    (chosen,) = best_sizes(SHARES, {1: {0: 0.04, 2: 0.04}}, at_most=64)
    assert chosen.nodes == 2
    assert between({0: 0.04, 4: 0.08}, 1) == pytest.approx(0.05)


def test_heads_that_were_never_judged_give_no_tree() -> None:
    with pytest.raises(ValueError, match="judge them first"):
        path_shares_of({})
    assert path_shares_of({"paths": [[[0, 1], 0.5]]}) == [PathShare((0, 1), 0.5)]
