"""`voicepace heads eval` and `heads tree` on the shipped heads, with the real model; `heads train` on a few replies."""

import json
from pathlib import Path

import pytest

from engine.heads.checkpoint import read_about
from engine.heads.names import reply_files, shipped_path
from engine.heads.replies import Reply, read, without_loops, write
from service.cli import main

HELD_OUT = reply_files()[0]
LEAST_REPLIES = 200


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Held-out replies, greedy and sampled, of two topics."""
    replies = without_loops(read(HELD_OUT))
    topics = sorted({reply.topic for reply in replies})[:2]
    chosen = [
        reply
        for topic in topics
        for greedy in (True, False)
        for reply in [each for each in replies if each.topic == topic and (each.temperature == 0) == greedy][:6]
    ]
    write(tmp_path / "few.jsonl.gz", chosen, {})
    return tmp_path / "few.jsonl.gz"


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """As many held-out replies as the bars ask for, greedy and sampled, from all over the file."""
    replies = without_loops(read(HELD_OUT))
    greedy, sampled = ([each for each in replies if (each.temperature == 0) == wanted] for wanted in (True, False))
    write(tmp_path / "held_out.jsonl.gz", evenly(greedy, LEAST_REPLIES) + evenly(sampled, LEAST_REPLIES), {})
    return tmp_path / "held_out.jsonl.gz"


def evenly(replies: list[Reply], count: int) -> list[Reply]:
    return [replies[at * len(replies) // count] for at in range(count)]


def last_line(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.engine
def test_shipped_heads_guess_what_the_model_says(few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "eval", "--replies", str(few), "--json"]) == 0
    found = last_line(capsys)["tokens_per_step"]
    for architecture in ("medusa", "sequential"):
        for temperature in ("greedy", "t07"):
            lengths = [found[architecture][tree][temperature] for tree in ("chain", "tree8", "tree31")]
            assert 1.1 < lengths[0] < lengths[1] < lengths[2]
    for tree in ("chain", "tree8", "tree31"):
        assert found["sequential"][tree]["greedy"] > found["medusa"][tree]["greedy"]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_shipped_heads_reach_their_bars_on_held_out_topics(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads = str(shipped_path("sequential"))
    assert main(["heads", "eval", "--heads", heads, "--replies", str(judged), "--json"]) == 0
    document = last_line(capsys)
    found = document["sets"]["held_out"]
    assert set(found) == {"sequential"}
    assert all(found["sequential"][name]["replies"] == LEAST_REPLIES for name in ("greedy", "t07"))
    tree = document["tokens_per_step"]["sequential"]["tree31"]
    assert tree["greedy"] >= 2.65
    assert tree["t07"] >= 2.2


def test_a_tree_is_drawn_and_written_for_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from engine.tree.topology import Topology

    out = tmp_path / "tree.json"
    assert main(["heads", "tree", "--nodes", "12", "--out", str(out)]) == 0
    assert Topology.from_json(out.read_text()).nodes == 12
    text = capsys.readouterr().out
    assert "candidate 1" in text
    assert "8 nodes" in text


def test_a_tree_follows_what_steps_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"arm": arm, "concurrency": batch, "step_ms": step}
        for batch, steps in ((1, (40, 42, 60)), (8, (40, 400, 800)))
        for arm, step in zip(("none", "tree8", "tree32"), steps, strict=True)
    ]
    bench, out = tmp_path / "bench.json", tmp_path / "tree.json"
    bench.write_text("a table\n" + json.dumps({"rows": rows}) + "\n")
    assert main(["heads", "tree", "--bench", str(bench), "--out", str(out)]) == 0
    sizes = json.loads(out.read_text())["sizes"]
    assert 8 <= sizes["1"] <= 32
    assert sizes["8"] == 0
    bench.write_text(json.dumps({"rows": []}))
    assert main(["heads", "tree", "--bench", str(bench), "--out", str(out)]) == 2
    assert "no batch size" in capsys.readouterr().err


@pytest.mark.engine
def test_heads_are_trained_from_a_file_of_replies(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "heads"
    command = ["heads", "train", "--replies", str(few), "--out", str(out), "--architecture", "medusa"]
    command += ["--draft-vocabulary", "512", "--epochs", "1", "--rows", "64"]
    assert main([*command, "--held-out", read(few)[0].topic]) == 0
    assert last_line(capsys)["acceptance"]["greedy_all"]["tokens_per_step"]["chain"] >= 1
    assert main(["heads", "eval", "--heads", str(out), "--replies", str(few), "--json"]) == 0
    assert set(last_line(capsys)["tokens_per_step"]) == {"medusa"}


@pytest.mark.engine
def test_training_goes_on_from_heads_of_the_same_sizes(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = str(shipped_path("medusa"))
    command = ["heads", "train", "--replies", str(few), "--architecture", "medusa", "--begin", begin]
    command += ["--epochs", "1", "--rate", "1e-6", "--held-out", read(few)[0].topic]
    assert main([*command, "--out", str(tmp_path / "same")]) == 0
    trained = last_line(capsys)["acceptance"]["greedy_all"]["tokens_per_step"]
    assert main(["heads", "eval", "--heads", str(tmp_path / "same"), "--replies", str(few), "--json"]) == 0
    last_line(capsys)
    assert read_about(tmp_path / "same" / "medusa.safetensors")["begin"] == read_about(Path(begin))["provenance"]
    assert trained["chain"] > 1.3
    assert main([*command, "--out", str(tmp_path / "other"), "--depth", "3"]) == 2
    assert "heads of other sizes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (["heads", "eval", "--replies", "none.jsonl"], "none.jsonl"),
        (["heads", "tree", "--heads", "./none", "--nodes", "4", "--out", "x.json"], "none does not exist"),
        (["heads", "train", "--replies", "none.jsonl", "--out", "heads"], "none.jsonl"),
    ],
)
def test_a_wrong_input_is_named(
    command: list[str], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert fault in capsys.readouterr().err
