"""The optimum is one, and the figures are what they say."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.bench.replay import best, measure, optimum, paced
from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel

TICK = 0.010


def every_schedule(came: list[float], first: float, horizon: int) -> list[tuple[float, int]]:
    """Starved time and late gaps of every schedule on a grid of 10 ms."""
    found = []
    for steps in itertools.product(range(horizon), repeat=len(came) - 1):
        time, starved, late, possible = first, 0.0, 0, True
        for arrival, step in zip(came[1:], steps, strict=True):
            time += step * TICK
            possible = possible and time >= arrival - 1e-9
            starved += max(0.0, step * TICK - 0.020)
            late += step * TICK > 0.020 + 1e-9
        if possible:
            found.append((round(starved, 6), late))
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2)), min_size=1, max_size=2), st.integers(0, 3))
def test_no_schedule_beats_the_optimum(steps: list[tuple[int, int]], hold: int) -> None:
    bursts, time = [(0.0, 1)], 0.0
    for ticks, count in steps:
        time += ticks * TICK
        bursts.append((time, count))
    came = [arrival for arrival, count in bursts for _ in range(count)]
    starved, late = optimum(tuple(bursts), hold * TICK, 0.020)
    assert (round(starved, 6), late) == min(every_schedule(came, hold * TICK, 12))


def test_figures_of_a_known_release() -> None:
    reply = ((0.0, 1), (0.05, 3))
    outcome = measure([reply], [[0.01, 0.05, 0.07, 0.075]], 0.020)
    assert outcome.share == pytest.approx(2 / 3)
    assert outcome.starved_s == pytest.approx(0.020)
    assert outcome.starved_s_per_minute == pytest.approx(60 * 0.020 / 0.065)
    assert outcome.first_delay_s == pytest.approx(0.01)
    assert outcome.mean_delay_s == pytest.approx((0.01 + 0.0 + 0.02 + 0.025) / 4)
    assert outcome.p99_gap_s == pytest.approx(0.04)
    assert outcome.free_replies == 0.0
    assert best([reply], [[0.01, 0.05, 0.07, 0.075]], 0.020) == pytest.approx((1 - 1 / 3, 0.02))


def test_the_pacer_is_run_with_a_late_caller_too() -> None:
    reply = tuple((0.04 * index, 3) for index in range(20))
    punctual = paced(reply, PaceModel(), PacingOptions())
    late = paced(reply, PaceModel(), PacingOptions(), lambda: 0.001)
    assert len(punctual) == len(late) == 60
    assert late[-1] != punctual[-1]
