"""Record lags, and the slack that costs least."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_adapter.lags import cheapest_slack_s, record_lags

SLO = 0.020
Steps = list[tuple[float, int]]
steps = st.lists(st.tuples(st.floats(0.001, 0.2), st.integers(1, 5)), max_size=30)


def heard(reply: Steps, slack_s: float) -> tuple[float, int]:
    """Starved time and late gaps of a listener who begins with that slack and hears a token per SLO while there is one."""
    starved, late = 0.0, 0
    for step_s, tokens in reply:
        slack_s -= step_s
        if slack_s < -1e-9:
            starved, late, slack_s = starved - slack_s, late + 1, 0.0
        slack_s += SLO * tokens
    return starved, late


@given(steps, st.floats(0, 0.5))
def test_lags_tell_what_is_heard_with_any_slack(reply: Steps, slack_s: float) -> None:
    above = [lag for lag in record_lags(reply, SLO) if lag > slack_s + 1e-9]
    starved, late = heard(reply, slack_s)
    assert late == len(above)
    assert starved == pytest.approx(above[-1] - slack_s if above else 0.0, abs=1e-6)


@given(st.lists(steps, min_size=1, max_size=6), st.floats(0, 0.2), st.floats(0, 0.1))
def test_no_other_slack_is_cheaper(replies: list[Steps], slack_s: float, gap_worth_s: float) -> None:
    lags = [[lag for lag in record_lags(reply, SLO) if lag > slack_s] for reply in replies]

    def cost(with_slack_s: float) -> float:
        ends = [heard(reply, with_slack_s) for reply in replies]
        return sum(with_slack_s - slack_s + starved + gap_worth_s * late for starved, late in ends)

    chosen = cost(cheapest_slack_s(lags, slack_s, gap_worth_s))
    assert all(chosen <= cost(other) + 1e-6 for other in [slack_s, *(lag for reply in lags for lag in reply)])


def test_without_worth_nothing_is_waited_for() -> None:
    assert cheapest_slack_s([[0.05], [0.1, 0.2], []], 0.04, 0.0) == 0.04
    assert cheapest_slack_s([[0.05, 0.06, 0.07]], 0.04, 0.0) == pytest.approx(0.04)


def test_what_all_replies_lack_is_waited_for_at_once() -> None:
    assert cheapest_slack_s([[0.05, 0.09], [0.05, 0.09]], 0.04, 0.001) == 0.09
