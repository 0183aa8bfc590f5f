"""Rounding to int8, and the folder that vLLM is given."""

import json
from pathlib import Path

import pytest
import torch
from compressed_tensors.quantization import QuantizationConfig
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from engine.heads.target import model_hash
from engine.int8_weights import LEVELS, QUANTIZED_FROM, WEIGHTS, convert, quantization_config, quantize

LAYER = "model.layers.0"


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40), st.sampled_from([1e-30, 1e-4, 1.0, 1e6]))
def test_no_weight_moves_by_more_than_half_a_step_of_its_channel(seed: int, out: int, wide: int, size: float) -> None:
    weight = torch.randn(out, wide, generator=torch.Generator().manual_seed(seed)) * size
    rounded, scale = quantize(weight)
    assert rounded.dtype == torch.int8
    assert scale.shape == (out, 1)
    assert rounded.abs().amax(dim=1).eq(LEVELS).all()
    error = (rounded.double() * scale.double() - weight.double()).abs()
    assert (error <= scale.double() / 2 * (1 + 1e-5)).all()


@given(st.integers(0, 2**32 - 1))
def test_a_channels_rounding_does_not_depend_on_the_others(seed: int) -> None:
    weight = torch.randn(4, 16, generator=torch.Generator().manual_seed(seed))
    weight[1] *= 1000
    rounded, scale = quantize(weight)
    alone = [quantize(weight[row : row + 1]) for row in range(4)]
    assert torch.equal(rounded, torch.cat([row for row, _ in alone]))
    assert torch.equal(scale, torch.cat([row for _, row in alone]))


def test_a_channel_of_zeros_stays_zero() -> None:
    rounded, scale = quantize(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
    assert rounded.tolist() == [[0, 0], [64, -127]]
    assert torch.isfinite(scale).all()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "bf16"
    folder.mkdir()
    names = [f"{LAYER}.self_attn.q_proj.weight", f"{LAYER}.mlp.down_proj.weight", "model.embed_tokens.weight"]
    tensors = {name: torch.randn(8, 8).bfloat16() for name in names}
    tensors[f"{LAYER}.input_layernorm.weight"] = torch.ones(8).bfloat16()
    save_file(tensors, folder / WEIGHTS)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 8}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "manifest.json").write_text("not of this folder")
    return folder


def test_linear_layers_become_int8_and_the_rest_stays(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "int8"
    folder.mkdir()
    convert(checkpoint, folder)
    before, after = load_file(checkpoint / WEIGHTS), load_file(folder / WEIGHTS)
    linear = {f"{LAYER}.self_attn.q_proj.weight", f"{LAYER}.mlp.down_proj.weight"}
    assert set(after) == set(before) | {f"{name}_scale" for name in linear}
    for name, tensor in before.items():
        if name in linear:
            scale = after[f"{name}_scale"]
            assert (after[name].dtype, scale.dtype, scale.shape) == (torch.int8, torch.float32, (8, 1))
            torch.testing.assert_close(after[name] * scale, tensor.float(), atol=float(scale.max()) * 0.51, rtol=0)
        else:
            assert torch.equal(after[name], tensor)
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, "config.json", "tokenizer.json"}


def test_the_config_is_the_layout_and_keeps_the_models_own(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "int8"
    folder.mkdir()
    convert(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["vocab_size"] == 8
    assert config["quantization_config"] == quantization_config()
    assert config[QUANTIZED_FROM] == model_hash(checkpoint)


def test_the_same_heads_fit_the_copy(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "int8"
    folder.mkdir()
    convert(checkpoint, folder)
    assert model_hash(folder) == model_hash(checkpoint)


def test_the_layout_is_what_the_library_reads() -> None:
    layout = QuantizationConfig.model_validate(quantization_config())
    (group,) = layout.config_groups.values()
    assert (layout.format, layout.ignore, group.targets) == ("int-quantized", ["lm_head"], ["Linear"])
    assert (group.weights.strategy, group.weights.symmetric, group.weights.dynamic) == ("channel", True, False)
    tokens = group.input_activations
    assert (tokens.strategy, tokens.symmetric, tokens.dynamic, tokens.num_bits) == ("token", True, True, 8)


def test_a_model_without_known_layers_is_refused(tmp_path: Path) -> None:
    save_file({"model.embed_tokens.weight": torch.ones(2, 2)}, tmp_path / WEIGHTS)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="no linear layers"):
        convert(tmp_path, tmp_path / "out")
