"""What a step verifies, as read off vLLM's own numbers."""

import pytest

from engine.tree.step import describe
from engine.tree.topology import Topology

TREE = Topology.from_paths([(0,), (1,), (0, 0), (1, 0), (0, 0, 0)])


def test_requests_with_drafts_are_trees_and_all_others_are_not() -> None:
    # A whole tree, a prompt's chunk as long as one, a cut tree, a plain row.
    step = describe("abcd", [0, 6, 12, 15, 16], [40, 0, 7, 9], [5, 0, 2, 0], lambda name: TREE)
    assert sorted(step.trees) == [0, 2]
    assert step.others() == [1, 3]
    assert step.logit_rows == (0, 6, 7, 10)
    whole, cut = step.trees[0], step.trees[2]
    assert (whole.begin, whole.end, whole.context, whole.rows, whole.request_id) == (0, 6, 40, 6, "a")
    assert (cut.begin, cut.end, cut.context, cut.rows, cut.request_id) == (12, 15, 7, 3, "c")
    assert cut.topology == TREE.prefix(2)
    assert whole.topology is TREE


def test_drafts_behind_tokens_that_are_not_computed_are_refused() -> None:
    with pytest.raises(ValueError, match="2 drafts in a request of 5 tokens"):
        describe("a", [0, 5], [0], [2], lambda name: TREE)


def test_steps_of_equal_trees_are_known_as_such() -> None:
    def nodes(starts: list[int], drafted: list[int]) -> int | None:
        return describe("abcd", starts, [9] * len(drafted), drafted, lambda name: TREE).even_nodes

    assert nodes([0, 3, 6], [2, 2]) == 2
    assert nodes([0, 1, 2], [0, 0]) == 0
    assert nodes([0, 3, 6], [2, 0]) is None
    assert nodes([0, 3, 5], [2, 1]) is None
    assert nodes([0, 3, 6], [0, 0]) is None


def test_grafts_do_not_make_steps_uneven() -> None:
    grafted = TREE.grafted(2, 3, 4)

    def described(starts: list[int], drafted: list[int]) -> tuple[int | None, int]:
        trees = {"a": grafted, "b": TREE}
        step = describe("ab", starts, [9] * len(drafted), drafted, lambda name: trees[name])
        return step.even_nodes, step.graft_nodes

    assert described([0, 9, 15], [8, 5]) == (5, 3)
    assert described([0, 8, 14], [7, 5]) == (5, 2)
    assert described([0, 6, 12], [5, 5]) == (5, 0)
    assert described([0, 5, 11], [4, 5]) == (None, 0)
