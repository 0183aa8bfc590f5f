"""Lengths of grafts by what they bring and cost, on an imagined machine: no clock, no model."""

import random

from engine.tree.graft_policy import LONGEST_GRAFT, PROBE_EVERY, GraftPolicy


class Calls:
    """Every grafted token is as likely to be right, and adds its share to the step."""

    def __init__(self, right: float, row_cost: float, beyond: float = 1.0) -> None:
        self.policy, self.right, self.row_cost, self.beyond = GraftPolicy(), right, row_cost, beyond
        self.random = random.Random(2)

    def run(self, steps: int, batch: int = 1, match: int = 3, room: int = LONGEST_GRAFT) -> list[int]:
        """Lengths chosen, step by step; 1.8 tokens a step without grafts."""
        lengths = []
        for _ in range(steps):
            length = self.policy.length(batch, 1.8, match, False, self.times(room))
            lengths.append(length)
            if length:
                accepted = 0
                while accepted < length and self.random.random() < self.right:
                    accepted += 1
                self.policy.saw_graft(match, False, length, accepted)
                self.policy.saw_step(batch, self.beyond + self.random.uniform(-0.1, 0.1))
        return lengths

    def times(self, room: int) -> list[float]:
        """As the rows let expect."""
        return [1 + self.row_cost * length for length in range(1, room + 1)]


def test_grafts_are_tried_from_the_start_and_go_on_where_they_are_right() -> None:
    lengths = Calls(right=0.9, row_cost=0.03).run(400)
    assert lengths[0] > 0
    assert lengths[-100:].count(LONGEST_GRAFT) > 90


def test_grafts_that_are_wrong_are_only_probed_and_come_back_once_they_are_right() -> None:
    calls = Calls(right=0.02, row_cost=0.03)
    lengths = calls.run(2000)
    assert 1000 // PROBE_EVERY <= sum(length > 0 for length in lengths[-1000:]) < 100
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
    assert calls.policy.length(1, 1.8, 5, False, calls.times(LONGEST_GRAFT)) > 0
    assert calls.policy.length(1, 1.8, 3, True, calls.times(LONGEST_GRAFT)) > 0


def test_one_slow_step_ends_no_grafts() -> None:
    calls = Calls(right=0.8, row_cost=0.03)
    assert calls.run(200)[-1] > 0
    calls.policy.saw_step(1, 30.0)
    assert calls.policy.length(1, 1.8, 3, False, calls.times(LONGEST_GRAFT)) > 0


def test_steps_that_take_longer_than_their_rows_let_expect_end_grafts_that_pay_too_little() -> None:
    assert Calls(right=0.4, row_cost=0.01).run(600)[-100:].count(0) < 10
    assert Calls(right=0.4, row_cost=0.01, beyond=1.45).run(600)[-100:].count(0) > 90


def test_what_grafts_bring_counts_for_less_where_many_calls_wait_for_the_step() -> None:
    policy = GraftPolicy()
    times = [1 + 0.3 * length for length in range(1, LONGEST_GRAFT + 1)]
    lengths = [policy.length(batch, 1.8, 3, False, times) for batch in (1, 8)]
    assert lengths[0] > lengths[1] == 0
