"""What is learned from steps."""

import pytest

from tts_adapter.pace_model import PaceModel


def learned(steps: list[tuple[float, int]]) -> PaceModel:
    model = PaceModel()
    for step_s, tokens in steps:
        model.observe_step(step_s, tokens)
    return model


def test_nothing_is_known_at_first() -> None:
    model = PaceModel()
    assert model.token_s is None
    assert not model.is_slow
    assert model.needed_slack_s == 0.0


def test_means() -> None:
    model = learned([(0.04, 1), (0.04, 3)] * 40)
    assert model.step_s == pytest.approx(0.04)
    assert model.token_s == pytest.approx(0.02)


def test_a_constant_engine_needs_no_slack_and_a_bursty_one_does() -> None:
    assert learned([(0.03, 2)] * 50).needed_slack_s == pytest.approx(0.0, abs=1e-9)
    assert learned([(0.03, 1), (0.03, 4)] * 50).needed_slack_s > 0.0


def test_runs_of_poor_acceptance_need_more_slack_than_alternation() -> None:
    alternating = learned([(0.03, 1), (0.03, 4)] * 48)
    runs = learned(([(0.03, 1)] * 6 + [(0.03, 4)] * 6) * 8)
    assert runs.needed_slack_s > 2 * alternating.needed_slack_s


@pytest.mark.parametrize(("step_s", "slow"), [(0.045, True), (0.021, True), (0.019, False)])
def test_slow_is_less_than_a_token_per_objective(step_s: float, slow: bool) -> None:
    assert learned([(step_s, 1)] * 50).is_slow is slow


def test_slow_is_said_only_beyond_doubt() -> None:
    assert not learned([(0.045, 1), (0.045, 4)]).is_slow


def test_one_stall_does_not_decide() -> None:
    model = learned([(0.02, 2)] * 100 + [(30.0, 1)])
    assert not model.is_slow


def test_old_steps_are_forgotten() -> None:
    model = learned([(0.1, 1)] * 500 + [(0.02, 2)] * 200)
    assert model.token_s == pytest.approx(0.01)


SLOW_OPENING = [(0.09, 2)] * 4 + [(0.03, 2)] * 20


def test_waiting_is_allowed_within_what_earlier_replies_left_over() -> None:
    model = PaceModel()
    assert model.wait_s(1, 0.04) == 0.0
    model.settle(SLOW_OPENING, 0.2, 0.2)
    assert model.wait_s(1, 0.04) > 0.0
    model.settle(SLOW_OPENING, 0.2, 2.0)
    assert model.wait_s(1, 0.04) == 0.0


def test_a_wait_is_what_earlier_replies_lacked_from_that_step_on() -> None:
    model = PaceModel()
    for _ in range(10):
        model.settle(SLOW_OPENING, 0.2, 0.2)
    assert model.wait_s(1, 0.04) == pytest.approx(3 * 0.09 - 2 * 2 * model.pace_s - 0.04)
    assert model.wait_s(3, 0.04) == pytest.approx(0.09 - 0.04)
    assert model.wait_s(4, 0.04) == 0.0
    assert model.wait_s(400, 0.04) == 0.0


def test_a_late_caller_is_allowed_for() -> None:
    model = PaceModel()
    for number in range(400):
        model.observe_lateness(0.0015 * (number % 16) / 15)
    assert 0.0184 < model.longest_gap_s < 0.0186
    assert model.pace_s == pytest.approx(model.longest_gap_s + 0.00075, abs=1e-4)
    model.observe_lateness(0.0018)
    assert model.longest_gap_s < 0.0182
    model.observe_lateness(5.0)
    assert model.longest_gap_s == pytest.approx(0.018)


def test_the_safe_gap_allows_for_all_but_the_latest_hundredth() -> None:
    model = PaceModel()
    assert model.safe_gap_s == pytest.approx(0.019)
    for number in range(256):
        model.observe_lateness(0.030 if number % 100 == 0 else 0.004)
    assert model.safe_gap_s == pytest.approx(0.016)
    for _ in range(256):
        model.observe_lateness(0.015)
    assert model.safe_gap_s == pytest.approx(0.012)


@pytest.mark.parametrize(("step_s", "reserve_s"), [(0.019, 0.0), (0.015, 0.0), (0.014, 0.0005), (0.010, 0.001)])
def test_a_quick_engine_leaves_time_for_the_way_to_the_listener(step_s: float, reserve_s: float) -> None:
    model = learned([(step_s, 1)] * 50)
    assert PaceModel().longest_gap_s - model.longest_gap_s == pytest.approx(reserve_s)
    assert PaceModel().safe_gap_s - model.safe_gap_s == pytest.approx(2 * reserve_s)
