"""How many calls fit: by memory, by mean TIT, and by the gaps a listener gets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.plan.delivery import Bursts, Delivered, Pacing, simulate
from engine.plan.drafts import Draft
from engine.plan.errors import PlanError, require_positive
from engine.plan.roofline import Setup
from engine.plan.timing import Timing

# No engine batches more than this; it ends the search where memory is unknown.
MOST_CALLS = 1024


@dataclass(frozen=True, slots=True)
class Objective:
    """What counts as fluent.

    Attributes:
        gap_s: the delivered gap to keep.
        share: least share of gaps that keep it.
        turn_interval_s: each call begins a turn this often; its prompt lengthens one step of everybody.
    """

    gap_s: float = 0.020
    share: float = 0.99
    turn_interval_s: float = 12.0

    def __post_init__(self) -> None:
        require_positive("objective", self.gap_s)
        require_positive("turn-interval", self.turn_interval_s)
        if not 0 < self.share <= 1:
            raise PlanError("slo-share", f"must be above 0 and at most 1, got {self.share:g}")


@dataclass(frozen=True, slots=True)
class Fit:
    """Most calls that generate at the same moment, under each limit.

    Attributes:
        by_memory: keys and values of all calls fit; None where the memory is not known.
        by_step_time: mean TIT within the objective.
        by_delivery: the asked share of delivered gaps within the objective; searched up to the other two limits.
    """

    by_memory: int | None
    by_step_time: int
    by_delivery: int

    @property
    def calls(self) -> int:
        """All limits kept."""
        fluent = min(self.by_step_time, self.by_delivery)
        return fluent if self.by_memory is None else min(fluent, self.by_memory)

    @property
    def limit(self) -> Literal["memory", "step time", "bursts"]:
        """What stops one more call."""
        if self.by_memory is not None and self.by_memory == self.calls:
            return "memory"
        return "step time" if self.by_step_time == self.calls else "bursts"


def kv_room_tokens(setup: Setup) -> int:
    """Tokens whose keys and values fit beside weights and draft; below 0 where the weights alone do not fit."""
    model, gpus = setup.model, setup.tensor_parallel
    weights = (model.resident_bytes(setup.weights) + setup.draft.resident_bytes(model)) / gpus
    room = setup.device.memory_bytes * setup.memory_utilization - weights - setup.reserve_bytes
    return int(room // setup.kv_bytes_per_token)


def delivered_at(timing: Timing, draft: Draft, calls: int, pacing: Pacing, objective: Objective) -> Delivered:
    """What one of `calls` listeners gets while the others begin turns of their own."""
    step_s = timing.step_s(calls)
    stalls = min(1.0, (calls - 1) * step_s / objective.turn_interval_s)
    bursts = Bursts(draft.burst_shares(), step_s, timing.prefill_step_s(calls), stalls)
    return simulate(bursts, pacing, objective.gap_s)


def calls_that_fit(
    timing: Timing, draft: Draft, room_tokens: int | None, tokens_per_call: int, pacing: Pacing, objective: Objective
) -> Fit:
    """The number of calls under each limit."""
    by_memory = None if room_tokens is None else max(0, room_tokens // tokens_per_call)
    most = MOST_CALLS if by_memory is None else min(MOST_CALLS, by_memory)

    def fluent_on_average(calls: int) -> bool:
        return timing.step_s(calls) / draft.tokens_per_step <= objective.gap_s

    def fluent(calls: int) -> bool:
        return delivered_at(timing, draft, calls, pacing, objective).within >= objective.share

    by_step_time = _most(MOST_CALLS, fluent_on_average)
    return Fit(by_memory, by_step_time, _most(min(by_step_time, most), fluent))


def _most(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest n in 0..limit with holds(n); n = 0 always holds, and what holds for n holds below it."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
