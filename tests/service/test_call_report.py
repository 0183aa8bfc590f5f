import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.call_report import Playback, TurnTimes, call_report, percentile, report_lines, starved_s


def turn_with(token_times: list[float], asked: float = 0.0) -> TurnTimes:
    turn = TurnTimes(1, asked_s=asked)
    for at in token_times:
        turn.token("x", at)
    return turn


def test_percentiles_are_exact_samples() -> None:
    samples = [float(value) for value in range(100, 0, -1)]
    assert [percentile(samples, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([], 0.5) is None


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.001, 1))
def test_at_least_the_share_lies_at_or_under_the_percentile(samples: list[float], share: float) -> None:
    value = percentile(samples, share)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= math.floor(share * len(samples))


def test_starved_time_counts_only_the_excess() -> None:
    assert starved_s([0.020, 0.010, 0.050, 0.120]) == pytest.approx(0.130)


def test_gaps_leave_empty_tokens_out() -> None:
    turn = TurnTimes(1, asked_s=1.0)
    assert turn.token("Hi", 1.5) is None
    assert turn.token("", 1.51) is None
    assert turn.token(" you", 1.53) == pytest.approx(0.03)
    assert turn.ttft_s == 0.5
    assert turn.gaps_s == pytest.approx([0.03])


def test_frame_lateness_is_against_an_even_schedule() -> None:
    turn = TurnTimes(1, asked_s=0.0)
    for at in (0.100, 0.120, 0.145, 0.150, 0.180):  # the fourth came early after the third came late
        turn.audio_frame(at)
    assert list(turn.frame_lateness_s) == pytest.approx([0, 0, 0.005, 0, 0], abs=1e-9)
    assert turn.first_audio_after_s == pytest.approx(0.1)


def test_one_long_pause_is_one_underrun_and_not_a_lateness_of_all_that_follows() -> None:
    turn = TurnTimes(1, asked_s=0.0)
    for at in (0.0, 0.02, 0.5, 0.52, 0.54):
        turn.audio_frame(at)
    assert turn.playback.underruns == 1
    assert list(turn.frame_lateness_s) == pytest.approx([0, 0, 0.46, 0, 0], abs=1e-9)


def test_playback_runs_in_real_time_behind_its_buffer() -> None:
    playback = Playback(buffer_s=0.06)
    for frame in range(10):
        playback.receive(0.02, 1.0 + frame * 0.001)
    assert playback.position_s(1.05) == 0.0
    assert playback.position_s(1.16) == pytest.approx(0.1)
    playback.clear(1.16)
    assert playback.position_s(9.0) == pytest.approx(0.1)
    assert playback.left_s(1.16) == 0.0
    assert playback.underruns == 0


@given(st.lists(st.floats(0, 0.2), max_size=30), st.floats(0, 0.1))
def test_position_never_goes_back_nor_past_what_was_received(waits: list[float], buffer_s: float) -> None:
    playback = Playback(buffer_s)
    now = position = 0.0
    for wait in waits:
        now += wait
        for _ in range(2):
            assert position - 1e-9 <= playback.position_s(now) <= playback.received_s + 1e-9
            position = playback.position_s(now)
            playback.receive(0.02, now)
    assert playback.position_s(now + 99) == pytest.approx(playback.received_s)


def test_silence_after_an_interrupt() -> None:
    turn = turn_with([1.0, 1.02])
    turn.interrupted_s = 1.01
    turn.end("interrupted", {}, 1.03)
    assert turn.silence_after_s == pytest.approx(0.01)
    assert turn.disorder() is None


def test_output_after_the_end_is_seen() -> None:
    turn = turn_with([1.0])
    turn.end("interrupted", {}, 1.1)
    turn.token("late", 1.2)
    assert turn.after_end == 1
    assert turn.disorder() == "output after turn_end"
    assert any("WRONG" in line for line in report_lines(call_report([turn])))


@pytest.mark.parametrize(
    ("times", "asked", "wrong"),
    [
        ([1.0], 2.0, "first token before asked"),
        ([1.0, 3.0, 2.0], 0.0, "tokens go back in time"),
        ([1.0, 0.5], 0.1, "last token before first token"),
    ],
)
def test_a_record_out_of_order_says_so(times: list[float], asked: float, wrong: str) -> None:
    assert turn_with(times, asked).disorder() == wrong


def test_report_of_a_known_call() -> None:
    turn = turn_with([0.100, 0.118, 0.136, 0.186])
    turn.end("stop", {"engine_tit_ms": 16.0}, 0.2)
    other = turn_with([10.200, 10.210], asked=10.0)
    other.end("length", {"engine_tit_ms": 18.0}, 10.3)
    report = call_report([turn, other])
    assert report["tokens"] == 6
    assert report["ttft_ms"] == {"p50": 100.0, "p95": 200.0, "p99": 200.0, "max": 200.0}
    assert report["delivered_gap_ms"]["max"] == 50.0
    assert report["within_objective"] == 0.75
    assert report["starved_ms"] == 30.0
    assert report["server_ms"] == {"engine_tit_ms": 17.0}
    assert report["first_audio_ms"]["p50"] is None
    assert report["reasons"] == {"length": 1, "stop": 1}
    text = "\n".join(report_lines(report))
    assert "75.0 % within 20 ms" in text
    assert "17.0 ms (as the server" in text


def test_report_of_nothing() -> None:
    report = call_report([])
    assert report["delivered_gap_ms"]["p99"] is None
    assert "not measured" in "\n".join(report_lines(report))
