import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plan.calibration import fit_line, measured_from_json
from engine.plan.errors import PlanError
from engine.plan.timing import Calibrated


def document(**changes: object) -> dict[str, object]:
    rows = [
        {"batch": 1, "step_ms": 40.0, "ttft_ms": 70.0, "tokens_per_step": 1.0},
        {"batch": 4, "step_ms": 46.0, "ttft_ms": 160.0, "tokens_per_step": 1.0},
    ]
    return {"kind": "step_time", "model": "smol", "batches": rows} | changes


@given(st.floats(0.001, 1.0), st.floats(0, 0.1), st.sets(st.integers(1, 256), min_size=2, max_size=6))
def test_points_on_a_line_give_the_line(base_s: float, per_call_s: float, batches: set[int]) -> None:
    line = fit_line({batch: base_s + per_call_s * batch for batch in batches})
    for batch in (1, 3, 100):
        assert line.at(batch) == pytest.approx(base_s + per_call_s * batch, rel=1e-6, abs=1e-9)


@given(st.floats(0.001, 0.1), st.floats(0, 0.01), st.floats(0.001, 0.1), st.integers(2, 7))
def test_a_bend_is_found_and_predicts_what_lies_beyond(
    flat_s: float, slope_s: float, steeper_s: float, bend: int
) -> None:
    def seconds(batch: int) -> float:
        return flat_s + slope_s * batch + steeper_s * max(0, batch - bend)

    line = fit_line({batch: seconds(batch) for batch in range(1, 9)})
    assert line.bend == bend
    assert line.at(16) == pytest.approx(seconds(16), rel=1e-4)


def test_three_points_that_bend_downwards_are_balanced() -> None:
    line = fit_line({1: 0.010, 2: 0.013, 3: 0.010})
    assert line.per_call_s == pytest.approx(0)
    assert line.at(2) == pytest.approx(0.011)


@pytest.mark.parametrize("points", [{}, {1: 0.04}, {1: 0.04, 2: 0.0}, {1: 0.04, 2: float("nan")}, {0: 0.04, 1: 0.05}])
def test_too_little_or_senseless_measurements_are_refused(points: dict[int, float]) -> None:
    with pytest.raises(PlanError, match="calibrate"):
        fit_line(points)


def test_a_measurement_predicts_other_batch_sizes() -> None:
    timing = Calibrated(measured_from_json(document()))
    assert timing.step_s(2) == pytest.approx(0.042)
    assert timing.step_s(8) == pytest.approx(0.054)
    assert timing.ttft_s(2) == pytest.approx(0.100)
    assert timing.prefill_step_s(2) == pytest.approx(0.042 + 0.030)


def test_without_first_tokens_none_is_predicted() -> None:
    rows = [{"batch": b, "step_ms": 40.0 + b, "ttft_ms": None, "tokens_per_step": 2.0} for b in (1, 4)]
    timing = Calibrated(measured_from_json(document(batches=rows)))
    assert timing.ttft_s(3) is None
    assert timing.prefill_step_s(3) == timing.step_s(3)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ([], "step_time"),
        ({"kind": "loadtest"}, "step_time"),
        (document(batches=[]), "batches"),
        (document(batches="1, 4"), "batches"),
        (document(batches=[1, 4]), "objects"),
        (document(batches=[{"batch": 1, "tokens_per_step": 1}]), "step_ms"),
        (document(batches=[{"batch": 1, "step_ms": "40", "tokens_per_step": 1}]), "step_ms"),
        (document(batches=[{"batch": 0, "step_ms": 40, "tokens_per_step": 1}]), "batch"),
        (document(batches=[{"batch": 1, "step_ms": 40}]), "tokens_per_step"),
    ],
)
def test_a_malformed_result_is_refused_by_the_name_of_the_key(broken: object, named: str) -> None:
    with pytest.raises(PlanError, match=named):
        measured_from_json(broken)
