"""What the plots of a load are drawn from: distributions, and the course of the load second by second. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from service.call_report import FRAME_S, OBJECTIVE_S, spread_ms
from service.loadtest.figures import asked_within, corrected, held_at, window
from service.loadtest.record import WorkerResult
from service.loadtest.scenario import Scenario

# Finer and finer towards the end, where it matters: 0 to 99 %, to 99.9 %, to 99.99 %.
SHARES = (
    [n / 100 for n in range(100)] + [0.99 + n / 1e3 for n in range(1, 10)] + [0.999 + n / 1e4 for n in range(1, 11)]
)


def distributions(results: Sequence[WorkerResult], scenario: Scenario) -> dict[str, list[tuple[float, float]]]:
    """(share, milliseconds) pairs of each latency that was measured: the share of samples at or under it."""
    records = [record for result in results for record in result.records]
    turns = [turn for turn in asked_within(records, *window(results, scenario)) if turn.disorder() is None]
    gaps = [gap for turn in turns for gap in turn.gaps_s]
    samples = {
        "delivered_gap_ms": gaps,
        "delivered_gap_corrected_ms": corrected(gaps),
        "ttft_ms": [turn.ttft_s for turn in turns if turn.ttft_s is not None],
        "first_audio_ms": [turn.first_audio_after_s for turn in turns if turn.first_audio_after_s is not None],
        "frame_lateness_ms": [late for turn in turns for late in turn.frame_lateness_s],
        "barge_in_ms": [turn.silence_after_s for turn in turns if turn.silence_after_s is not None],
    }
    return {name: _quantiles(values) for name, values in samples.items() if values}


def _quantiles(samples_s: Sequence[float]) -> list[tuple[float, float]]:
    ordered = sorted(samples_s)
    known = [share for share in SHARES if share < 1 - 0.5 / len(ordered)]  # no share finer than one sample
    ranks = [(share, max(0, math.ceil(share * len(ordered)) - 1)) for share in known]
    pairs = [(round(share, 6), round(1000 * ordered[rank], 3)) for share, rank in ranks]
    return [*pairs, (1.0, round(1000 * ordered[-1], 3))]


def timeline(results: Sequence[WorkerResult]) -> list[dict[str, Any]]:
    """Second by second: calls held, and what the gaps and frames that came in it were like."""
    begun_s = min(result.begun_s for result in results)
    seconds = math.ceil(max(result.ended_s for result in results) - begun_s)
    records = [record for result in results for record in result.records]
    gaps: list[list[float]] = [[] for _ in range(seconds + 1)]
    late: list[list[float]] = [[] for _ in range(seconds + 1)]

    def slot(at_s: float) -> int:
        return min(seconds, max(0, int(at_s - begun_s)))

    for turn in (turn for record in records for turn in record.turns):
        times = turn.token_times_s
        for before, after in zip(times, times[1:], strict=False):
            gaps[slot(after)].append(after - before)
        for number, lateness in enumerate(turn.frame_lateness_s):
            late[slot((turn.first_audio_s or begun_s) + number * FRAME_S + lateness)].append(lateness)
    return [
        {
            "second": second,
            "calls": held_at(records, begun_s + second),
            "within_objective": _share(gaps[second]),
            "gap_p99_ms": spread_ms(gaps[second])["p99"],
            "lateness_p99_ms": spread_ms(late[second])["p99"],
        }
        for second in range(seconds)
    ]


def _share(gaps_s: Sequence[float]) -> float | None:
    return sum(gap <= OBJECTIVE_S for gap in gaps_s) / len(gaps_s) if gaps_s else None
