import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.barge_in import (
    BargeIn,
    BargeInFact,
    BargeInOptions,
    FalseAlarm,
    NothingSaid,
    SpeechEnded,
    SpeechStarted,
    SpeechSuspected,
)

CHUNK_S = 0.032


def hear(voice: BargeIn, *parts: tuple[float, float], start: float = 10.0) -> list[tuple[float, BargeInFact]]:
    """Parts of (probability, seconds), chunk by chunk; each fact with its time."""
    facts, now = [], start
    for probability, seconds in parts:
        for _ in range(round(seconds / CHUNK_S)):
            now += CHUNK_S
            facts += [(now, fact) for fact in voice.hear(probability, 32.0, now)]
    return facts


def kinds(facts: list[tuple[float, BargeInFact]]) -> list[type]:
    return [type(fact) for _, fact in facts]


def test_speech_counts_once_it_has_lasted() -> None:
    facts = hear(BargeIn(), (0.0, 1.0), (0.9, 1.0), (0.0, 1.0))
    assert kinds(facts) == [SpeechSuspected, SpeechStarted, SpeechEnded]
    suspected_at, counted_at = facts[0][0], facts[1][0]
    assert counted_at - suspected_at == pytest.approx(0.192)  # seven chunks of 32 ms, the first at once
    assert facts[1][1] == SpeechStarted(pytest.approx(suspected_at - CHUNK_S))
    assert facts[2][1] == SpeechEnded(pytest.approx(10.0 + 62 * CHUNK_S))


def test_a_cough_is_a_false_alarm() -> None:
    assert kinds(hear(BargeIn(), (0.9, 0.1), (0.0, 1.0))) == [SpeechSuspected, FalseAlarm]


def test_the_minimum_is_a_setting() -> None:
    assert kinds(hear(BargeIn(BargeInOptions(min_speech_ms=64)), (0.9, 0.07), (0.0, 0.1))) == [
        SpeechSuspected,
        SpeechStarted,
    ]


def test_a_gap_inside_a_word_does_not_start_again() -> None:
    facts = hear(BargeIn(), (0.9, 0.13), (0.0, 0.064), (0.9, 0.13), (0.0, 0.3), (0.9, 0.3))
    assert kinds(facts) == [SpeechSuspected, SpeechStarted]


def test_a_probability_between_the_thresholds_changes_nothing() -> None:
    assert hear(BargeIn(), (0.4, 1.0)) == []
    assert kinds(hear(BargeIn(), (0.9, 0.3), (0.4, 2.0))) == [SpeechSuspected, SpeechStarted]


def test_speech_without_words_is_reported_once() -> None:
    voice = BargeIn()
    facts = hear(voice, (0.9, 0.3), (0.0, 4.0))
    assert kinds(facts) == [SpeechSuspected, SpeechStarted, SpeechEnded, NothingSaid]
    assert facts[3][0] - facts[2][0] == pytest.approx(2.0, abs=CHUNK_S)


def test_words_end_the_wait_for_them() -> None:
    voice = BargeIn()
    hear(voice, (0.9, 0.3), (0.0, 0.6))
    assert voice.next_wakeup() is not None
    voice.words()
    assert voice.next_wakeup() is None
    assert voice.due(1e9) == []


def test_new_speech_ends_the_wait_for_words() -> None:
    assert NothingSaid not in kinds(hear(BargeIn(), (0.9, 0.3), (0.0, 0.6), (0.9, 3.0)))


@pytest.mark.parametrize("wrong", [{"threshold": 0.0}, {"threshold": 1.5}, {"release": 0.6}, {"min_speech_ms": -1.0}])
def test_settings_that_make_no_sense_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BargeInOptions(**wrong)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.6, 1.0]), st.sampled_from([0.032, 0.1, 0.4, 3.0])), max_size=15))
def test_every_suspicion_is_decided_once(parts: list[tuple[float, float]]) -> None:
    """Held, then resumed or broken in; nothing else, in no other order."""
    suspected, counting = False, False
    for kind in kinds(hear(BargeIn(), *parts, (0.0, 1.0))):
        if kind is SpeechSuspected:
            assert not suspected
            assert not counting
            suspected = True
        elif kind in (FalseAlarm, SpeechStarted):
            assert suspected
            suspected, counting = False, kind is SpeechStarted
        elif kind is SpeechEnded:
            assert counting
            counting = False
    assert not suspected
    assert not counting
