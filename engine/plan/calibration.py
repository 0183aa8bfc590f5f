"""Step time as measured: a line a + b · batch fitted on a few batch sizes predicts the others.

The line holds while bytes decide (a: weights and overhead; b: keys, values and rows of one call); a measurement far
beyond the fitted batches may lie above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.plan.errors import PlanError, require_positive


@dataclass(frozen=True, slots=True)
class Line:
    """seconds(batch) = base_s + per_call_s · batch."""

    base_s: float
    per_call_s: float

    def at(self, batch: int) -> float:
        """Seconds at that batch size."""
        return self.base_s + self.per_call_s * batch


def fit_line(points: Mapping[int, float]) -> Line:
    """Least squares through (batch, seconds); exact for two points.

    Raises:
        PlanError: fewer than two batch sizes, or a time that is not above 0.
    """
    if len(points) < 2:
        raise PlanError("calibrate", f"needs at least two batch sizes, got {len(points)}")
    for batch, seconds in points.items():
        require_positive("calibrate: batch", batch)
        require_positive(f"calibrate: time at batch {batch}", seconds)
    mean_batch = sum(points) / len(points)
    mean_s = sum(points.values()) / len(points)
    spread = sum((batch - mean_batch) ** 2 for batch in points)
    slope = sum((batch - mean_batch) * (seconds - mean_s) for batch, seconds in points.items()) / spread
    return Line(mean_s - slope * mean_batch, slope)


@dataclass(frozen=True, slots=True)
class Measured:
    """A bench result of one machine: seconds by batch size.

    Attributes:
        step_s: mean step gap.
        ttft_s: time to first token; empty where it was not measured.
        tokens_per_step: acceptance length over all of the measurement.
    """

    model: str
    step_s: Mapping[int, float]
    ttft_s: Mapping[int, float]
    tokens_per_step: float


def measured_from_json(document: object) -> Measured:
    """Reads what `engine.bench.step_time` wrote.

    Raises:
        PlanError: a key is missing or malformed; the message names it.
    """
    if not isinstance(document, Mapping) or document.get("kind") != "step_time":
        raise PlanError("calibrate", 'not a step-time result (its "kind" must be "step_time")')
    rows = document.get("batches")
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise PlanError("calibrate", "batches must be a non-empty list")
    steps: dict[int, float] = {}
    firsts: dict[int, float] = {}
    lengths: list[float] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise PlanError("calibrate", "batches must hold objects")
        batch = int(_number(row, "batch"))
        steps[batch] = _number(row, "step_ms") / 1000
        if row.get("ttft_ms") is not None:
            firsts[batch] = _number(row, "ttft_ms") / 1000
        lengths.append(_number(row, "tokens_per_step"))
    return Measured(str(document.get("model", "unnamed")), steps, firsts, sum(lengths) / len(lengths))


def _number(row: Mapping[str, object], key: str) -> float:
    value = row.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise PlanError("calibrate", f"{key} must be a number above 0, got {value!r}")
    return float(value)
