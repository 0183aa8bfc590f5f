import pytest

from engine.plan.published import (
    FITTED_ON,
    H100_TOKENS_PER_S,
    comparison_json,
    comparison_text,
    h100_rows,
    l4_pair,
    l4_verdict,
)

PLAIN = [name for name in H100_TOKENS_PER_S if "Medusa" not in name]


def test_the_l4_pair_is_predicted_within_a_fifth_at_the_floor() -> None:
    published = [row for row in l4_pair() if row.error is not None]
    assert [row.published_ms for row in published] == [44.6, 16.1]
    assert all(abs(row.error) <= 0.2 for row in published if row.error is not None)


def test_the_honest_rows_say_that_neither_figure_can_be() -> None:
    rows = {row.what: row.predicted_ms for row in l4_pair()}
    floor_ms = next(value for what, value in rows.items() if "floor" in what)
    assert floor_ms == pytest.approx(15.01 / 300 * 1000, rel=1e-3)
    assert floor_ms > 44.6
    per_head = [value for what, value in rows.items() if "per head" in what]
    assert len(per_head) == 2
    assert min(per_head) > 16.1
    text = l4_verdict(l4_pair())
    assert "is under the 50.0 ms" in text
    assert "16.1 ms is impossible" in text


@pytest.mark.parametrize("name", PLAIN)
def test_a_line_through_1_and_64_predicts_2_to_32_within_a_tenth(name: str) -> None:
    rows = h100_rows(name)
    assert all(rows[at].error == pytest.approx(0, abs=1e-9) for at in FITTED_ON)
    between = {at: row.error for at, row in rows.items() if at not in FITTED_ON}
    assert sorted(between) == [2, 4, 8, 16, 32]
    assert all(error is not None and abs(error) <= 0.1 for error in between.values())


def test_the_table_shows_the_chain_losing_under_load() -> None:
    for plain in PLAIN:
        with_heads = H100_TOKENS_PER_S[f"{plain} with Medusa"]
        gains = {at: with_heads[at] / rate for at, rate in H100_TOKENS_PER_S[plain].items()}
        assert 1.1 < gains[1] < 1.25
        assert gains[32] < 1
        assert gains[64] < gains[32] < gains[8] < gains[1] * 1.05


def test_text_and_json_hold_every_row() -> None:
    text, document = comparison_text(), comparison_json()
    for row in l4_pair():
        assert row.what in text
    assert len(document["l4"]) == len(l4_pair())
    assert set(document["h100"]) == set(H100_TOKENS_PER_S)
    assert document["l4_verdict"] in text
