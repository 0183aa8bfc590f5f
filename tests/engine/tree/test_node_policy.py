"""Nodes that are worth their rows, by load and acceptance, on an imagined machine: no clock, no model."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tree.node_policy import PATIENCE, PROBE_EVERY, NodePolicy
from engine.tree.row_costs import ROWS, RowCosts

SHARES = {(0,) * depth: share for depth, share in enumerate((0.5, 0.25, 0.15, 0.1), 1)}
GOOD, POOR = (0.9, 0.8, 0.7, 0.6), (0.02, 0.01, 0.01, 0.01)


@dataclass
class Machine:
    """A step takes a + b · rows and what drafting takes; a request's chain of four is as likely as told, or hardly."""

    row_s: float = 0.001
    fixed_s: float = 0.02
    level_s: float = 0.0005
    sure: Sequence[float] = GOOD
    unsure: Sequence[float] = POOR
    sure_share: float = 0.5
    measured: bool = True
    sampled: bool = False
    policy: NodePolicy = field(init=False)
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    clock_s: float = 0.0
    tokens: int = 0

    def __post_init__(self) -> None:
        seconds = {rows: self.row_s * rows + self.fixed_s / 2 for rows in ROWS} if self.measured else {}
        self.policy = NodePolicy(SHARES.values(), RowCosts(seconds))

    def run(self, batch: int, steps: int) -> list[int | None]:
        """Nodes verified in each step, None where it was to have no trees."""
        return [self.step(batch) for _ in range(steps)]

    def step(self, batch: int) -> int | None:
        trees = self.policy.trees(batch, sampled=self.sampled)
        kept: list[list[float]] = [[] for _ in range(batch)]
        drafting_s = 0.0
        assert trees or not self.policy.trying
        if trees:
            chances, levels = self._draft(batch)
            drafting_s = self.level_s * levels
            self.policy.saw_drafting(drafting_s)
            places = self.policy.kept(batch, chances)
            kept = [[own[place] for place in at] for own, at in zip(chances, places, strict=True)]
        tokens = sum(1 + self._accepted(own) for own in kept)
        rows = batch + sum(map(len, kept))
        seconds = self.fixed_s + self.row_s * rows + drafting_s
        self.policy.saw_step(batch, trees, rows, seconds)
        self.clock_s += seconds
        self.tokens += tokens
        return sum(map(len, kept)) if trees else None

    def _draft(self, batch: int) -> tuple[list[list[float]], int]:
        whole = [self.sure if self.dice.random() < self.sure_share else self.unsure for _ in range(batch)]
        for depth in range(1, 4):
            if not self.policy.deeper(batch, [own[depth - 1] for own in whole]):
                return [list(own[:depth]) for own in whole], depth
        return [list(own) for own in whole], 4

    def _accepted(self, chances: Sequence[float]) -> int:
        """Each chance is that of its whole path."""
        before = 1.0
        for count, chance in enumerate(chances):
            if self.dice.random() >= chance / before:
                return count
            before = chance
        return len(chances)

    def tokens_per_s(self, batch: int, steps: int) -> float:
        """Over so many further steps."""
        begin_s, begin = self.clock_s, self.tokens
        self.run(batch, steps)
        return (self.tokens - begin) / (self.clock_s - begin_s)


def settled(nodes: list[int | None]) -> list[int | None]:
    """Without the steps that were tries."""
    return [own for step, own in enumerate(nodes, 1) if step % PROBE_EVERY and step > 40]


def test_trees_grow_where_heads_are_sure_and_are_left_where_they_are_not() -> None:
    nodes = settled(Machine().run(1, 400))
    assert set(nodes) == {0, 4}
    assert 0.4 < nodes.count(4) / len(nodes) < 0.6


def test_the_dearer_a_row_the_fewer_nodes_and_with_the_load_none_are_left() -> None:
    shares = []
    for row_s in (0.0005, 0.004, 0.012):
        nodes = settled(Machine(row_s=row_s, sure=(0.8, 0.4, 0.2, 0.1)).run(1, 600))
        shares.append(sum(own or 0 for own in nodes) / len(nodes))
    assert shares[0] > shares[1] > shares[2]
    loaded = Machine(row_s=0.004, sure=(0.4, 0.15, 0.05, 0.02))
    assert settled(loaded.run(16, 800))[-200:].count(None) > 190


def test_what_it_chooses_is_quicker_than_plain_steps_and_than_any_fixed_number_of_nodes() -> None:
    for batch in (1, 4, 8):
        machine = Machine(row_s=0.002)
        machine.run(batch, 200)
        reached = machine.tokens_per_s(batch, 3000)
        for fixed in range(5):
            gain = sum(sum(own[:fixed]) / 2 for own in (GOOD, POOR))
            seconds = 0.02 + 0.002 * batch * (1 + fixed) + 0.0005 * fixed
            assert reached > batch * (1 + gain) / seconds


def test_heads_that_are_always_wrong_are_not_asked_any_more_but_now_and_then() -> None:
    machine = Machine(sure=POOR, row_s=0.003, level_s=0.002)
    machine.run(1, 20 * PROBE_EVERY)
    nodes = machine.run(1, 8 * PROBE_EVERY)
    assert 7 <= sum(own is not None for own in nodes) <= 9
    machine.sure, machine.sure_share = GOOD, 1.0
    assert machine.run(1, 60 * PROBE_EVERY)[-40:].count(None) <= 1


def test_what_sampled_replies_bring_says_nothing_of_greedy_ones() -> None:
    machine = Machine(sure=POOR, row_s=0.003, level_s=0.002, sampled=True)
    assert settled(machine.run(1, 400))[-100:].count(None) == 100
    machine.sure, machine.sure_share, machine.sampled = GOOD, 1.0, False
    assert machine.run(1, 40).count(None) <= 3
    machine.sure, machine.sampled = POOR, True
    assert machine.run(1, 40).count(None) >= 38


def test_which_way_it_is_does_not_flutter_between_two_that_are_as_good() -> None:
    # What one row in two brings is just what it and the drafting cost.
    machine = Machine(sure=(0.1, 0.0, 0.0, 0.0), unsure=(0.09, 0.0, 0.0, 0.0), row_s=0.002)
    ways = [own is None for own in settled(machine.run(1, 4000))]
    assert sum(before != after for before, after in zip(ways, ways[1:], strict=False)) <= 3


def test_one_slow_step_changes_nothing() -> None:
    machine = Machine()
    machine.run(1, 20 * PROBE_EVERY + 5)
    machine.policy.saw_step(1, True, 3, 1.0)
    assert None not in machine.run(1, PATIENCE)


@pytest.mark.parametrize("measured", [True, False])
def test_a_first_step_that_was_disturbed_decides_nothing(measured: bool) -> None:
    machine = Machine(measured=measured)
    machine.policy.trees(1)
    machine.policy.saw_step(1, True, 1, 0.5)
    assert settled(machine.run(1, 600))[-100:].count(4) > 30


def test_rows_that_were_measured_on_a_busy_machine_become_cheaper() -> None:
    machine = Machine()
    machine.policy = NodePolicy(SHARES.values(), RowCosts({rows: 5 * (0.001 * rows + 0.01) for rows in ROWS}))
    assert settled(machine.run(1, 600))[-100:].count(4) > 30
    assert machine.policy.times(1, True, 5, 0.025) > 0.5


def test_rows_of_others_make_a_row_dearer_where_blocks_of_rows_fill_up() -> None:
    # The seventh row costs as much as the first six.
    costs = RowCosts({1: 0.02, 6: 0.021, 7: 0.04, 12: 0.041})
    kept = []
    for beside in (0, 4, 5):
        policy = NodePolicy(SHARES.values(), costs)
        policy.trees(1, beside)
        kept.append(len(policy.kept(1, [[0.9, 0.3, 0.2, 0.1]])[0]))
    assert kept[0] == 4
    assert kept[1] == 1
    assert kept[2] in (0, 4)


def test_one_slow_drafting_does_not_end_deep_trees() -> None:
    machine = Machine(sure_share=1.0)
    machine.run(1, 200)
    machine.policy.trees(1)
    machine.policy.saw_drafting(0.2)
    assert machine.step(1) == 4


@pytest.mark.parametrize("measured", [True, False])
def test_machines_that_are_ten_times_slower_choose_the_same(measured: bool) -> None:
    quick, slow = (Machine(row_s=0.001 * times, fixed_s=0.02 * times, measured=measured) for times in (1, 10))
    assert settled(quick.run(1, 300))[-100:].count(4) > 30
    # Drafting a level takes no longer than on the quick one.
    assert settled(slow.run(1, 300))[-100:].count(4) > 30


def test_where_rows_are_dear_by_measure_it_begins_without_trees() -> None:
    dear, cheap = ({rows: 0.02 * rows**power for rows in ROWS} for power in (0.95, 0.1))
    assert not NodePolicy(SHARES.values(), RowCosts(dear)).trees(4)
    assert NodePolicy(SHARES.values(), RowCosts(cheap)).trees(4)


@given(st.lists(st.lists(st.floats(0, 1), max_size=6), min_size=1, max_size=5), st.floats(0.0, 0.3))
def test_what_is_kept_are_the_likeliest_nodes_of_all_requests_and_every_parent(
    drawn: list[list[float]], row_cost: float
) -> None:
    chances = [list(accumulate(own, min)) for own in drawn]
    policy = NodePolicy(SHARES.values(), RowCosts({}, row_cost))
    kept = policy.kept(len(chances), chances)
    for own, places in zip(chances, kept, strict=True):
        assert places == list(range(len(places)))
        assert len(places) <= len(own)
    taken = [own[place] for own, places in zip(chances, kept, strict=True) for place in places]
    left = [chance for own, places in zip(chances, kept, strict=True) for chance in own[len(places) :]]
    assert min(taken, default=1.0) >= max(left, default=0.0)
