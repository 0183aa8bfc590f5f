"""The pacer run over a trace in virtual time, the best that is possible, and what both amount to."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tts_adapter.bench.traces import Reply
from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel
from tts_adapter.pacer import Pacer

_TOLERANCE_S = 1e-6


def arrivals(reply: Reply) -> list[float]:
    """When each token came."""
    return [time for time, count in reply for _ in range(count)]


def paced(
    reply: Reply, model: PaceModel, options: PacingOptions, lateness_s: Callable[[], float] = lambda: 0.0
) -> list[float]:
    """When each token is released by a caller that wakes up `lateness_s()` late.

    Raises:
        AssertionError: the pacer lost, doubled, reordered or anticipated a token.
    """
    pacer: Pacer[int] = Pacer(options, model)
    came = arrivals(reply)
    released: list[float] = []
    pushed = 0
    for position, (time, count) in enumerate(reply):
        _release_until(pacer, time, came, released, lateness_s)
        pacer.push(range(pushed, pushed + count), time)
        pushed += count
        if position == len(reply) - 1:
            pacer.flush(time)
        _take(pacer, time, came, released)
    _release_until(pacer, math.inf, came, released, lateness_s)
    assert len(released) == len(came), "tokens were lost"
    return released


def _release_until(
    pacer: Pacer[int], end: float, came: list[float], released: list[float], lateness_s: Callable[[], float]
) -> None:
    while (wakeup := pacer.next_wakeup()) is not None:
        now = max(wakeup + lateness_s(), released[-1] if released else 0.0)
        if now >= end:
            return
        _take(pacer, now, came, released)


def _take(pacer: Pacer[int], now: float, came: list[float], released: list[float]) -> None:
    for token in pacer.pop_ready(now):
        assert token == len(released), "tokens were doubled, lost or out of order"
        assert came[token] <= now, "a token was released before it came"
        released.append(now)


def optimum(reply: Reply, first_release: float, slo_s: float) -> tuple[float, int]:
    """Least starved time of any schedule that knows the future and starts at `first_release`, and the fewest late gaps
    that it takes.

    Token i comes at a_i and can be heard without starving from first_release + i * slo on; what a_i is later than that
    must be starved before it. The largest such lag is enough, and can all be spent in the first gap: one late gap.

    A caller whose timers are late by up to L, nobody knows by how much, has to aim L early to be sure of a gap. Its
    gaps are then SLO - L/2 on average, and that is what to give as `slo_s` for the best that such a caller can do.
    """
    lag = max(came - first_release - index * slo_s for index, came in enumerate(arrivals(reply)))
    return (lag, 1) if lag > _TOLERANCE_S else (0.0, 0)


@dataclass(frozen=True)
class Outcome:
    """Many replies, released somehow.

    Attributes:
        share: of gaps within the SLO.
        starved_s_per_minute: starved time per minute of released speech.
        p50_gap_s: median gap.
        p99_gap_s: 99th percentile.
        free_replies: share of replies without any late gap.
        first_delay_s: mean time that the first token was held.
        mean_delay_s: mean time that a token was held.
        starved_s: starved time in total.
    """

    share: float
    starved_s_per_minute: float
    p50_gap_s: float
    p99_gap_s: float
    free_replies: float
    first_delay_s: float
    mean_delay_s: float
    starved_s: float


def measure(replies: Sequence[Reply], releases: Sequence[Sequence[float]], slo_s: float) -> Outcome:
    """What the listeners of `releases` heard."""
    gaps: list[float] = []
    free, length_s, first, delay, tokens = 0, 0.0, 0.0, 0.0, 0
    for reply, released in zip(replies, releases, strict=True):
        own = [after - before for before, after in zip(released, released[1:], strict=False)]
        free += all(gap <= slo_s + _TOLERANCE_S for gap in own)
        gaps += own
        came = arrivals(reply)
        length_s += released[-1] - released[0]
        first += released[0] - came[0]
        delay += sum(released) - sum(came)
        tokens += len(came)
    gaps.sort()
    starved = sum(gap - slo_s for gap in gaps if gap > slo_s + _TOLERANCE_S)
    return Outcome(
        share=sum(gap <= slo_s + _TOLERANCE_S for gap in gaps) / len(gaps),
        starved_s_per_minute=60 * starved / length_s,
        p50_gap_s=gaps[len(gaps) // 2],
        p99_gap_s=gaps[math.ceil(0.99 * len(gaps)) - 1],
        free_replies=free / len(replies),
        first_delay_s=first / len(replies),
        mean_delay_s=delay / tokens,
        starved_s=starved,
    )


def best(replies: Sequence[Reply], releases: Sequence[Sequence[float]], slo_s: float) -> tuple[float, float]:
    """Share within the SLO and starved seconds of the optimum that starts each reply when `releases` does."""
    found = [optimum(reply, released[0], slo_s) for reply, released in zip(replies, releases, strict=True)]
    gaps = sum(len(released) - 1 for released in releases)
    return 1 - sum(late for _, late in found) / gaps, sum(starved for starved, _ in found)
