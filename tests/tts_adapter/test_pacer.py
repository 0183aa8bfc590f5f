"""Nothing lost, doubled, reordered or early; even; bounded. In virtual time."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel
from tts_adapter.pacer import Pacer

OPTIONS = PacingOptions()


def released(
    bursts: list[tuple[float, int]], model: PaceModel | None = None, options: PacingOptions = OPTIONS
) -> list[float]:
    """Release time of every token, for a punctual caller."""
    pacer: Pacer[int] = Pacer(options, model)
    times: list[float] = []
    for position, (time, count) in enumerate([*bursts, (math.inf, 0)]):
        while (wakeup := pacer.next_wakeup()) is not None and wakeup < time:
            times += [wakeup] * len(pacer.pop_ready(wakeup))
        if position < len(bursts):
            pacer.push([0] * count, time)
            if position == len(bursts) - 1:
                pacer.flush(time)
            times += [time] * len(pacer.pop_ready(time))
    return times


def steady(step_s: float, sizes: list[int]) -> list[tuple[float, int]]:
    return [(step_s * index, size) for index, size in enumerate(sizes)]


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in zip(times, times[1:], strict=False)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.one_of(st.floats(0, 0.2), st.just(0.0), st.floats(0, 3))), max_size=60),
    st.lists(st.floats(0, 0.5), min_size=200, max_size=200),
    st.sampled_from([OPTIONS, PacingOptions(max_first_hold_ms=0), PacingOptions(max_buffered_tokens=5)]),
)
def test_nothing_is_lost_doubled_reordered_or_early(
    pushes: list[tuple[int, float]], waits: list[float], options: PacingOptions
) -> None:
    pacer: Pacer[int] = Pacer(options)
    now, pushed = 0.0, 0
    out: list[int] = []
    waiting = iter(waits)
    for count, gap in pushes:
        pacer.push(range(pushed, pushed + count), now)
        pushed += count
        out += pacer.pop_ready(now)
        assert len(out) <= pushed
        assert pacer.pending == pushed - len(out)
        assert pacer.pending <= options.max_buffered_tokens
        until = now + gap
        while (wakeup := pacer.next_wakeup()) is not None and wakeup <= until:
            now = max(now, wakeup) + next(waiting, 0.0)
            ready = pacer.pop_ready(now)
            assert ready
            out += ready
        now = max(now, until)
    pacer.flush(now)
    while (wakeup := pacer.next_wakeup()) is not None:
        now = max(now, wakeup)
        out += pacer.pop_ready(now)
    assert out == list(range(pushed))
    assert pacer.pending == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0.002, 0.4), st.integers(1, 6)), min_size=1, max_size=50), st.booleans())
def test_the_first_token_is_held_no_longer_than_allowed(steps: list[tuple[float, int]], learned: bool) -> None:
    model = PaceModel()
    if learned:
        for step_s, count in steps:
            model.observe_step(step_s, count)
    bursts, time = [], 0.0
    for step_s, count in steps:
        bursts.append((time, count))
        time += step_s
    assert released(bursts, model)[0] <= OPTIONS.max_first_hold_ms / 1000 + 1e-9
    assert released(bursts, model, PacingOptions(max_first_hold_ms=0))[0] == 0.0


def test_a_plain_fast_engine_is_not_held_at_all() -> None:
    model = PaceModel()
    released(steady(0.012, [1] * 60), model)
    times = released(steady(0.012, [1] * 60), model)
    assert times[0] == 0.0
    assert max(gaps(times)) <= 0.018 + 1e-9


def test_bursts_become_even() -> None:
    model = PaceModel()
    rng = random.Random(7)
    sizes = [rng.choice([1, 2, 3, 4, 5]) for _ in range(80)]
    released(steady(0.04, sizes), model)
    times = released(steady(0.04, sizes), model)
    own = gaps(times)
    assert max(own) <= 0.020 + 1e-9
    assert sum(gap < 0.004 for gap in own) == 0


def test_a_slow_engine_is_followed_at_its_mean_rate() -> None:
    model = PaceModel()
    sizes = [1, 2] * 60
    released(steady(0.045, sizes), model)
    own = gaps(released(steady(0.045, sizes), model))[5:-5]
    assert sum(own) / len(own) == pytest.approx(0.030, rel=0.02)
    assert max(own) <= 0.0361
    assert min(own) >= 0.0239


def test_a_plain_slow_engine_leaves_no_delay() -> None:
    model = PaceModel()
    released(steady(0.045, [1] * 40), model)
    times = released(steady(0.045, [1] * 40), model)
    assert times == pytest.approx([0.045 * index for index in range(40)], abs=0.002)


def test_delay_does_not_build_up_on_an_engine_far_above_the_rate() -> None:
    bursts = steady(0.01, [4] * 2000)
    times = released(bursts)
    arrived = [time for time, count in bursts for _ in range(count)]
    delays = [left - came for left, came in zip(times, arrived, strict=True)]
    assert max(delays) < 0.4
    assert max(gaps(times)) <= 0.020 + 1e-9


def test_above_its_limit_the_buffer_lets_the_oldest_go() -> None:
    pacer: Pacer[int] = Pacer(PacingOptions(max_buffered_tokens=10))
    pacer.push(range(25), 1.0)
    assert pacer.next_wakeup() == 1.0
    assert pacer.pop_ready(1.0) == list(range(15))
    assert pacer.pending == 10


def test_flush_ends_the_hold_and_releases_the_rest_evenly() -> None:
    pacer: Pacer[str] = Pacer()
    model = pacer.model
    for size in [1, 1, 1, 1, 6, 6, 6, 6] * 20:
        model.observe_step(0.05, size)
    pacer.push(["a", "b", "c"], 2.0)
    assert pacer.pop_ready(2.0) == []
    pacer.flush(2.01)
    assert pacer.next_wakeup() == 2.01
    assert pacer.pop_ready(2.01) == ["a"]
    assert pacer.next_wakeup() == pytest.approx(2.028)
    assert pacer.pop_ready(2.028) == ["b"]
    assert pacer.pop_ready(2.046) == ["c"]
    assert pacer.next_wakeup() is None


def test_flush_ends_a_wait_for_more_tokens_in_a_late_gap() -> None:
    model = PaceModel()
    for size in [1, 3, 4, 4] * 20:
        model.observe_step(0.045, size)
    model.settle([(0.12, 1)] * 20, 1.0, 1.0)
    pacer: Pacer[str] = Pacer(OPTIONS, model)
    pacer.push(["a"], 0.0)
    assert pacer.pop_ready(0.12) == ["a"]
    pacer.push(["b"], 0.2)
    assert pacer.pop_ready(0.2) == []
    pacer.flush(0.21)
    assert pacer.pop_ready(0.21) == ["b"]


def test_a_late_caller_makes_up_little_by_little() -> None:
    pacer: Pacer[int] = Pacer()
    pacer.push(range(20), 0.0)
    pacer.flush(0.0)
    assert pacer.pop_ready(0.0) == [0]
    assert pacer.pop_ready(0.020) == [1]
    assert pacer.next_wakeup() == pytest.approx(0.036)
    assert pacer.pop_ready(0.5) == [2]
    assert pacer.next_wakeup() == pytest.approx(0.509)


def test_reset_forgets_the_reply_and_keeps_the_rhythm() -> None:
    pacer: Pacer[int] = Pacer()
    for index in range(20):
        pacer.push([index, index], 0.03 * index)
        pacer.pop_ready(0.03 * index)
    steps = pacer.model.steps
    assert steps > 10
    pacer.reset()
    assert pacer.pending == 0
    assert pacer.next_wakeup() is None
    assert pacer.model.steps == steps
    pacer.push([7], 100.0)
    pacer.flush(100.0)
    assert pacer.pop_ready(100.0) == [7]


def test_pushes_in_the_same_instant_are_one_step() -> None:
    model = PaceModel()
    pacer: Pacer[int] = Pacer(OPTIONS, model)
    for index in range(10):
        pacer.push([0], 0.03 * index)
        pacer.push([0, 0], 0.03 * index + 0.0001)
    pacer.flush(1.0)
    assert model.steps == 9
    assert model.token_s == pytest.approx(0.010)


def test_the_gap_keeps_clear_of_the_objective_by_what_the_caller_is_late() -> None:
    model = PaceModel()
    rng = random.Random(3)
    sizes = [rng.choice([1, 2, 3, 4]) for _ in range(120)]
    pacer: Pacer[int] = Pacer(OPTIONS, model)
    times: list[float] = []
    for position, (time, count) in enumerate([*steady(0.045, sizes), (math.inf, 0)]):
        while (wakeup := pacer.next_wakeup()) is not None and wakeup < time:
            now = wakeup + rng.uniform(0, 0.0015)
            times += [now] * len(pacer.pop_ready(now))
        if position < len(sizes):
            pacer.push([0] * count, time)
    own = [gap for gap in gaps(times)[10:] if gap <= 0.0225]
    assert sum(gap > 0.020 for gap in own) <= 0.01 * len(own)


@pytest.mark.parametrize("field", ["target_gap_ms", "slo_ms", "max_first_hold_ms"])
def test_options_refuse_what_makes_no_sense(field: str) -> None:
    with pytest.raises(ValueError, match=field if field != "slo_ms" else "slo_ms"):
        PacingOptions.model_validate({field: -1})


def test_the_target_may_not_exceed_the_objective() -> None:
    with pytest.raises(ValueError, match="target_gap_ms"):
        PacingOptions(target_gap_ms=25)


def test_a_busy_caller_keeps_the_objective_with_tokens_in_hand() -> None:
    rng = random.Random(5)
    model = PaceModel()
    times: list[float] = []
    for _ in range(40):
        pacer: Pacer[int] = Pacer(OPTIONS, model)
        start = len(times)
        for position, (time, count) in enumerate([*steady(0.03, [3] * 8), (math.inf, 0)]):
            while (wakeup := pacer.next_wakeup()) is not None and wakeup < time:
                now = max(wakeup + rng.uniform(0, 0.005), times[-1] if len(times) > start else 0.0)
                times += [now] * len(pacer.pop_ready(now))
            if position < 8:
                pacer.push([0] * count, time)
                if position == 7:
                    pacer.flush(time)
    own = [gap for at in range(24, len(times), 24) for gap in gaps(times[at : at + 24])]
    assert sum(gap > 0.020 for gap in own) <= 0.02 * len(own)
