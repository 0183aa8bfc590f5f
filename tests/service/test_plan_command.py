import argparse
import json
from pathlib import Path

import pytest

from engine.bench.step_time import Workload
from engine.fake import Script, ScriptedEngine
from engine.plan.delivery import Arrival, Bursts, simulate
from engine.plan.drafts import usual_draft
from engine.plan.published import L4_MEDUSA_MS, L4_PLAIN_MS
from service.plan_command import _Pacers, add_arguments, paced, run
from service.step_measurement import write_measurement
from tests.virtual_time import run_virtual
from tts_adapter.pacer import Pacer

SMOL = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
    "max_position_embeddings": 8192,
}
# No number of calls fits such a step, so that none is searched for.
LONG_STEP = ["--overhead-ms", "30"]
L4_PAIR = ["--gpu", "L4", "--model", "llama-3-8b", "--weights", "bf16", "--bandwidth-efficiency", "1", "--calls", "1"]


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert command(*words, "--json") == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_published_l4_pair_comes_out_within_a_fifth(capsys: pytest.CaptureFixture[str]) -> None:
    plain = document(capsys, *L4_PAIR, "--speculation", "none")
    medusa = document(capsys, *L4_PAIR, "--speculation", "medusa", "--tokens-per-step", "2.77", "--draft-read", "none")
    assert plain["tit_ms"] == pytest.approx(L4_PLAIN_MS, rel=0.2)
    assert medusa["tit_ms"] == pytest.approx(L4_MEDUSA_MS, rel=0.2)


def test_per_head_reads_cost_what_they_read(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*L4_PAIR, "--speculation", "medusa", "--tokens-per-step", "2.77", "--draft-read"]
    steps = [document(capsys, *words, read)["step_ms"] for read in ("none", "stacked", "per_head")]
    assert steps[1] - steps[0] == pytest.approx(4, abs=1)
    assert steps[2] - steps[0] == pytest.approx(14, abs=1)


def test_another_gpu_says_another_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for gpu in ("L4", "A10", "H100"):
        assert command("--gpu", gpu, "--speculation", "medusa_tree") == 0
        said.append(capsys.readouterr().out.splitlines()[-1])
    assert len(set(said)) == 3
    assert "does not meet 20 ms" in said[0]
    assert said[2].startswith("One H100 meets 20 ms")


def test_the_pacers_curve_decides_how_many_calls_fit(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--gpu", "L4", "--weights", "fp8", "--speculation", "medusa_tree", "--max-first-hold-ms"]
    held, unheld = (document(capsys, *words, hold) for hold in ("250", "0"))
    assert held["calls_by_limit"]["bursts"] > unheld["calls_by_limit"]["bursts"]
    assert held["calls_by_limit"]["step_time"] == unheld["calls_by_limit"]["step_time"]


def test_the_pacer_in_virtual_time_keeps_its_word() -> None:
    arrivals = [Arrival(0.1 + 0.03 * step, 1 if step % 2 else 3) for step in range(30)]
    released = paced(Pacer(), arrivals)
    arrived = [arrival.at_s for arrival in arrivals for _ in range(arrival.tokens)]
    assert len(released) == len(arrived)
    assert released == sorted(released)
    assert all(out >= came for came, out in zip(arrived, released, strict=True))
    assert paced(Pacer(), []) == []


@pytest.mark.parametrize(("step_s", "tokens", "least"), [(0.029, 2.4, 0.99), (0.0446, 2.77, 0.96), (0.045, 2.45, 0.92)])
def test_the_simulated_share_is_that_of_the_design(step_s: float, tokens: float, least: float) -> None:
    bursts = Bursts(usual_draft("medusa", tokens_per_step=tokens).burst_shares(), step_s)
    one_step = simulate(bursts, _Pacers(20.0, 1000 * step_s), 0.020)
    assert one_step.within >= least
    assert simulate(bursts, _Pacers(20.0, 3000 * step_s), 0.020).within >= one_step.within


def test_a_config_file_or_its_folder_is_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMOL))
    known = document(capsys, "--model", "smollm2-135m", *LONG_STEP)
    for path in (tmp_path, tmp_path / "config.json"):
        from_file = document(capsys, "--model", str(path), *LONG_STEP)
        assert from_file["step_ms"] == known["step_ms"]
        assert from_file["kv_room_tokens"] == known["kv_room_tokens"]


def test_a_gpu_can_be_given_by_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    own = document(capsys, "--bandwidth-gbs", "300", "--tflops", "121", "--memory-gb", "24", *LONG_STEP)
    assert own["step_ms"] == document(capsys, "--gpu", "L4", *LONG_STEP)["step_ms"]
    assert own["gpu"] == "custom GPU"


def test_cost_is_that_of_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    figures = document(
        capsys, "--gpu", "H100", "--price-per-hour", "3", "--calls", "5", "--tensor-parallel", "2", "--context", "8192"
    )
    assert figures["cost_per_call_minute"] == pytest.approx(6 / 60 / 5)


def test_a_measured_acceptance_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "acceptance.json"
    path.write_text(json.dumps({"accepted_by_depth": [0.6, 0.3, 0.1]}))
    words = ["--speculation", "medusa", "--acceptance", str(path), *LONG_STEP]
    assert document(capsys, *words)["tokens_per_step"] == pytest.approx(2.0)
    path.write_text(json.dumps({"tokens_per_step": 2.2}))
    assert document(capsys, *words)["tokens_per_step"] == pytest.approx(2.2)
    assert document(capsys, *words, "--tokens-per-step", "3")["tokens_per_step"] == 3
    unused = document(capsys, "--acceptance", str(path), *LONG_STEP)
    assert unused["tokens_per_step"] == 1
    assert "not used" in unused["notes"][0]


def measurement(path: Path, tokens_per_step: float = 1.0) -> Path:
    rows = [
        {"batch": batch, "step_ms": 38.0 + 2 * batch, "ttft_ms": 50.0 + 20 * batch, "tokens_per_step": tokens_per_step}
        for batch in (1, 4)
    ]
    path.write_text(json.dumps({"kind": "step_time", "model": "smol", "batches": rows}))
    return path


def test_a_measurement_of_this_machine_predicts_another_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = measurement(tmp_path / "step.json")
    eight = document(capsys, "--calibrate", str(path), "--calls", "8")
    assert eight["step_ms"] == pytest.approx(54)
    assert eight["ttft_ms"] == pytest.approx(210)
    assert eight["kv_room_tokens"] is None
    assert "batch 1, 4" in eight["notes"][0]
    assert str(eight["sentence"]).startswith("This machine does not meet 20 ms for 8 calls")


def test_a_measurement_under_speculation_brings_its_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = measurement(tmp_path / "step.json", tokens_per_step=2.5)
    assert command("--calibrate", str(path)) == 2
    assert "speculation" in capsys.readouterr().err
    figures = document(capsys, "--calibrate", str(path), "--speculation", "medusa")
    assert figures["tit_ms"] == pytest.approx(40 / 2.5)


def test_a_measurement_is_written_whole_and_planned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.json"
    engine = ScriptedEngine(" ".join(["word"] * 100), Script(first_token_s=0.05, step_time_s=0.015))
    run_virtual(write_measurement(engine, path, Workload((1, 4), reply_tokens=30, steps=20)))
    assert engine.dead
    assert [entry.name for entry in tmp_path.iterdir()] == ["step.json"]
    figures = document(capsys, "--calibrate", str(path), "--calls", "2")
    assert figures["step_ms"] == pytest.approx(15)
    assert figures["ttft_ms"] == pytest.approx(50)


def test_a_measurement_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = measurement(tmp_path / "step.json")
    before = path.read_text()
    engine = ScriptedEngine("one two three", Script(die_after_bursts=1))
    with pytest.raises(ExceptionGroup):
        run_virtual(write_measurement(engine, path, Workload((1,), reply_tokens=30, steps=20)))
    assert engine.dead
    assert path.read_text() == before


def test_measuring_and_calibrating_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--measure", str(tmp_path / "new.json"), "--calibrate", str(tmp_path / "old.json")) == 2
    assert "voicepace plan: measure: " in capsys.readouterr().err


def test_the_published_comparison_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    figures = document(capsys, "--published")
    assert len(figures["h100"]) == 4
    assert command("--published") == 0
    text = capsys.readouterr().out
    assert "16.1 ms is impossible" in text
    assert "concurrency 32" in text


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--gpu", "Voodoo2"], "gpu"),
        (["--bandwidth-gbs", "300"], "gpu"),
        (["--gpu", "L4", "--bandwidth-gbs", "300", "--tflops", "1", "--memory-gb", "1"], "gpu"),
        (["--bandwidth-gbs", "-1", "--tflops", "1", "--memory-gb", "1"], "bandwidth"),
        (["--model", "gpt-17"], "model"),
        (["--calls", "0"], "calls"),
        (["--context", "9000"], "context"),
        (["--speculation", "ngram"], "tokens-per-step"),
        (["--speculation", "medusa", "--tokens-per-step", "9"], "tokens-per-step"),
        (["--speculation", "draft_model", "--tokens-per-step", "3"], "draft-model"),
        (["--acceptance", "missing.json", "--speculation", "medusa"], "acceptance"),
        (["--calibrate", "missing.json"], "calibrate"),
        (["--calibrate", "missing.json", "--gpu", "L4"], "calibrate"),
        (["--tensor-parallel", "3"], "tensor-parallel"),
        (["--overhead-ms", "nan"], "overhead"),
        (["--objective-ms", "0"], "pacing|objective"),
        (["--max-first-hold-ms", "-1"], "pacing"),
        (["--price-per-hour", "0"], "price-per-hour"),
    ],
)
def test_a_bad_input_is_named_in_one_line(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert any(f"voicepace plan: {name}: " in captured.err for name in named.split("|"))


@pytest.mark.parametrize("text", ["[]", "{}", "not json", '{"tokens_per_step": true}', '{"accepted_by_depth": [2]}'])
def test_a_file_that_is_not_an_acceptance_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "acceptance.json"
    path.write_text(text)
    assert command("--speculation", "medusa", "--acceptance", str(path)) == 2
    assert "voicepace plan: acceptance: " in capsys.readouterr().err
