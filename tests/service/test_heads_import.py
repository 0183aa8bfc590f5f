"""`voicepace heads import` on a checkpoint in the layout of Medusa's authors, for a model of a few thousand weights."""

import json
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from engine.heads.checkpoint import load
from engine.heads.names import is_ours
from engine.heads.replies import Reply, write
from engine.heads.shipped import vllm_folder
from engine.heads.tree_choice import path_shares_of
from service.cli import main
from tests.engine.heads import authors_checkpoint

HIDDEN, VOCABULARY = 16, 48


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    config = LlamaConfig(
        hidden_size=HIDDEN,
        vocab_size=VOCABULARY,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    authors_checkpoint.write(tmp_path / "medusa_lm_head.pt", 3, HIDDEN, VOCABULARY)
    return tmp_path


def test_imported_heads_are_judged_and_serve_chains_and_trees(
    model: Path, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [Reply((1, 2, 3), tuple(range(at, at + 24)), 0.7 * (at % 4 > 1), "any") for at in range(12)]
    write(tmp_path / "replies.jsonl.gz", replies, {})
    out = tmp_path / "heads"
    command = ["heads", "import", "--from", str(theirs), "--model", str(model), "--out", str(out)]
    assert main([*command, "--replies", str(tmp_path / "replies.jsonl.gz")]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {found["replies"] for found in document["acceptance"].values()} == {3}
    assert is_ours(str(out))
    assert path_shares_of(load(out / "medusa.safetensors").about)
    assert (vllm_folder(str(out), model, tmp_path / "cache", "float32") / "config.json").is_file()
    assert (
        main(
            ["heads", "tree", "--heads", str(out), "--architecture", "medusa", "--nodes", "4"]
            + ["--out", str(tmp_path / "tree.json")]
        )
        == 0
    )
    eval_command = ["heads", "eval", "--heads", str(out), "--model", str(model), "--json"]
    assert main([*eval_command, "--replies", str(tmp_path / "replies.jsonl.gz")]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])["tokens_per_step"]) == {"medusa"}


def test_without_replies_only_the_file_is_made(model: Path, theirs: Path, tmp_path: Path) -> None:
    command = ["heads", "import", "--from", str(theirs), "--model", str(model), "--out", str(tmp_path / "heads")]
    assert main(command) == 0
    assert len(load(tmp_path / "heads" / "medusa.safetensors").own) == 3


def test_a_wrong_source_is_named(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["heads", "import", "--from", str(tmp_path / "none"), "--model", str(model), "--out", str(tmp_path)]
    assert main(command) == 2
    assert "neither a file nor a folder" in capsys.readouterr().err
