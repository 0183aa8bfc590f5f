"""What a listener gets: bursts drawn from the acceptance, released by the pacer, judged gap by gap.

A mean under 20 ms is not enough: a step that keeps one token leaves a hole as long as the step. How many gaps stay
within the objective depends on the pacer, which comes in as a callable.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.plan.errors import PlanError

# Enough that a share near 99 % is good to about 0.3 points, and quick enough to search for a number of calls.
REPLIES = 40
REPLY_TOKENS = 80
# Replies a pacer may learn the rhythm from before it is judged: a service has been running for longer than that.
_WARM_UP_REPLIES = 4
_SEED = 20


@dataclass(frozen=True, slots=True)
class Arrival:
    """One burst of one reply.

    Attributes:
        at_s: seconds since the reply's request.
        tokens: tokens it holds, at least 1.
    """

    at_s: float
    tokens: int


# The pacer's curve: arrivals of one reply in, release time of each of its tokens out, in order.
Deliver = Callable[[Sequence[Arrival]], Sequence[float]]
# A fresh pacer; it may learn from one reply to the next.
Pacing = Callable[[], Deliver]


@dataclass(frozen=True, slots=True)
class Bursts:
    """How bursts come.

    Attributes:
        shares: probability of 1, 2, ... tokens per burst.
        step_s: time between two bursts.
        stall_s: the same for a step that also reads another call's prompt.
        stall_probability: share of steps that do.
    """

    shares: Sequence[float]
    step_s: float
    stall_s: float = 0.0
    stall_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """Gaps between delivered tokens, over all simulated replies.

    Attributes:
        within: share of gaps at or under the objective.
        mean_s, p99_s: of the gaps.
        starved_s_per_minute: time beyond the objective, per minute of token flow.
    """

    within: float
    mean_s: float
    p99_s: float
    starved_s_per_minute: float


def unpaced(arrivals: Sequence[Arrival]) -> list[float]:
    """Without a pacer: all tokens of a burst leave as it arrives."""
    return [arrival.at_s for arrival in arrivals for _ in range(arrival.tokens)]


def simulate(bursts: Bursts, pacing: Pacing, objective_s: float, replies: int = REPLIES) -> Delivered:
    """Delivered gaps of seeded replies; the same bursts give the same result.

    Raises:
        PlanError: the curve lost, added or reordered tokens, or released one before it arrived.
    """
    rng = random.Random(_SEED)
    deliver = pacing()
    gaps: list[float] = []
    for number in range(_WARM_UP_REPLIES + replies):
        arrivals = list(_reply(bursts, rng))
        released = deliver(arrivals)
        _check(arrivals, released)
        if number >= _WARM_UP_REPLIES:
            gaps += [later - earlier for earlier, later in zip(released, released[1:], strict=False)]
    gaps.sort()
    # Exact multiples of the objective must not fall over the edge by rounding.
    within = sum(gap <= objective_s + 1e-9 for gap in gaps) / len(gaps)
    starved = sum(max(0.0, gap - objective_s) for gap in gaps)
    return Delivered(within, sum(gaps) / len(gaps), gaps[int(0.99 * (len(gaps) - 1))], 60 * starved / sum(gaps))


def _reply(bursts: Bursts, rng: random.Random) -> Iterator[Arrival]:
    sizes = range(1, len(bursts.shares) + 1)
    now, left = 0.0, REPLY_TOKENS
    while left > 0:
        # Always two draws, so that plans which differ in one figure see the same luck.
        size, luck = rng.choices(sizes, bursts.shares)[0], rng.random()
        if left == REPLY_TOKENS:
            size = 1  # the step that reads the prompt has no draft to verify
        now += bursts.stall_s if luck < bursts.stall_probability else bursts.step_s
        yield Arrival(now, min(size, left))
        left -= size


def _check(arrivals: Sequence[Arrival], released: Sequence[float]) -> None:
    arrived = unpaced(arrivals)
    if len(released) != len(arrived):
        raise PlanError("pacer", f"released {len(released)} of {len(arrived)} tokens")
    in_order = all(earlier <= later for earlier, later in zip(released, released[1:], strict=False))
    if not in_order or any(out < came - 1e-9 for came, out in zip(arrived, released, strict=True)):
        raise PlanError("pacer", "released a token out of order or before it arrived")
