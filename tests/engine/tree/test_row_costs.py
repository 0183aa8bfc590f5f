"""Step times by rows on an imagined machine."""

import pytest

from engine.tree.row_costs import ROWS, RowCosts, measured


def test_the_quickest_run_counts_and_no_step_is_larger_than_can_be() -> None:
    clock, run = 0.0, []
    disturbed = range(3, 10)  # of the steps run, eight a round

    def step(rows: int) -> None:
        nonlocal clock
        run.append(rows)
        clock += 0.01 * rows * (3 if len(run) in disturbed else 1)

    found = measured(step, 20, lambda: clock)
    assert found == pytest.approx({rows: 0.01 * rows for rows in ROWS if rows <= 20})
    assert max(run) <= 20


def test_between_points_and_behind_the_last_it_goes_along_lines() -> None:
    costs = RowCosts({1: 0.02, 6: 0.03, 12: 0.04}, 0.5)
    assert costs.times(1) == pytest.approx(1.0)
    assert costs.times(6) == pytest.approx(1.5)
    assert costs.times(9) == pytest.approx(1.75)
    assert costs.times(24) == pytest.approx(3.0)


@pytest.mark.parametrize(("rows", "next_rows"), [(1, 4), (4, 6), (6, 12)])
def test_a_disturbed_point_takes_no_longer_than_the_next_one_and_says_nothing_of_those(
    rows: int, next_rows: int
) -> None:
    quiet = {1: 0.02, 4: 0.025, 6: 0.03, 12: 0.04}
    costs = RowCosts(quiet | {rows: 0.09})
    assert costs.one_row_s is not None
    seconds = {many: costs.times(many) * costs.one_row_s for many in quiet}
    assert seconds == pytest.approx(quiet | {rows: quiet[next_rows]})


@pytest.mark.parametrize("seconds", [{}, {1: 0.02}])
def test_where_nothing_was_measured_every_row_costs_the_same(seconds: dict[int, float]) -> None:
    assert RowCosts(seconds, 0.05).times(11) == pytest.approx(1.5)
