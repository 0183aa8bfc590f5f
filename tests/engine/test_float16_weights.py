"""Products with float16 weights against torch's, and which layers are held in them; without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.model_executor.layers import utils as layers

from engine.float16_weights import hold_in_float16, loaded, wanted

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer_of(weight: torch.Tensor) -> Any:
    layer: Any = torch.nn.Module()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer


@pytest.mark.parametrize("remove_weight", [False, True])
def test_float16_weights_say_what_bfloat16_said(remove_weight: bool) -> None:
    weight = random(0, 96, 64).bfloat16().float()
    layer = layer_of(weight)
    assert hold_in_float16(layer, remove_weight)
    assert layer.weight.numel() == (0 if remove_weight else weight.numel())
    x = random(1, 7, 64)
    torch.testing.assert_close(layer.cpu_linear(x, layer.weight, None), x @ weight.T, atol=1e-5, rtol=1e-5)
    bias = random(2, 96)
    torch.testing.assert_close(layer.cpu_linear(x, layer.weight, bias), x @ weight.T + bias, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "weight",
    [
        torch.ones(8, 8, dtype=torch.bfloat16),
        torch.ones(8, 1, 4),
        torch.full((8, 8), 7e4),
        torch.full((8, 8), torch.nan),
    ],
    ids=["other type", "no matrix", "out of range", "not a number"],
)
def test_other_weights_are_left_to_vllm(weight: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    monkeypatch.setattr(layers, "dispatch_cpu_unquantized_gemm", lambda layer, remove_weight: left.append(layer))
    layer = layer_of(weight)
    with loaded():
        layers.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    assert left == [layer]
    assert layer.weight.numel() == weight.numel()


def test_only_layers_loaded_meanwhile_are_held_in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    monkeypatch.setattr(layers, "dispatch_cpu_unquantized_gemm", lambda layer, remove_weight: left.append(layer))
    inside, outside = layer_of(torch.ones(8, 8)), layer_of(torch.ones(8, 8))
    with loaded():
        layers.dispatch_cpu_unquantized_gemm(inside, remove_weight=True)
    layers.dispatch_cpu_unquantized_gemm(outside, remove_weight=True)
    assert left == [outside]


@pytest.mark.parametrize(
    ("weights", "computed", "stored", "held"),
    [
        ("auto", torch.float32, torch.bfloat16, True),
        ("auto", torch.float32, torch.float16, True),
        ("auto", torch.float32, torch.float32, False),
        ("auto", torch.float32, None, False),
        ("auto", torch.bfloat16, torch.bfloat16, False),
        ("float16", torch.float32, torch.float32, True),
        ("float16", torch.bfloat16, torch.bfloat16, False),
        ("float32", torch.float32, torch.bfloat16, False),
    ],
)
def test_weights_of_sixteen_bits_are_held_in_as_many(
    weights: str, computed: torch.dtype, stored: torch.dtype | None, held: bool
) -> None:
    model = SimpleNamespace(dtype=computed, hf_config=SimpleNamespace(dtype=stored), enforce_eager=True)
    assert wanted(SimpleNamespace(model_config=model, additional_config={"weights": weights})) is held


def test_code_that_is_compiled_keeps_float32() -> None:
    model = SimpleNamespace(dtype=torch.float32, hf_config=SimpleNamespace(dtype=torch.bfloat16), enforce_eager=False)
    assert not wanted(SimpleNamespace(model_config=model, additional_config={"weights": "auto"}))
    with pytest.raises(ValueError, match="set enforce_eager"):
        wanted(SimpleNamespace(model_config=model, additional_config={"weights": "float16"}))
