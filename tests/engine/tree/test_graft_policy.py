"""Lengths of grafts by what they bring and cost, on an imagined machine: no clock, no model."""

import random

from engine.tree.graft_policy import LONGEST_GRAFT, PROBE_EVERY, GraftPolicy


class Calls:
    """Every grafted token is right with a probability of its own, and adds its share to the step."""

    def __init__(self, right: float, row_cost: float) -> None:
        self.policy, self.right, self.row_cost = GraftPolicy(), right, row_cost
        self.random = random.Random(2)

    def run(self, steps: int, batch: int = 1, match: int = 3, room: int = LONGEST_GRAFT) -> list[int]:
        """Lengths chosen, step by step; 1.8 tokens a step without grafts."""
        lengths = []
        for _ in range(steps):
            length = self.policy.length(batch, 1.8, match, False, room)
            lengths.append(length)
            if length:
                accepted = 0
                while accepted < length and self.random.random() < self.right:
                    accepted += 1
                self.policy.saw_graft(match, False, length, accepted)
                self.policy.saw_step(batch, length, 1 + self.row_cost * length + self.random.uniform(-0.1, 0.1))
        return lengths


def test_grafts_are_tried_from_the_start_and_go_on_where_they_are_right() -> None:
    lengths = Calls(right=0.9, row_cost=0.03).run(400)
    assert lengths[0] > 0
    assert lengths[-100:].count(LONGEST_GRAFT) > 90


def test_grafts_that_are_wrong_are_only_probed_and_come_back_once_they_are_right() -> None:
    calls = Calls(right=0.02, row_cost=0.03)
    lengths = calls.run(2000)
    assert 0 < sum(length > 0 for length in lengths[-1000:]) <= 1000 / PROBE_EVERY + 1
    calls.right = 0.9
    assert calls.run(200 * PROBE_EVERY)[-100:].count(0) == 0


def test_grafts_are_shorter_where_a_row_costs_more_and_never_longer_than_there_is_room() -> None:
    cheap, dear = Calls(right=0.6, row_cost=0.01).run(800), Calls(right=0.6, row_cost=0.12).run(800)
    assert sum(cheap[-200:]) > 1.5 * sum(dear[-200:]) > 0
    assert max(Calls(right=0.9, row_cost=0.0).run(50, room=2)) == 2
    assert Calls(right=0.9, row_cost=0.0).run(50, room=0) == [0] * 50


def test_what_is_known_of_one_kind_of_match_says_nothing_of_another() -> None:
    calls = Calls(right=0.0, row_cost=0.03)
    assert calls.run(300, match=3)[-5:].count(0) >= 4
    assert calls.policy.length(1, 1.8, 5, False, LONGEST_GRAFT) > 0
    assert calls.policy.length(1, 1.8, 3, True, LONGEST_GRAFT) > 0


def test_one_slow_step_ends_no_grafts() -> None:
    calls = Calls(right=0.8, row_cost=0.03)
    before = calls.run(200)[-1]
    calls.policy.saw_step(1, before, 30.0)
    assert calls.policy.length(1, 1.8, 3, False, LONGEST_GRAFT) > 0
