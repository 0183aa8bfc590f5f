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


def test_steps_that_read_no_prompt_are_known_as_such() -> None:
    def rows(starts: list[int], drafted: list[int]) -> int | None:
        return describe("abcd", starts, [9] * len(drafted), drafted, lambda name: TREE).decoding_rows

    assert rows([0, 3, 6], [2, 2]) == 6
    assert rows([0, 1, 2], [0, 0]) == 2
    assert rows([0, 3, 4], [2, 0]) == 4
    assert rows([0, 3, 5], [2, 1]) == 5
    assert rows([0, 3, 6], [2, 0]) is None


def test_grafted_nodes_are_counted_apart() -> None:
    grafted = TREE.grafted(2, 3, 4)

    def nodes(starts: list[int], drafted: list[int]) -> int:
        trees = {"a": grafted, "b": TREE}
        return describe("ab", starts, [9] * len(drafted), drafted, lambda name: trees[name]).graft_nodes

    assert nodes([0, 9, 15], [8, 5]) == 3
    assert nodes([0, 8, 14], [7, 5]) == 2
    assert nodes([0, 6, 12], [5, 5]) == 0
