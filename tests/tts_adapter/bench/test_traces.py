"""Traces: generated the same each time, and kept as files."""

import json
from pathlib import Path

import pytest

from tts_adapter.bench.traces import PROCESSES, generated, load, record, recorded


def test_generated_traces_are_the_same_for_the_same_seed_and_are_what_they_say() -> None:
    first, again = generated(40, 5), generated(40, 5)
    assert first == again
    assert generated(40, 6) != first
    by_name = {trace.name: trace for trace in first}
    assert by_name.keys() == PROCESSES.keys()
    assert by_name["l4-published"].step_s == pytest.approx(0.0446, rel=1e-6)
    assert by_name["l4-published"].tokens_per_step == pytest.approx(2.77, abs=0.12)
    assert by_name["steps-29ms-2.4"].tokens_per_step == pytest.approx(2.4, abs=0.12)
    assert by_name["plain-45ms"].tokens_per_step == 1.0


def test_a_recording_comes_back_relative_to_its_first_burst(tmp_path: Path) -> None:
    path = tmp_path / "plain-1.json"
    record(path, [[(100.5, 1), (100.55, 3), (100.56, 0), (100.6, 2)], []], "one call", {"engine": "x 1.0"})
    trace = load(path)
    assert trace.name == "plain-1"
    assert trace.description == "one call"
    assert trace.replies == (((0.0, 1), (0.05, 3), (0.1, 2)),)
    assert json.loads(path.read_text())["provenance"] == {"engine": "x 1.0"}


def test_a_recording_whose_time_runs_backwards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="core_time_s"):
        record(tmp_path / "x.json", [[(2.0, 1), (1.0, 1)]], "", {})


def test_a_plain_list_is_one_reply(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text("[[0.0, 1], [0.04, 2]]")
    assert load(path).replies == (((0.0, 1), (0.04, 2)),)


@pytest.mark.parametrize("content", ["{}", "[]", "nonsense", '{"description": "x", "replies": [[[0, 1]]]}'])
def test_what_is_not_a_trace_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"broken\.json"):
        load(path)


def test_the_recorded_traces_say_where_they_come_from() -> None:
    for trace in recorded():
        assert trace.description
        assert trace.step_s > 0
