"""Heads as files: ours, vLLM's, and those of Medusa's authors."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.heads.checkpoint import Checkpoint, CheckpointError, load, read_fasterdecoding, save, write_for_vllm
from tests.engine.heads import small


@pytest.mark.parametrize("architecture", ["medusa", "sequential"])
def test_saved_heads_come_back_in_bfloat16(tmp_path: Path, architecture: str) -> None:
    heads, target = small.heads(architecture), small.target()  # type: ignore[arg-type]
    save(tmp_path / "h.safetensors", Checkpoint(heads, target.token_map, {"paths": [[[0], 0.5]]}))
    back = load(tmp_path / "h.safetensors")
    assert back.heads.config == heads.config
    assert back.token_map.tolist() == target.token_map.tolist()
    assert back.about["paths"] == [[[0], 0.5]]
    for name, value in heads.state_dict().items():
        assert torch.equal(back.heads.state_dict()[name], value.bfloat16().float())


def test_a_file_without_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a file of heads"):
        load(tmp_path / "none.safetensors")
    (tmp_path / "text").write_text("no")
    with pytest.raises(CheckpointError, match="not a file of heads"):
        load(tmp_path / "text")


def test_vllm_gets_the_blocks_the_vocabulary_rows_and_the_map(tmp_path: Path) -> None:
    heads, target = small.heads("medusa"), small.target()
    vocabulary = torch.randn(small.VOCABULARY, small.HIDDEN)
    write_for_vllm(tmp_path, Checkpoint(heads, target.token_map, {}), vocabulary, torch.float32)
    tensors, config = load_file(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    assert torch.equal(tensors["lm_heads.0.weight"], vocabulary[target.token_map])
    assert torch.equal(tensors["blocks.2.layers.1.weight"], heads.weight[2, 1])
    assert torch.equal(tensors["blocks.2.layers.1.bias"], heads.bias[2, 1])
    assert tensors["token_map"].tolist() == target.token_map.tolist()
    assert (config["truncated_vocab_size"], config["vocab_size"]) == (24, 40)
    with pytest.raises(ValueError, match="independent"):
        write_for_vllm(tmp_path, Checkpoint(small.heads("sequential"), target.token_map, {}), vocabulary, torch.float32)


def test_a_checkpoint_of_medusas_authors_is_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight = torch.randn(2, small.HIDDEN, small.HIDDEN)
    bias = torch.randn(2, small.HIDDEN)
    vocabularies = torch.randn(2, small.VOCABULARY, small.HIDDEN)
    tensors = {
        f"{head}.{part}": value
        for head in range(2)
        for part, value in (
            ("0.linear.weight", weight[head]),
            ("0.linear.bias", bias[head]),
            ("1.weight", vocabularies[head]),
        )
    }
    torch.save(tensors, tmp_path / "medusa_lm_head.pt")
    heads, own = read_fasterdecoding(tmp_path / "medusa_lm_head.pt")
    hidden = torch.randn(3, small.HIDDEN)
    for head in range(2):
        expected = (hidden + torch.nn.functional.silu(hidden @ weight[head].T + bias[head])) @ vocabularies[head].T
        assert torch.allclose(heads.output(head, hidden) @ own[head].T, expected, atol=1e-5)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_fasterdecoding(tmp_path / "absent.pt")
    torch.save({"x": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="no residual block"):
        read_fasterdecoding(tmp_path / "other.pt")
