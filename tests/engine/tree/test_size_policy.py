"""Sizes of trees by load and acceptance, on an imagined machine: no clock, no model."""

import random
from collections.abc import Sequence

from engine.tree.row_costs import RowCosts
from engine.tree.size_policy import PATIENCE, PROBE_EVERY, SizePolicy
from engine.tree.topology import Topology

# A chain of 4, then siblings of its first node: what each brings is given by node.
PATHS = [(0,) * depth for depth in (1, 2, 3, 4)] + [(rank,) for rank in range(1, 13)]
SIZES = (4, 8, 16)
GOOD = [0.55, 0.3, 0.15, 0.08] + [0.1, 0.05, 0.04, 0.04] + [0.04] * 8


def policy_of(sizes: Sequence[int], shares: Sequence[float]) -> SizePolicy:
    trees = [Topology.from_paths(PATHS[:size]) for size in sizes]
    return SizePolicy(trees, dict(zip(PATHS, shares, strict=False)), RowCosts({}))


class Machine:
    """Step time a + b · rows; every node is accepted with a probability of its own."""

    def __init__(self, policy: SizePolicy, shares: list[float], row_s: float = 0.0005) -> None:
        self.policy, self.shares, self.row_s = policy, shares, row_s
        self.random = random.Random(1)

    def run(self, batch: int, steps: int) -> list[int]:
        """Sizes chosen, step by step."""
        chosen = []
        for _ in range(steps):
            tree = self.policy.choose(batch)
            nodes = tree.nodes if tree else 0
            chosen.append(nodes)
            self.policy.saw_step(batch, nodes, 0.04 + self.row_s * batch * (1 + nodes))
            for _ in range(batch if tree else 0):
                path = [row for row in range(1, nodes + 1) if self.random.random() < self.shares[row - 1]]
                self.policy.saw_tree(Topology.from_paths(PATHS[:nodes]), path)
        return chosen


def changes(chosen: list[int]) -> int:
    return sum(before != after for before, after in zip(chosen, chosen[1:], strict=False))


def test_heads_that_are_right_get_trees_and_heads_that_are_wrong_get_none() -> None:
    right = Machine(policy_of(SIZES, GOOD), GOOD).run(1, 20 * PROBE_EVERY)
    assert right[-50:].count(16) >= 48
    wrong = Machine(policy_of(SIZES, GOOD), [0.005] * 16, row_s=0.002).run(1, 20 * PROBE_EVERY)
    assert wrong[-200:].count(0) >= 194


def test_trees_shrink_with_the_load_down_to_none_and_come_back() -> None:
    machine = Machine(policy_of(SIZES, GOOD), GOOD, row_s=0.002)
    typical = []
    for batch in (1, 4, 16, 64, 1):
        chosen = machine.run(batch, 20 * PROBE_EVERY)[-60:]
        typical.append(max(set(chosen), key=chosen.count))
    assert typical[0] >= typical[1] >= typical[2] >= typical[3]
    assert typical[0] > 0
    assert typical[3] < typical[1]
    assert typical[4] == typical[0]


def test_where_trees_are_off_they_are_tried_now_and_then_and_stay_once_they_pay() -> None:
    machine = Machine(policy_of(SIZES, [0.001] * 16), [0.001] * 16)
    off = machine.run(1, 8 * PROBE_EVERY)
    assert 3 <= sum(nodes > 0 for nodes in off) <= 5
    machine.shares = GOOD
    on = machine.run(1, 150 * PROBE_EVERY)
    assert on[-50:].count(0) == 0


def test_the_size_does_not_flutter_between_two_that_are_as_good() -> None:
    # Nodes 5 to 8 pay exactly what they cost.
    even = [0.5, 0.25, 0.1, 0.05] + [0.013] * 4
    machine = Machine(policy_of((4, 8), even), even, row_s=0.00042)
    chosen = machine.run(1, 3000)
    settled = [nodes for step, nodes in enumerate(chosen[40:], 41) if step % PROBE_EVERY]
    assert changes(settled) <= 4


def test_one_slow_step_changes_nothing() -> None:
    machine = Machine(policy_of(SIZES, GOOD), GOOD)
    before = machine.run(1, 20 * PROBE_EVERY + 5)[-1]
    machine.policy.saw_step(1, before, 0.4)
    assert set(machine.run(1, PATIENCE)) == {before}


def test_step_times_of_other_machines_are_taken_in_proportion() -> None:
    slow, fast = policy_of(SIZES, GOOD), policy_of(SIZES, GOOD)
    for policy, plain_s in ((slow, 0.4), (fast, 0.004)):
        policy.saw_step(1, 0, plain_s)
        assert policy.choose(1) is not None
    assert fast.tokens_per_s(1, None) > 50 * slow.tokens_per_s(1, None)


def test_what_was_measured_beforehand_decides_at_first_and_no_tree_is_tried_early() -> None:
    trees = [Topology.from_paths(PATHS[:size]) for size in SIZES]
    shares = dict(zip(PATHS, GOOD, strict=False))
    dear, cheap = ({rows: 0.02 * rows**power for rows in (1, 6, 12, 24, 96)} for power in (0.9, 0.1))
    assert SizePolicy(trees, shares, RowCosts(dear)).choose(4) is None
    policy = SizePolicy(trees, shares, RowCosts(cheap))
    chosen = [policy.choose(4) for _ in range(40)]
    assert chosen[0] is not None
    assert chosen[:10].count(None) == 1


def test_the_quickest_of_the_first_steps_of_a_kind_counts() -> None:
    policy = policy_of(SIZES, GOOD)
    for seconds in (0.09, 0.04, 0.08):
        policy.saw_step(1, 0, seconds)
    assert 1 / policy.tokens_per_s(1, None) == 0.04
