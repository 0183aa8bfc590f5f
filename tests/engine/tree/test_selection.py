"""From what heads draft to trees of the nodes that are worth their rows."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engine.heads.drafting import Deeper, Draft
from engine.tree.grafting import NOTHING
from engine.tree.node_policy import NodePolicy
from engine.tree.row_costs import ROWS, RowCosts
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
    return Selection(TREE, SHARES, NodePolicy(SHARES.values(), RowCosts({}, row_cost)))


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


@pytest.mark.parametrize(("batch", "poor"), [(1, 0.1), (4, 0.3), (8, 0.1)])
def test_heads_that_have_promised_too_much_are_believed_again_once_they_keep_it(batch: int, poor: float) -> None:
    """On an imagined machine; heads are sure of every third request. A step is a row and what comes beside, 1 to 8."""
    shares = dict(zip(TREE.paths, (0.5, 0.3, 0.2, 0.1, 0.1, 0.1), strict=True))
    policy = NodePolicy(shares.values(), RowCosts({rows: 0.015 + 0.0015 * rows for rows in ROWS}))
    chooser, dice = Selection(TREE, shares, policy), random.Random(4)
    candidates = [candidate(row) for row in range(batch)]

    def tokens(steps: int, honesty: float) -> float:
        """For each request and step, with heads that keep so much of what they promise."""
        accepted = 0
        for _ in range(steps):
            trees, rows = policy.trees(batch), batch
            chosen: list[Chosen] = []
            if trees:
                drafts = [
                    Draft([1, 2], [1, 2], [0.8, 0.6] if dice.random() < 0.33 else [0.1, 0.02]) for _ in candidates
                ]
                chosen, _ = chooser.drafted(Heads(*drafts), candidates, torch.zeros(batch, 4))
                policy.saw_drafting(0.001)
                rows += sum(one.tree.nodes for one in chosen)
            for one in chosen:
                draw = dice.random()
                path = [row for row, promised in enumerate(one.promised, 1) if draw < promised * honesty]
                chooser.saw_tree(one, one.tree.nodes, path)
                accepted += len(path)
            policy.saw_step(batch, trees, rows, 0.018 + 0.0015 * rows + 0.001 * trees)
        return 1 + accepted / steps / batch

    before = tokens(1500, 1.0)
    tokens(2500, poor)
    tokens(2500, 1.0)
    assert before > 1.2
    assert tokens(500, 1.0) > 1 + 0.7 * (before - 1)
