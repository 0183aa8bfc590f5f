"""From what the callers saw to the figures of a load. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from service.call_report import OBJECTIVE_S, TurnTimes, spread_ms, starved_s
from service.loadtest.record import CallRecord, WorkerResult
from service.loadtest.scenario import Scenario

OUTCOMES = ("done", "hung_up", "refused", "lost", "failed", "unfinished")


def figures(results: Sequence[WorkerResult], scenario: Scenario) -> dict[str, Any]:
    """Every figure of a load by name. Replies asked for during the ramp count in `calls` alone.

    What was not measured is None. Latencies count from the time at which the caller was due to speak; `ttft_sent_ms`
    counts from when the text was sent, for comparison.
    """
    records = [record for result in results for record in result.records]
    since_s, until_s = window(results, scenario)
    asked = asked_within(records, since_s, until_s)
    turns = [turn for turn in asked if turn.disorder() is None]
    return {
        "calls": _calls(records, since_s, until_s),
        "ready_ms": spread_ms([r.ready_s - r.due_s for r in records if r.ready_s is not None and r.due_s >= since_s]),
        **_replies(turns, until_s - since_s),
        "disordered": dict(Counter(why for turn in asked if (why := turn.disorder()) is not None)),
        "output_after_end": sum(turn.after_end for turn in asked),
        "faults": dict(Counter(fault for record in records for fault in record.faults)),
        "client": _client(results),
    }


def window(results: Sequence[WorkerResult], scenario: Scenario) -> tuple[float, float]:
    """From when to when what happens counts: after the ramp, in every process."""
    begun_s = [result.begun_s for result in results]
    return max(begun_s) + scenario.ramp_s, min(begun_s) + scenario.ramp_s + scenario.duration_s


def asked_within(records: Iterable[CallRecord], since_s: float, until_s: float) -> list[TurnTimes]:
    """The replies to what was said in that time."""
    return [t for record in records for t in record.turns if t.asked_s is not None and since_s <= t.asked_s < until_s]


def _replies(turns: Sequence[TurnTimes], window_s: float) -> dict[str, Any]:
    gaps = [gap for turn in turns for gap in turn.gaps_s]
    tokens, frames = sum(len(t.token_times_s) for t in turns), sum(len(t.frame_lateness_s) for t in turns)
    talking_s = math.fsum(
        t.last_output_s - t.sent_s for t in turns if t.sent_s is not None and t.last_output_s is not None
    )
    return {
        "replies": len(turns),
        "reasons": dict(Counter(turn.reason or "unfinished" for turn in turns)),
        "replies_at_a_time": round(talking_s / window_s, 2),
        "tokens_per_s": round(tokens / window_s, 1),
        "ttft_ms": spread_ms(_known(turn.ttft_s for turn in turns)),
        "ttft_sent_ms": spread_ms([t.token_times_s[0] - t.sent_s for t in turns if t.token_times_s and t.sent_s]),
        "delivered_gap_ms": spread_ms(gaps),
        "delivered_gap_corrected_ms": spread_ms(corrected(gaps)),
        "within_objective": sum(gap <= OBJECTIVE_S for gap in gaps) / len(gaps) if gaps else None,
        "starved_ms_per_minute": round(60_000 * starved_s(gaps) / talking_s, 2) if gaps and talking_s else None,
        "first_audio_ms": spread_ms(_known(turn.first_audio_after_s for turn in turns)),
        "frames_per_s": round(frames / window_s, 1),
        "frame_lateness_ms": spread_ms([late for turn in turns for late in turn.frame_lateness_s]),
        "underruns": sum(turn.playback.underruns for turn in turns) if frames else None,
        "silence_ms": round(1000 * math.fsum(turn.playback.silence_s for turn in turns), 1) if frames else None,
        "barge_in_ms": spread_ms(_known(turn.silence_after_s for turn in turns)),
    }


def corrected(gaps_s: Iterable[float]) -> list[float]:
    """Gaps as they would have been sampled had the tokens come on time: one of 100 ms stands for 100, 80, 60, 40, 20.

    A long gap swallows the tokens that should have come in it; HdrHistogram corrects for coordinated omission the same
    way, from the expected interval.
    """
    samples: list[float] = []
    for gap in gaps_s:
        samples.append(gap)
        for missed in range(1, int(gap / OBJECTIVE_S)):
            samples.append(gap - missed * OBJECTIVE_S)
    return samples


def held_within(records: Iterable[CallRecord], since_s: float, until_s: float) -> tuple[float, int]:
    """Calls held in that time: the mean over time, and the most at once."""
    steps: list[tuple[float, int]] = []
    for record in records:
        begun_s = until_s if record.ready_s is None else max(since_s, record.ready_s)
        over_s = until_s if record.ended_s is None else min(until_s, record.ended_s)
        if begun_s < over_s:
            steps += [(begun_s, 1), (over_s, -1)]
    now = most = 0
    call_seconds = 0.0
    for at_s, step in sorted(steps):  # at the same moment a call ends before another begins
        now += step
        most = max(most, now)
        call_seconds -= step * (at_s - since_s)
    return call_seconds / (until_s - since_s), most


def held_at(records: Iterable[CallRecord], at_s: float) -> int:
    """Calls accepted and not yet over at that time."""
    return sum(r.ready_s is not None and r.ready_s <= at_s and (r.ended_s is None or r.ended_s > at_s) for r in records)


def _calls(records: Sequence[CallRecord], since_s: float, until_s: float) -> dict[str, Any]:
    outcomes = Counter(record.outcome for record in records)
    mean, most = held_within(records, since_s, until_s)
    return {
        "arrived": len(records),
        **{outcome: outcomes[outcome] for outcome in OUTCOMES},
        "refused_by_status": dict(Counter(str(record.status) for record in records if record.outcome == "refused")),
        "held_mean": round(mean, 1),
        "held_max": most,
    }


def _client(results: Sequence[WorkerResult]) -> dict[str, Any]:
    lag_s = [lag for result in results for lag in result.loop_lag_s]
    shares = [result.cpu_s / max(1e-9, result.ended_s - result.begun_s) for result in results]
    return {
        "processes": len(results),
        "cpu_share": round(sum(shares), 3),
        "loop_lag_ms": spread_ms(lag_s),
    }


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
