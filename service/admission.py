"""Whether one more call would still be served well: step time against batch size, learned while serving. Pure.

The engine's step grows with the replies it generates at a time. A line through the mean step time per batch size predicts
the step at sizes not seen yet; divided by the tokens a step yields it is the predicted delivered gap, which pacing can
smooth but not lower.
"""

from dataclasses import dataclass

_FORGET = 0.02  # weight of a new sample once a batch size is well known
_MAX_BATCH = 1024


@dataclass(slots=True)
class _Seen:
    mean_s: float = 0.0
    samples: int = 0


class StepTimes:
    """Mean step time by batch size, and the line through them."""

    def __init__(self) -> None:
        self._by_batch: dict[int, _Seen] = {}
        self._tokens_per_step = 1.0

    def observe(self, batch: int, step_s: float, tokens: int) -> None:
        """One request's step took `step_s` while `batch` replies were being generated, and yielded `tokens`."""
        if not 1 <= batch <= _MAX_BATCH:
            return
        seen = self._by_batch.setdefault(batch, _Seen())
        seen.samples += 1
        seen.mean_s += (step_s - seen.mean_s) * max(1 / seen.samples, _FORGET)
        self._tokens_per_step += (tokens - self._tokens_per_step) * _FORGET

    def predicted_gap_s(self, batch: int) -> float | None:
        """Seconds per token with `batch` replies at a time, None before anything was seen."""
        if not self._by_batch:
            return None
        intercept_s, slope_s = self._line()
        return max(intercept_s + slope_s * batch, 0.0) / self._tokens_per_step

    def _line(self) -> tuple[float, float]:
        """Least squares, each size weighted by its samples up to a hundred; the slope is never negative."""
        # A copy first: a scrape asks from another thread.
        points = [(batch, seen.mean_s, min(seen.samples, 100)) for batch, seen in list(self._by_batch.items())]
        total = sum(weight for _, _, weight in points)
        mean_batch = sum(batch * weight for batch, _, weight in points) / total
        mean_s = sum(step_s * weight for _, step_s, weight in points) / total
        spread = sum(weight * (batch - mean_batch) ** 2 for batch, _, weight in points)
        joint = sum(weight * (batch - mean_batch) * (step_s - mean_s) for batch, step_s, weight in points)
        slope_s = max(0.0, joint / spread) if spread else 0.0
        return mean_s - slope_s * mean_batch, slope_s


class Admission:
    """Decides on one more call.

    Args:
        max_calls: calls at a time.
        max_gap_s: predicted delivered gap that must not be exceeded; None: only `max_calls` counts.
    """

    def __init__(self, max_calls: int, max_gap_s: float | None) -> None:
        self.step_times = StepTimes()
        self._max_calls = max_calls
        self._max_gap_s = max_gap_s
        self._share_generating = 1.0

    def observe_load(self, calls: int, generating: int) -> None:
        """A reply begins: `generating` of `calls` calls now have one under way."""
        if calls > 0:
            self._share_generating += (min(1.0, generating / calls) - self._share_generating) * 0.05

    def predicted_gap_s(self, calls: int) -> float | None:
        """The delivered gap to expect with so many calls, None before anything was seen."""
        return self.step_times.predicted_gap_s(max(1, round(calls * self._share_generating)))

    def refusal(self, calls: int) -> str | None:
        """Why a call on top of `calls` cannot be taken now: `capacity`, `objective`, or None where it can."""
        if calls >= self._max_calls:
            return "capacity"
        gap_s = self.predicted_gap_s(calls + 1)
        if calls and self._max_gap_s is not None and gap_s is not None and gap_s > self._max_gap_s:
            return "objective"
        return None
