"""The bars of pacing, on generated traces in virtual time, and the command."""

import argparse
import json

import pytest

from tts_adapter.bench.pacing import add_arguments, outcome_of, run
from tts_adapter.bench.traces import generated
from tts_adapter.options import PacingOptions

REPLIES = 200
FAST = ["steps-29ms-2.4", "steps-29ms-2.4-correlated", "steps-30ms-2.4-jitter", "steps-20ms-3", "plain-15ms"]
PUBLISHED = ["l4-published", "l4-published-correlated", "l4-published-jitter"]
OTHERS = ["l4-published-slow-start", "l4-published-stalls", "steps-45ms-2.45"]


def bench(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("timer_ms", [0.0, 1.5])
def test_steps_of_30_ms_with_2_4_tokens_keep_99_percent(name: str, timer_ms: float) -> None:
    (trace,) = generated(REPLIES, names=[name])
    outcome, best_share, _ = outcome_of(trace, PacingOptions(), timer_ms, 1)
    assert outcome.share >= 0.99
    assert outcome.share >= best_share - 0.01


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("timer_ms", [0.0, 1.5])
def test_the_published_point_keeps_97_percent_at_the_default_hold(name: str, timer_ms: float) -> None:
    (trace,) = generated(REPLIES, names=[name])
    assert outcome_of(trace, PacingOptions(), timer_ms, 1)[0].share >= 0.97


@pytest.mark.parametrize("name", [*FAST, *PUBLISHED, *OTHERS])
@pytest.mark.parametrize("timer_ms", [0.0, 1.5])
def test_close_to_the_optimum(name: str, timer_ms: float) -> None:
    (trace,) = generated(REPLIES, names=[name])
    outcome, best_share, best_starved_s = outcome_of(trace, PacingOptions(), timer_ms, 1)
    assert outcome.share >= best_share - 0.01
    assert outcome.starved_s <= best_starved_s * 1.10 + 0.010


@pytest.mark.parametrize("name", [*FAST, *PUBLISHED, *OTHERS])
def test_late_timers_cost_no_share_even_against_punctual_ones(name: str) -> None:
    (trace,) = generated(REPLIES, names=[name])
    punctual_share = outcome_of(trace, PacingOptions(), 0.0, 1)[1]
    assert outcome_of(trace, PacingOptions(), 1.5, 1)[0].share >= punctual_share - 0.01


@pytest.mark.parametrize("name", ["plain-45ms", "slow-45ms-1.5"])
def test_a_slow_engine_is_followed_without_adding_silence(name: str) -> None:
    (trace,) = generated(REPLIES, names=[name])
    outcome, _, best_starved_s = outcome_of(trace, PacingOptions(), 0.0, 1)
    assert outcome.starved_s <= best_starved_s * 1.10
    assert outcome.p99_gap_s <= 2 * trace.token_s
    assert outcome.p50_gap_s == pytest.approx(trace.token_s, rel=0.06)


def test_more_hold_never_costs_much_share() -> None:
    (trace,) = generated(REPLIES, names=["l4-published"])
    shares = [
        outcome_of(trace, PacingOptions(max_first_hold_ms=hold), 0.0, 1)[0].share for hold in (0.0, 45.0, 120.0, 250.0)
    ]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_the_command_ends_with_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--replies", "4", "--json") == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = [trace["name"] for trace in last["traces"]]
    assert "l4-published" in names
    assert last["traces"][0]["share_by_hold_ms"].keys() == {"0", "20", "45", "90", "120", "180", "250"}


def test_the_command_names_a_file_that_is_no_trace(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(f"{tmp_path}/missing.json") == 2
    assert "missing.json" in capsys.readouterr().out
