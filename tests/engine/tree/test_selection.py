"""From what heads draft to trees of the nodes that are worth their rows."""

from collections.abc import Sequence

import numpy as np
import torch

from engine.heads.drafting import Deeper, Draft
from engine.tree.grafting import NOTHING
from engine.tree.node_policy import NodePolicy
from engine.tree.row_costs import RowCosts
from engine.tree.selection import Chosen, Selection
from engine.tree.source import Candidate
from engine.tree.topology import Topology

TREE = Topology.from_paths([(0,), (0, 0), (0, 0, 0), (1,), (0, 1), (1, 0)])
SHARES = dict(zip(TREE.paths, (0.5, 0.3, 0.2, 0.15, 0.1, 0.05), strict=True))
HIDDEN = torch.zeros(2, 4)


def candidate(row: int, greedy: bool = True) -> Candidate:
    return Candidate(row, row, 7, np.array([7], np.int32), greedy)


class Heads:
    """Drafts what it was told, and notes what it was asked."""

    def __init__(self, *drafts: Draft) -> None:
        self.drafts = list(drafts)
        self.deeper: list[int] = []

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, deeper: Deeper | None) -> list[Draft]:
        assert deeper is not None
        count = len(candidates)
        self.deeper = deeper([0.9, 0.01][:count], [0, 1][:count])
        return self.drafts


def selection(row_cost: float = 0.1) -> Selection:
    return Selection(TREE, SHARES, NodePolicy(SHARES, RowCosts({}, row_cost)))


def test_likely_nodes_of_each_request_become_its_tree_with_their_tokens() -> None:
    sure = Draft([1, 2, 3, 4], [11, 12, 13, 14], [0.95, 0.9, 0.8, 0.02])
    unsure = Draft([1, 4], [21, 22], [0.03, 0.02])
    heads = Heads(sure, unsure)
    chosen, tokens = selection().drafted(heads, [candidate(0), candidate(1)], HIDDEN)
    assert tokens == [[11, 12, 13], []]
    assert [one.tree for one in chosen] == [Topology.chain(3), NOTHING]
    assert chosen[0].promised == [0.95, 0.9, 0.8]
    assert abs(chosen[0].tokens - 3.65) < 1e-9
    assert heads.deeper == [0]


def test_what_says_nothing_of_chances_is_taken_at_the_shares_known_beforehand() -> None:
    whole = Draft([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [])
    (chosen,), (tokens,) = selection().drafted(Heads(whole), [candidate(0)], HIDDEN[:1])
    assert chosen.promised == [SHARES[path] for path in chosen.tree.paths]
    assert tokens == [row for row in range(1, 7) if TREE.paths[row - 1] in chosen.tree.paths]
    assert 0 < chosen.tree.nodes < 6


def test_promises_that_are_not_kept_count_for_less_apart_for_greedy_and_sampled_requests() -> None:
    chooser = selection()
    draft = Draft([1, 2], [11, 12], [0.6, 0.5])
    tree = Chosen(Topology.chain(2), [0.6, 0.5], greedy=False)
    for _ in range(300):
        chooser.saw_tree(tree, 2, [])
    trees = {
        greedy: chooser.drafted(Heads(draft), [candidate(0, greedy)], HIDDEN[:1])[0][0].tree for greedy in (True, False)
    }
    assert (trees[True].nodes, trees[False].nodes) == (2, 0)


def test_of_a_tree_that_was_cut_only_what_was_verified_counts() -> None:
    chooser = selection(row_cost=0.05)
    for _ in range(300):
        chooser.saw_tree(Chosen(Topology.chain(3), [0.6, 0.5, 0.15]), 1, [1])
    (chosen,), _ = chooser.drafted(Heads(Draft([1, 2, 3], [1, 2, 3], [0.6, 0.5, 0.15])), [candidate(0)], HIDDEN[:1])
    assert chosen.tokens > 1 + 0.9 + 0.5
    assert chosen.tree.nodes == 3
