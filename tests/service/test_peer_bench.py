"""The comparison with a peer, the peer being the service itself under another name."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from service.peer_bench import add_arguments, run, table

TWIN = """
import sys
from service.cli import main
sys.exit(main(["serve", "--server.port", "0", "--scripted.enabled", "true", "--voice.names", '["tone"]']))
"""


def bench(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


def test_both_are_measured_in_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = tmp_path / "twin_server.py"
    server.write_text(TWIN)
    options = ["--calls", "2", "--rounds", "2", "--duration", "2", "--ramp", "0.5"]
    assert bench("--server", str(server), "--python", sys.executable, *options) == 0
    out = capsys.readouterr().out.splitlines()
    runs = json.loads(out[-1])["runs"]
    assert [run["who"] for run in runs] == ["voicepace", "twin", "twin", "voicepace"]
    for each in runs:
        assert each["held"] > 1
        assert each["failed"] == 0
        assert each["frames_per_s"] > 0
        assert each["first_audio_p50_ms"] > 80
        assert each["cpu_ms_per_call_s"] > 0
    assert len(out) == 4


def test_a_peer_that_does_not_start_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = tmp_path / "broken_server.py"
    server.write_text("raise SystemExit('no such module')\n")
    assert bench("--server", str(server), "--calls", "1", "--rounds", "1", "--duration", "2", "--ramp", "0") == 1
    assert "no such module" in capsys.readouterr().err


def test_the_table_takes_the_median_over_the_rounds() -> None:
    facts = dict.fromkeys(["held", "failed", "lateness_p99_ms", "lateness_max_ms", "underruns"], 0.0)
    facts |= dict.fromkeys(["first_audio_p50_ms", "first_audio_p95_ms", "barge_in_p95_ms", "client_lag_p99_ms"], None)
    runs = [{"who": "voicepace", "calls": 5, **facts, "cpu_ms_per_call_s": cpu} for cpu in (1.0, 9.0, 2.0)]
    assert table(runs).splitlines()[1].split() == ["5", "voicepace", "0", "0", "0", "0", "0", "-", "-", "-", "2", "-"]
