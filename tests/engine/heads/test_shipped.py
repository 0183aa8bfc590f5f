"""What `engine.heads` may name, and the folder made for vLLM."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.heads.checkpoint import Checkpoint, CheckpointError, save
from engine.heads.names import HeadsMissing, heads_path, is_ours
from engine.heads.shipped import fits, read_vocabulary, vllm_folder
from engine.heads.target import model_hash
from tests.engine.heads import small


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint that holds no more than is read of one."""
    folder = tmp_path / "model"
    folder.mkdir()
    torch.manual_seed(0)
    save_file({"model.embed_tokens.weight": torch.randn(small.VOCABULARY, small.HIDDEN)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"hidden_size": 12, "transformers_version": "5"}')
    return folder


@pytest.fixture
def heads(tmp_path: Path, model: Path) -> Path:
    """A folder with medusa heads trained on that model."""
    folder = tmp_path / "heads"
    folder.mkdir()
    about = {"target": {"sha256": model_hash(model)}}
    save(folder / "medusa.safetensors", Checkpoint(small.heads("medusa"), small.target().token_map, about))
    return folder


def test_names_lead_to_files(heads: Path) -> None:
    assert heads_path(str(heads), "medusa") == heads / "medusa.safetensors"
    assert heads_path(str(heads / "medusa.safetensors"), "medusa") == heads / "medusa.safetensors"
    assert heads_path("shipped", "sequential").name == "sequential.safetensors"
    with pytest.raises(HeadsMissing, match=r"sequential\.safetensors does not exist"):
        heads_path(str(heads), "sequential")


def test_our_files_are_told_from_checkpoints_of_others(heads: Path, model: Path) -> None:
    assert is_ours("shipped")
    assert is_ours(str(heads))
    assert is_ours(str(heads / "medusa.safetensors"))
    assert not is_ours(str(model))
    assert not is_ours("someone/medusa-heads")


def test_the_hash_is_of_the_model_not_of_the_library(model: Path) -> None:
    before = model_hash(model)
    (model / "config.json").write_text('{"transformers_version": "6", "hidden_size": 12}')
    assert model_hash(model) == before
    (model / "config.json").write_text('{"hidden_size": 13}')
    assert model_hash(model) != before
    assert model_hash(model / "none") is None


def test_vllms_folder_is_made_once(heads: Path, model: Path, tmp_path: Path) -> None:
    folder = vllm_folder(str(heads), model, tmp_path / "cache", "float32")
    written = load_file(folder / "model.safetensors")
    assert torch.equal(written["lm_heads.0.weight"], read_vocabulary(model)[small.target().token_map])
    made = (folder / "config.json").stat().st_mtime_ns
    assert vllm_folder(str(heads), model, tmp_path / "cache", "float32") == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    full = vllm_folder(str(heads), model, tmp_path / "cache", "float32", full_vocabulary=True)
    assert len(load_file(full / "model.safetensors")["lm_heads.0.weight"]) == small.VOCABULARY
    assert sorted(path.name for path in (tmp_path / "cache" / "heads").iterdir()) == sorted([folder.name, full.name])


def test_heads_of_another_model_are_refused(heads: Path, model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text('{"hidden_size": 12, "rope_theta": 1}')
    assert not fits({"target": {"sha256": "other"}}, model)
    with pytest.raises(CheckpointError, match="trained on another model"):
        vllm_folder(str(heads), model, tmp_path, "float32")
