import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from engine.bench import published, published_report
from engine.bench.published_figures import Block, ReplyTrace
from engine.bench.published_plot import svg
from engine.bench.published_report import table
from engine.bench.published_run import Outcome, Workload
from engine.fake import Script
from engine.hardware import CpuFacts
from tests.engine.bench.published_host import MEBIBYTE, SCRIPTS, WORDS, ScriptedHost, flags
from tests.virtual_time import run_virtual

SMALL = ("--kinds", "conversational", "--concurrency", "1", "4", "--tokens", "11", "--draft-model", "small")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ScriptedHost:
    host = ScriptedHost()
    monkeypatch.setattr(published, "VllmHost", lambda cache_dir, progress: host)
    monkeypatch.setattr(published.asyncio, "run", run_virtual)
    return host


def document(host: ScriptedHost, *argv: str) -> dict[str, Any]:
    args = flags(*SMALL, *argv)
    settings = published.base_settings(args.profile, {})
    return published.measure(args, published.workload_of(args), settings, host)[0]


def test_rows_hold_exact_ratios(host: ScriptedHost) -> None:
    found = document(host)
    rows = {(row["arm"], row["concurrency"]): row for row in found["rows"]}
    assert set(rows) == {(arm, n) for arm in ("none", "ngram", "draft_model", "medusa", "medusa_tree") for n in (1, 4)}
    for n in (1, 4):
        assert rows["none", n]["speedup"] is None
        assert rows["ngram", n]["speedup"] == pytest.approx({"value": 2, "low": 2, "high": 2})
        # Bursts 2 2 2 2 2 1: five gaps of 80 ms for nine tokens.
        assert rows["draft_model", n]["speedup"]["value"] == pytest.approx(0.040 / (5 * 0.080 / 9))
    # Plain decoding's own row has the blocks beside all other arms.
    assert (rows["none", 1]["replies"], rows["ngram", 1]["replies"]) == (4 * 16, 16)
    assert found["arms"]["ngram"]["memory_overhead_bytes"] == 20 * MEBIBYTE
    assert found["arms"]["draft_model"]["memory_overhead_bytes"] is None
    assert found["arms"]["ngram"]["options"]["dtype"] == "float32"


def test_an_arm_is_compared_with_the_plain_blocks_it_took_turns_with() -> None:
    def block(arm: str, group: str, gap_s: float) -> Block:
        trace = ReplyTrace("code-1.1", 0.1, ((5.0, 1), (5.0 + gap_s, 1)), (), "text", 9, 0)
        return Block(arm, "code", 1, 0, group, 1.0, (trace,))

    # The machine has become slower by the time the second arm is run.
    first = [block("none", "ngram", 0.04), block("ngram", "ngram", 0.02)]
    second = [block("none", "draft_model", 0.08), block("draft_model", "draft_model", 0.08)]
    options = {name: {"dtype": "float32"} for name in ("none", "ngram", "draft_model")}
    found = published_report.document(Outcome([*first, *second]), Workload(("code",), (1,)), options, {})
    ratios = {row["arm"]: row["speedup"]["value"] for row in found["rows"] if row["speedup"]}
    assert ratios == pytest.approx({"ngram": 2, "draft_model": 1})


def test_arms_that_are_not_run_are_reported_with_the_reason(host: ScriptedHost) -> None:
    found = document(host)
    assert set(found["not_run"]) == {"eagle", "eagle3"}
    text = table(found, "a machine")
    assert "eagle: not run: no heads: give --eagle-head" in text
    assert "eagle3: not run: no heads: give --eagle3-head" in text


def test_an_arm_that_dies_on_the_way_is_not_passed_off_as_whole(host: ScriptedHost) -> None:
    host.scripts = {**SCRIPTS, "ngram": Script(die_after_bursts=12)}
    # The warm-up is over before; the first counted reply is long enough to die in.
    found = document(host, "--arms", "ngram", "--tokens", "20")
    assert "ngram: not run: the scripted engine has died" in table(found, "a machine")


def test_a_run_that_is_interrupted_shows_what_it_has(host: ScriptedHost) -> None:
    def reply(name: str, prompt: str) -> str:
        if name == "draft_model" and len(host.forgotten) > 10:
            raise KeyboardInterrupt
        return WORDS

    host.reply = reply
    text = table(document(host), "a machine")
    assert "ngram: not run" not in text
    assert "draft_model: not run to the end: interrupted" in text
    assert not host.started


def test_an_interrupt_before_the_first_block_is_one(host: ScriptedHost) -> None:
    def reply(name: str, prompt: str) -> str:
        raise KeyboardInterrupt

    host.reply = reply
    with pytest.raises(KeyboardInterrupt):
        document(host)


def test_the_table_counts_differing_replies(host: ScriptedHost) -> None:
    host.reply = lambda name, prompt: "something else" if (name, "dishwasher" in prompt) == ("ngram", True) else WORDS
    lines = table(document(host, "--arms", "ngram"), "a machine").splitlines()
    assert lines[0] == "machine: a machine"
    by_arm = {tuple(line.split()[1:3]): line for line in lines if line.startswith("conversational")}
    assert "2/16" in by_arm["1", "ngram"]
    assert "0/16" in by_arm["1", "none"]
    assert "100% 67% 33%" in by_arm["1", "ngram"]
    assert "A B B A" in lines[1]


def test_the_table_says_when_nothing_took_turns(host: ScriptedHost) -> None:
    text = table(document(host, "--arms", "ngram", "--resident", "one"), "a machine")
    assert "not in turns" in text
    assert "2.00 [2.00 2.00]" in text


def test_other_types_than_float32_promise_nothing(host: ScriptedHost) -> None:
    found = document(host, "--arms", "ngram")
    assert "near-ties" not in table(found, "a machine")
    found["arms"]["none"]["options"]["dtype"] = found["arms"]["ngram"]["options"]["dtype"] = "bfloat16"
    assert "near-ties" in table(found, "a machine")


def test_the_plot_is_one_valid_file_that_needs_nothing_else(host: ScriptedHost) -> None:
    found = document(host)
    text = svg(found, "a machine & <more>")
    root = ElementTree.fromstring(text)
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a machine & <more>" in shown
    assert {"none", "ngram", "draft_model"} <= set(shown)
    # Mean TIT of plain and n-gram at both concurrencies stand over their bars.
    assert shown.count("40.0") >= 2
    assert shown.count("20.0") == 2
    assert text.count("http") == 1
    bars = [element for element in root.iter("{http://www.w3.org/2000/svg}rect") if element.get("class") is None]
    heights = {round(float(bar.get("height", 0)), 1) for bar in bars if bar.get("fill") == "#6b7280"}
    half = {round(float(bar.get("height", 0)), 1) for bar in bars if bar.get("fill") == "#2563eb"}
    assert any(abs(one - 2 * other) <= 0.2 for one in heights for other in half)


def test_the_command_prints_the_table_and_ends_with_json(
    host: ScriptedHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "plot.svg"
    assert published.run(flags(*SMALL, "--json", "--plot", str(plot), "--seed", "7")) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert found["kind"] == "published"
    assert found["provenance"]["seed"] == found["workload"]["seed"] == 7
    assert found["provenance"]["machine"]["cpus"] >= 1
    assert lines[-2] == f"plot: {plot}"
    assert plot.read_text().startswith("<svg")


def test_two_engines_are_resident_where_their_memory_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "read_cpu", lambda: None)
    assert not published.workload_of(flags()).resident_pairs
    assert published.workload_of(flags("--resident", "pairs")).resident_pairs
    monkeypatch.setattr(published, "read_cpu", lambda: CpuFacts((0, 1), native_bfloat16=False))
    assert published.workload_of(flags()).resident_pairs


def test_quick_is_two_arms_on_one_kind(host: ScriptedHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert published.run(flags("--quick", "--json", "--plot", str(tmp_path / "plot.svg"))) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(found["arms"]) == ["none", "ngram"]
    assert [(row["prompts"], row["concurrency"]) for row in found["rows"]] == [
        ("conversational", n) for n in (1, 1, 4, 4)
    ]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("--profile", "tpu"), "there is no tpu"),
        (("--prompts", "2"), "prompts"),
        (("--arms", "ngram", "--plot", "missing/folder/plot.svg"), "missing/folder"),
    ],
)
def test_bad_flags_get_one_clear_line(
    host: ScriptedHost, argv: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert published.run(flags(*SMALL, *argv)) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: ")
    assert named in line


def test_an_engine_that_does_not_start_gets_one_clear_line(
    host: ScriptedHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.broken = frozenset({"none"})
    assert published.run(flags(*SMALL)) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "error: engine: no none here"
