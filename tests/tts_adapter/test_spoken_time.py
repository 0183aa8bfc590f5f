"""How long speech lasts: by words until its audio is there, then by that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_adapter.spoken_time import SpokenTime


def test_words_alone_are_counted_from_when_the_speech_before_ends() -> None:
    time = SpokenTime(3.0)
    time.cut(6, 10.0)
    assert time.until == pytest.approx(12.0)
    time.cut(3, 11.0)
    assert time.until == pytest.approx(13.0)
    time.cut(3, 20.0)
    assert time.until == pytest.approx(21.0)


def test_audio_in_hand_counts_instead_of_the_words_it_speaks() -> None:
    time = SpokenTime(3.0)
    time.cut(6, 10.0)
    time.heard(0, 0.5, False, 0.5, 10.2)
    assert time.until == pytest.approx(10.2 + 0.5 + 1.5)
    time.heard(0, 0.9, True, 1.3, 10.3)
    assert time.until == pytest.approx(11.6)


def test_a_voice_faster_than_assumed_is_believed() -> None:
    time = SpokenTime(3.0)
    for segment in range(10):
        time.cut(8, float(segment))
        time.heard(segment, 2.0, True, 1.0, float(segment))
    time.cut(8, 9.0)
    # Eight words in two seconds are 4 a second.
    assert time.until - 10.0 == pytest.approx(2.0, rel=0.05)


def test_audio_of_a_segment_ends_those_before_it_and_unknown_ones_are_passed_over() -> None:
    time = SpokenTime(2.0)
    time.cut(4, 0.0)
    time.cut(4, 0.0)
    time.heard(1, 0.5, False, 0.5, 1.0)
    assert time.until < 1.5 + 2.0
    before = time.until
    time.heard(7, 3.0, True, 3.0, 2.0)
    assert time.until == before


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0.0, 3.0), st.booleans(), st.floats(0.0, 5.0)), max_size=20))
def test_it_is_never_before_the_audio_in_hand_ends(reports: list[tuple[int, float, bool, float]]) -> None:
    time, now = SpokenTime(3.0), 0.0
    for number, (words, seconds, last, in_hand_s) in enumerate(reports):
        now += 0.3
        time.cut(words, now)
        assert time.until >= now - 1e-9
        time.heard(number // 2, seconds, last, in_hand_s, now)
        assert time.until >= now + in_hand_s - 1e-9
