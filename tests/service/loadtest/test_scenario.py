from dataclasses import replace
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from service.loadtest.scenario import QUESTIONS, Scenario, line_scripts


def calls_of(scenario: Scenario, line: int, count: int = 200) -> list[object]:
    return list(islice(line_scripts(scenario, line), count))


def test_the_same_seed_gives_the_same_callers() -> None:
    scenario = Scenario(calls=3, seed=7)
    assert calls_of(scenario, 1) == calls_of(replace(scenario, calls=30), 1)
    assert calls_of(scenario, 1) != calls_of(scenario, 2)
    assert calls_of(scenario, 1) != calls_of(replace(scenario, seed=8), 1)


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(0, 4))
def test_scripts_keep_to_the_scenario(seed: int, turns: int, hypotheses: int) -> None:
    scenario = Scenario(calls=1, turns=turns, think_s=(0.2, 0.9), hypotheses=hypotheses, ramp_s=3.0, seed=seed)
    scripts = list(islice(line_scripts(scenario, 0), 20))
    assert 0 <= scripts[0].pause_s <= 3.0
    for script in scripts:
        assert len(script.turns) == turns
        for turn in script.turns:
            assert 0.2 <= turn.think_s <= 0.9
            assert turn.text in QUESTIONS
            assert len(turn.hypotheses) == hypotheses
            assert all(turn.text.startswith(text) for text in turn.hypotheses)
            assert list(turn.hypotheses) == sorted(turn.hypotheses, key=len)


def test_shares_are_kept() -> None:
    scenario = Scenario(calls=1, turns=4, interrupt_share=0.3, hang_up_share=0.2)
    scripts = list(islice(line_scripts(scenario, 0), 2000))
    hang_ups = sum(any(turn.hang_up_after_s is not None for turn in script.turns) for script in scripts)
    interrupts = sum(turn.interrupt_after_s is not None for script in scripts for turn in script.turns)
    assert abs(hang_ups / 2000 - 0.2) < 0.03
    assert abs(interrupts / 8000 - 0.3) < 0.05
    none = Scenario(calls=1, interrupt_share=0, hang_up_share=0)
    for script in islice(line_scripts(none, 0), 100):
        assert all(turn.interrupt_after_s is None and turn.hang_up_after_s is None for turn in script.turns)
