"""Admission: what is learned from steps, and when a call is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.admission import Admission, StepTimes


def learned(*sizes: tuple[int, float], tokens: int = 2) -> StepTimes:
    times = StepTimes()
    for batch, step_s in sizes:
        for _ in range(400):
            times.observe(batch, step_s, tokens)
    return times


def test_a_size_not_seen_yet_is_predicted_by_the_line() -> None:
    times = learned((1, 0.030), (4, 0.036))
    assert times.predicted_gap_s(8) == pytest.approx(0.044 / 2, rel=0.01)


def test_with_one_size_known_the_step_is_taken_as_constant() -> None:
    assert learned((2, 0.030)).predicted_gap_s(16) == pytest.approx(0.015, rel=0.01)


def test_nothing_is_predicted_before_the_first_step() -> None:
    assert StepTimes().predicted_gap_s(1) is None
    assert Admission(4, 0.020).refusal(0) is None


@given(st.lists(st.tuples(st.integers(1, 32), st.floats(0.001, 0.5)), min_size=1, max_size=40), st.integers(1, 64))
def test_more_replies_at_a_time_never_look_faster(steps: list[tuple[int, float]], batch: int) -> None:
    times = StepTimes()
    for size, step_s in steps:
        times.observe(size, step_s, 1)
    fewer, more = times.predicted_gap_s(batch), times.predicted_gap_s(batch + 1)
    assert fewer is not None
    assert more is not None
    assert fewer <= more


def test_a_call_that_would_break_the_objective_is_refused_and_others_are_not() -> None:
    admission = Admission(32, 0.020)
    for batch in (1, 2, 3):
        for _ in range(400):
            admission.step_times.observe(batch, 0.030 + 0.004 * batch, 2)
    # 30 + 4 n ms a step, 2 tokens: two calls stay at 19 ms, three reach 21.
    assert [admission.refusal(calls) for calls in (0, 1, 2, 8)] == [None, None, "objective", "objective"]
    assert admission.refusal(32) == "capacity"


def test_the_first_call_is_taken_even_where_the_engine_never_meets_the_objective() -> None:
    admission = Admission(32, 0.020)
    for _ in range(400):
        admission.step_times.observe(1, 0.100, 1)
    assert admission.refusal(0) is None
    assert admission.refusal(1) == "objective"


def test_calls_that_mostly_listen_leave_room_for_more() -> None:
    admission = Admission(64, 0.020)
    for batch in (1, 4):
        for _ in range(400):
            admission.step_times.observe(batch, 0.030 + 0.002 * batch, 2)
    assert admission.refusal(20) == "objective"
    for _ in range(400):
        admission.observe_load(20, 2)
    assert admission.refusal(20) is None
