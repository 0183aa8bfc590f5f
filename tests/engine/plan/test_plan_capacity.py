from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plan.capacity import MOST_CALLS, Fit, Objective, calls_that_fit, delivered_at, kv_room_tokens
from engine.plan.delivery import REPLY_TOKENS, Arrival, Bursts, simulate, unpaced
from engine.plan.devices import find_device
from engine.plan.drafts import Draft, usual_draft
from engine.plan.errors import PlanError
from engine.plan.models import find_model
from engine.plan.roofline import Setup


@dataclass(frozen=True)
class Linear:
    """Step time that grows with calls."""

    base_s: float
    per_call_s: float
    prefill_s: float = 0.0

    def step_s(self, calls: int) -> float:
        return self.base_s + self.per_call_s * calls

    def prefill_step_s(self, calls: int) -> float:
        return self.step_s(calls) + self.prefill_s

    def ttft_s(self, calls: int) -> float | None:
        return None


def immediate():
    return unpaced


def evenly():
    """A curve that knows the whole reply: holds for 400 ms, then one token every 19 ms as far as they have come."""

    def deliver(arrivals: Sequence[Arrival]) -> list[float]:
        due, released = arrivals[0].at_s + 0.4, []
        for came in unpaced(arrivals):
            due = max(due + 0.019, came)
            released.append(due)
        return released

    return deliver


def test_unpaced_bursts_leave_one_gap_a_step_and_none_inside() -> None:
    gaps = simulate(Bursts((0.0, 0.0, 0.0, 1.0), 0.030), immediate, 0.020)
    # One token, then bursts of four: the last one is cut at the reply's end.
    steps = -(-(REPLY_TOKENS - 1) // 4)
    assert gaps.within == pytest.approx(1 - steps / (REPLY_TOKENS - 1))
    assert gaps.p99_s == pytest.approx(0.030)
    assert gaps.starved_s_per_minute == pytest.approx(60 * (0.030 - 0.020) / 0.030)


def test_a_step_of_exactly_the_objective_is_within_it() -> None:
    assert simulate(Bursts((1.0,), 0.020), immediate, 0.020).within == 1
    assert simulate(Bursts((1.0,), 0.0201), immediate, 0.020).within == 0


def test_a_curve_that_holds_makes_uneven_bursts_even() -> None:
    bursts = Bursts(usual_draft("medusa", tokens_per_step=2.6).burst_shares(), 0.030)
    assert simulate(bursts, immediate, 0.020).within < 0.7
    assert simulate(bursts, evenly, 0.020).within > 0.99


def test_stalls_of_other_callers_prompts_are_heard() -> None:
    calm = Bursts((1.0,), 0.010)
    assert simulate(calm, immediate, 0.020).within == 1
    disturbed = simulate(replace(calm, stall_s=0.050, stall_probability=0.1), immediate, 0.020)
    assert disturbed.within == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    "curve",
    [
        lambda arrivals: unpaced(arrivals)[:-1],
        lambda arrivals: [*unpaced(arrivals), 99.0],
        lambda arrivals: unpaced(arrivals)[::-1],
        lambda arrivals: [at - 0.001 for at in unpaced(arrivals)],
    ],
)
def test_a_curve_that_loses_adds_reorders_or_foresees_tokens_is_refused(curve) -> None:
    with pytest.raises(PlanError, match="pacer"):
        simulate(Bursts((0.5, 0.5), 0.030), lambda: curve, 0.020)


@given(st.floats(0.001, 0.2), st.floats(1.0, 3.0))
def test_longer_steps_never_help_without_a_pacer(step_s: float, factor: float) -> None:
    shares = usual_draft("medusa").burst_shares()
    short, long = (simulate(Bursts(shares, s), immediate, 0.020, 4) for s in (step_s, step_s * factor))
    assert long.within <= short.within
    assert long.mean_s >= short.mean_s - 1e-12


def test_calls_are_limited_by_each_of_the_three() -> None:
    plain, objective = Draft(), Objective(0.020)
    by_time = calls_that_fit(Linear(0.010, 0.001), plain, 10**6, 100, immediate, objective)
    assert by_time == Fit(10_000, 10, 10)
    assert (by_time.calls, by_time.limit) == (10, "step time")
    by_memory = calls_that_fit(Linear(0.010, 0.001), plain, 799, 100, immediate, objective)
    assert (by_memory.by_memory, by_memory.calls, by_memory.limit) == (7, 7, "memory")
    medusa = usual_draft("medusa", tokens_per_step=2.0)
    by_bursts = calls_that_fit(Linear(0.010, 0.001), medusa, None, 1, immediate, objective)
    assert (by_bursts.by_memory, by_bursts.by_step_time, by_bursts.by_delivery) == (None, 30, 10)
    assert (by_bursts.calls, by_bursts.limit) == (10, "bursts")


def test_nothing_fits_a_step_that_is_too_long_and_the_search_ends_where_nothing_limits() -> None:
    assert calls_that_fit(Linear(0.030, 0.0), Draft(), None, 1, immediate, Objective()).calls == 0
    assert calls_that_fit(Linear(0.001, 0.0), Draft(), None, 1, immediate, Objective()).calls == MOST_CALLS


@given(st.floats(0.001, 0.04), st.floats(1e-5, 0.01))
def test_the_step_time_limit_is_the_last_number_that_holds(base_s: float, per_call_s: float) -> None:
    timing = Linear(base_s, per_call_s)
    most = calls_that_fit(timing, Draft(), 0, 1, immediate, Objective()).by_step_time
    assert most == 0 or timing.step_s(most) <= 0.020
    assert most == MOST_CALLS or timing.step_s(most + 1) > 0.020


def test_turns_of_other_calls_disturb_more_the_more_there_are() -> None:
    timing, objective = Linear(0.015, 0.0, prefill_s=0.1), Objective(turn_interval_s=1.0)
    alone, crowd = (delivered_at(timing, Draft(), calls, immediate, objective) for calls in (1, 8))
    assert alone.within == 1
    assert crowd.within == pytest.approx(1 - 7 * 0.015, abs=0.03)


def test_room_is_what_weights_draft_and_reserve_leave() -> None:
    llama, l4 = find_model("llama-3-8b"), find_device("L4")
    setup = Setup(l4, llama)
    expected = (24e9 * 0.9 - llama.resident_bytes("bf16") - 1.5e9) // 131_072
    assert kv_room_tokens(setup) == expected
    assert kv_room_tokens(replace(setup, weights="fp8")) > 2 * expected
    assert kv_room_tokens(replace(setup, kv="fp8")) == pytest.approx(2 * expected, abs=2)
    heads = replace(setup, draft=usual_draft("medusa"))
    assert kv_room_tokens(heads) == pytest.approx(expected - 4 * 4096**2 * 2 / 131_072, abs=1)
    shortened = replace(setup, draft=usual_draft("medusa", vocabulary=32_000))
    assert kv_room_tokens(shortened) == pytest.approx(kv_room_tokens(heads) - 32_000 * 4096 * 2 / 131_072, abs=1)
    assert kv_room_tokens(Setup(l4, find_model("llama-3-70b"))) < 0


@pytest.mark.parametrize("change", [{"gap_s": 0.0}, {"share": 0.0}, {"share": 1.5}, {"turn_interval_s": float("inf")}])
def test_a_bad_objective_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(PlanError):
        Objective(**change)
