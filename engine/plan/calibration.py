"""Step time as measured: a line with at most one bend, fitted on a few batch sizes, predicts the others.

A step takes the longer of what its bytes and what its rows take (the roofline: Williams et al., 2009). While bytes
decide the line is nearly flat; from the batch on where rows decide it is steeper. Two batch sizes give a straight line.
A bend beyond the fitted batches cannot be known: what is measured there may lie far above the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.plan.errors import PlanError, require_positive


@dataclass(frozen=True, slots=True)
class Line:
    """seconds(batch) = base_s + per_call_s · batch + steeper_s · max(0, batch - bend); steeper_s is never below 0."""

    base_s: float
    per_call_s: float
    steeper_s: float = 0.0
    bend: int = 0

    def at(self, batch: int) -> float:
        """Seconds at that batch size."""
        return self.base_s + self.per_call_s * batch + self.steeper_s * max(0, batch - self.bend)


def fit_line(points: Mapping[int, float]) -> Line:
    """Least squares through (batch, seconds), with a bend at the batch size between the others that fits best.

    Points that bend downwards get a straight line. Exact for two points, and for three that bend upwards.

    Raises:
        PlanError: fewer than two batch sizes, or a time that is not above 0.
    """
    if len(points) < 2:
        raise PlanError("calibrate", f"needs at least two batch sizes, got {len(points)}")
    for batch, seconds in points.items():
        require_positive("calibrate: batch", batch)
        require_positive(f"calibrate: time at batch {batch}", seconds)
    fits = [_fit(points, None), *(_fit(points, bend) for bend in sorted(points)[1:-1])]
    return min((fit for fit in fits if fit.steeper_s >= 0), key=lambda fit: _squares(points, fit))


def _fit(points: Mapping[int, float], bend: int | None) -> Line:
    batches = np.array(list(points), np.float64)
    columns = [np.ones_like(batches), batches]
    if bend is not None:
        columns.append(np.maximum(0, batches - bend))
    found = np.linalg.lstsq(np.stack(columns, axis=1), np.array(list(points.values())), rcond=None)[0]
    base_s, per_call_s = float(found[0]), float(found[1])
    return Line(base_s, per_call_s) if bend is None else Line(base_s, per_call_s, float(found[2]), bend)


def _squares(points: Mapping[int, float], line: Line) -> float:
    return sum((line.at(batch) - seconds) ** 2 for batch, seconds in points.items())


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
