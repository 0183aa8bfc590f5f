"""What heads promise against what was kept."""

import random

from hypothesis import given
from hypothesis import strategies as st

from engine.tree.chances import Chances


def test_before_anything_was_seen_promises_are_believed() -> None:
    assert [Chances().of(promised) for promised in (0.0, 0.02, 0.3, 0.5, 1.0)] == [0.0, 0.02, 0.3, 0.5, 1.0]


def test_each_range_of_promises_learns_for_itself() -> None:
    chances, dice = Chances(), random.Random(3)
    for _ in range(600):
        chances.saw(0.15, dice.random() < 0.3)
        chances.saw(0.7, dice.random() < 0.6)
    assert 0.24 < chances.of(0.15) < 0.36
    assert 0.54 < chances.of(0.7) < 0.66
    assert chances.of(0.9) == 0.9
    assert chances.of(0.12) < chances.of(0.15) < chances.of(0.19)


def test_what_was_seen_is_forgotten_as_new_text_comes() -> None:
    chances = Chances()
    for kept in (True, False):
        for _ in range(1500):
            chances.saw(0.5, kept)
        assert (chances.of(0.5) > 0.9) == kept


def test_what_is_no_probability_is_not_believed_and_teaches_nothing() -> None:
    chances = Chances()
    for promised in (float("nan"), float("inf"), 3.8e36, -0.1):
        chances.saw(promised, False)
        assert chances.of(promised) == 0.0
    assert [chances.of(promised) for promised in (0.5, 1.0)] == [0.5, 1.0]


def test_what_is_no_longer_seen_comes_to_be_believed_again() -> None:
    chances = Chances()
    for _ in range(2000):
        chances.saw(0.5, False)
    assert chances.of(0.5) < 0.05
    for _ in range(60):
        chances.fade()
    assert chances.of(0.5) > 0.4


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60), st.floats(0, 1))
def test_a_chance_stays_one(seen: list[tuple[float, bool]], promised: float) -> None:
    chances = Chances()
    for given_, kept in seen:
        chances.saw(given_, kept)
    assert 0 <= chances.of(promised) <= 1
