"""Heads as files: ours, vLLM's, and those of Medusa's authors."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.heads.checkpoint import Checkpoint, CheckpointError, load, save, write_for_vllm
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


def test_matrices_of_the_heads_own_come_back_and_go_to_vllm(tmp_path: Path) -> None:
    heads, target = small.heads("medusa"), small.target()
    own = tuple(torch.randn(3, small.VOCABULARY, small.HIDDEN).bfloat16().float())
    save(tmp_path / "h.safetensors", Checkpoint(heads, target.token_map, {}, own))
    back = load(tmp_path / "h.safetensors")
    assert torch.equal(torch.stack(back.own), torch.stack(own))
    write_for_vllm(tmp_path, back, torch.zeros(small.VOCABULARY, small.HIDDEN), torch.float32)
    tensors, config = load_file(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    assert [torch.equal(tensors[f"lm_heads.{head}.weight"], own[head]) for head in range(3)] == [True] * 3
    assert not config["original_lm_head"]
    assert config["truncated_vocab_size"] == config["vocab_size"]
    assert "token_map" not in tensors
