"""What a caller measures of a call, and the figures made of it.

Pure: times are the client's own monotonic seconds. Gaps are between two non-empty tokens as they arrived; the objective
and `starved time` are those of the service's metrics.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OBJECTIVE_S = 0.020
FRAME_S = 0.020
PAUSE = "pause"
"""Reason of a reply that only seems to have ended: nothing came for a while, in a dialect that has no word for it."""


def percentile(samples: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile: a value that did occur, None of nothing. `share` is in (0, 1]."""
    return _rank(sorted(samples), share)


def _rank(ordered: Sequence[float], share: float) -> float | None:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def starved_s(gaps_s: Iterable[float]) -> float:
    """Seconds by which gaps were too long: what a listener hears as stutter."""
    return math.fsum(max(0.0, gap - OBJECTIVE_S) for gap in gaps_s)


@dataclass(slots=True)
class Playback:
    """Playing audio in real time behind a jitter buffer, as a phone does: starts `buffer_s` after the first frame.

    A frame that comes after the buffer has run dry is an underrun; the buffer is then filled anew.
    """

    buffer_s: float = 0.060
    received_s: float = 0.0
    underruns: int = 0
    silence_s: float = 0.0
    _run_s: float = 0.0  # received since playing last began
    _ends_s: float | None = None

    def receive(self, duration_s: float, now: float) -> None:
        """A frame of `duration_s` has arrived."""
        if self._ends_s is None or now > self._ends_s:
            start = now + self.buffer_s
            if self._ends_s is not None:
                self.underruns += 1
                self.silence_s += start - self._ends_s
            self._ends_s, self._run_s = start, 0.0
        self._ends_s += duration_s
        self._run_s += duration_s
        self.received_s += duration_s

    def position_s(self, now: float) -> float:
        """Audio played so far; never goes back."""
        return self.received_s - min(self._run_s, self.left_s(now))

    def left_s(self, now: float) -> float:
        """Time until everything received has been played."""
        return 0.0 if self._ends_s is None else max(0.0, self._ends_s - now)

    def clear(self, now: float) -> None:
        """Throw away what has not been played."""
        self.received_s = self.position_s(now)
        self._ends_s, self._run_s = None, 0.0


@dataclass(slots=True)
class TurnTimes:
    """One reply as its caller saw it.

    Attributes:
        asked_s: when the caller's text was due to be sent; None for a reply nobody asked for (a greeting).
        sent_s: when it was sent, where that can differ.
        token_times_s: arrival of every non-empty token.
        frame_lateness_s: of every audio frame, against one frame each 20 ms from the first one on.
        last_output_s: arrival of the last token or frame of the turn, wherever it came.
        after_end: tokens and frames that came after the turn's own `turn_end`: must be 0.
    """

    turn_id: int
    asked_s: float | None = None
    sent_s: float | None = None
    token_times_s: "array[float]" = field(default_factory=lambda: array("d"))
    frame_lateness_s: "array[float]" = field(default_factory=lambda: array("d"))
    playback: Playback = field(default_factory=Playback)
    first_audio_s: float | None = None
    last_output_s: float | None = None
    interrupted_s: float | None = None
    ended_s: float | None = None
    reason: str = ""
    after_end: int = 0
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    _due_s: float = 0.0

    def token(self, text: str, now: float) -> float | None:
        """A token has arrived; the gap to the one before it, None for the first or an empty one."""
        self._output(now)
        if not text:
            return None
        times = self.token_times_s
        gap = now - times[-1] if times else None
        times.append(now)
        return gap

    def audio_frame(self, now: float) -> None:
        """A 20 ms frame has arrived; after an interrupt nobody plays it."""
        self._output(now)
        if self.interrupted_s is not None:
            return
        if self.first_audio_s is None:
            self.first_audio_s = self._due_s = now
        self.playback.receive(FRAME_S, now)
        late = now - self._due_s
        self.frame_lateness_s.append(max(0.0, late))
        # A pause longer than the far end's buffer is one underrun, not a lateness of every frame after it.
        self._due_s = (now if late > self.playback.buffer_s else self._due_s) + FRAME_S

    def _output(self, now: float) -> None:
        self.last_output_s = now
        if self.ended_s is None:
            return
        if self.reason == PAUSE:
            self.ended_s = None
        else:
            self.after_end += 1

    def end(self, reason: str, timings_ms: Mapping[str, float], now: float) -> None:
        self.ended_s, self.reason, self.timings_ms = now, reason, timings_ms

    @property
    def gaps_s(self) -> list[float]:
        times = self.token_times_s
        return [after - before for before, after in zip(times, times[1:], strict=False)]

    @property
    def ttft_s(self) -> float | None:
        if self.asked_s is None or not self.token_times_s:
            return None
        return self.token_times_s[0] - self.asked_s

    @property
    def first_audio_after_s(self) -> float | None:
        if self.asked_s is None or self.first_audio_s is None:
            return None
        return self.first_audio_s - self.asked_s

    @property
    def silence_after_s(self) -> float | None:
        """From the interrupt to the last output of the turn; 0 if nothing came after it, None without an interrupt."""
        if self.interrupted_s is None:
            return None
        return max(0.0, (self.last_output_s or 0.0) - self.interrupted_s)

    def disorder(self) -> str | None:
        """What contradicts the order of events, None if nothing does; such a record must not enter a figure."""
        times = self.token_times_s
        marks = [
            ("asked", self.asked_s),
            ("sent", self.sent_s),
            ("first token", times[0] if times else None),
            ("last token", times[-1] if times else None),
        ]
        known = [(name, at) for name, at in marks if at is not None]
        for (earlier, before), (later, after) in zip(known, known[1:], strict=False):
            if after < before:
                return f"{later} before {earlier}"
        if any(gap < 0 for gap in self.gaps_s):
            return "tokens go back in time"
        if self.after_end:
            return "output after turn_end"
        if self.ended_s is not None and self.ended_s < (self.last_output_s or 0.0):
            return "turn_end before the last output"
        return None


def spread_ms(samples_s: Sequence[float]) -> dict[str, float | None]:
    """p50, p95, p99 and the largest, in milliseconds."""
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
    ordered = sorted(samples_s)
    return {name: _ms(_rank(ordered, share)) for name, share in shares.items()}


def call_report(turns: Sequence[TurnTimes]) -> dict[str, Any]:
    """The figures of one call, as its JSON holds them. What was not measured is None."""
    gaps = [gap for turn in turns for gap in turn.gaps_s]
    underruns = [turn.playback for turn in turns if turn.first_audio_s is not None]
    named: dict[str, list[float]] = {}
    for turn in turns:
        for name, value in turn.timings_ms.items():
            named.setdefault(name, []).append(value)
    return {
        "turns": len(turns),
        "reasons": {reason: sum(t.reason == reason for t in turns) for reason in sorted({t.reason for t in turns})},
        "tokens": sum(len(turn.token_times_s) for turn in turns),
        "ttft_ms": spread_ms([t.ttft_s for t in turns if t.ttft_s is not None]),
        "first_audio_ms": spread_ms([t.first_audio_after_s for t in turns if t.first_audio_after_s is not None]),
        "delivered_gap_ms": spread_ms(gaps),
        "within_objective": sum(gap <= OBJECTIVE_S for gap in gaps) / len(gaps) if gaps else None,
        "starved_ms": _ms(starved_s(gaps)),
        "frame_lateness_ms": spread_ms([late for turn in turns for late in turn.frame_lateness_s]),
        "underruns": sum(playback.underruns for playback in underruns) if underruns else None,
        "interrupt_to_silence_ms": spread_ms([t.silence_after_s for t in turns if t.silence_after_s is not None]),
        "output_after_end": sum(turn.after_end for turn in turns),
        "server_ms": {name: round(math.fsum(values) / len(values), 3) for name, values in sorted(named.items())},
    }


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """The report for people."""
    gap = report["delivered_gap_ms"]
    share = report["within_objective"]
    lines = [
        f"{report['turns']} turns, {report['tokens']} tokens",
        f"TTFT            {_text(report['ttft_ms']['p50'])}",
    ]
    if report["first_audio_ms"]["p50"] is not None:
        lines.append(f"first audio     {_text(report['first_audio_ms']['p50'])}")
        lines.append(
            f"frame lateness  p99 {_text(report['frame_lateness_ms']['p99'])}, {report['underruns']} underruns"
        )
    lines += [
        f"engine TIT      {_text(report['server_ms'].get('engine_tit_ms'))} (as the server measured it)",
        f"delivered gap   p50 {_text(gap['p50'])}, p95 {_text(gap['p95'])}, p99 {_text(gap['p99'])}"
        + ("" if share is None else f"; {100 * share:.1f} % within {1000 * OBJECTIVE_S:.0f} ms"),
        f"starved time    {_text(report['starved_ms'])}",
    ]
    if report["interrupt_to_silence_ms"]["p50"] is not None:
        lines.append(f"interrupt       silent after {_text(report['interrupt_to_silence_ms']['max'])} at most")
    if report["output_after_end"]:
        lines.append(f"WRONG           {report['output_after_end']} tokens or frames came after their turn had ended")
    return lines


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else round(1000 * value_s, 3)


def _text(value_ms: float | None) -> str:
    return "not measured" if value_ms is None else f"{value_ms:.1f} ms"
