"""Checkpoints of Medusa's authors."""

from pathlib import Path

import pytest
import torch

from engine.heads.checkpoint import CheckpointError
from engine.heads.fasterdecoding import found, read
from tests.engine.heads import authors_checkpoint, small

SIZES = {"hidden": small.HIDDEN, "vocabulary": small.VOCABULARY}


@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_heads_say_what_their_checkpoint_says(tmp_path: Path, prefix: str) -> None:
    tensors = authors_checkpoint.write(tmp_path / "medusa_lm_head.pt", 2, **SIZES, prefix=prefix)
    checkpoint = read(found(tmp_path), **SIZES)
    hidden = torch.randn(3, small.HIDDEN)
    for head in range(2):
        block = hidden @ tensors[f"{head}.0.linear.weight"].T + tensors[f"{head}.0.linear.bias"]
        expected = (hidden + torch.nn.functional.silu(block)) @ tensors[f"{head}.1.weight"].T
        assert torch.allclose(checkpoint.heads.output(head, hidden) @ checkpoint.own[head].T, expected, atol=1e-5)
    assert checkpoint.token_map.tolist() == list(range(small.VOCABULARY))


def test_what_is_no_such_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="neither a file nor a folder"):
        found(tmp_path)
    path = tmp_path / "medusa_lm_head.pt"
    path.write_text("no")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(path, **SIZES)
    torch.save({"x": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="no residual block"):
        read(path, **SIZES)
    torch.save({"0.0.linear.weight": torch.zeros(small.HIDDEN, small.HIDDEN)}, path)
    with pytest.raises(CheckpointError, match="'0.1.weight' is missing"):
        read(path, **SIZES)


def test_heads_of_a_model_with_other_sizes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "medusa_lm_head.pt"
    authors_checkpoint.write(path, 2, **SIZES)
    with pytest.raises(
        CheckpointError, match="heads for 40 tokens and a hidden state 12 wide; the model has 41 and 12"
    ):
        read(path, small.HIDDEN, small.VOCABULARY + 1)
