"""Products with weights in fewer bits against torch's, and which layers are kept so; without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.model_executor.layers import utils as layers

from engine import kept_weights
from engine.kept_weights import KeptProduct, keep, loaded, wanted
from engine.native.library import library

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines and library("float16") is None,
    reason="nothing multiplies with float16 here",
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
    assert keep(layer, remove_weight, "float16")
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
    with loaded("float16"):
        layers.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    assert left == [layer]
    assert layer.weight.numel() == weight.numel()


def test_only_layers_loaded_meanwhile_are_kept_so(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    monkeypatch.setattr(layers, "dispatch_cpu_unquantized_gemm", lambda layer, remove_weight: left.append(layer))
    inside, outside = layer_of(torch.ones(8, 8)), layer_of(torch.ones(8, 8))
    with loaded("float16"):
        layers.dispatch_cpu_unquantized_gemm(inside, remove_weight=True)
    layers.dispatch_cpu_unquantized_gemm(outside, remove_weight=True)
    assert left == [outside]


@pytest.mark.skipif(library("int8") is None, reason="not compiled here, or for another processor")
def test_8_bits_say_nearly_the_same_and_parts_of_a_block_are_kept_in_float16() -> None:
    matrix, x = random(0, 96, 64), random(1, 7, 64)
    in_8_bits, exact = KeptProduct(matrix, "int8"), x @ matrix.T
    assert in_8_bits.panels is not None
    assert in_8_bits.panels.kept == "int8"
    assert 1e-5 < (in_8_bits(x) - exact).square().mean().sqrt() / exact.square().mean().sqrt() < 0.01
    in_16_bits = KeptProduct(matrix[:, :40], "int8")
    assert in_16_bits.panels is not None
    assert in_16_bits.panels.kept == "float16"


@pytest.mark.parametrize(
    ("weights", "computed", "stored", "kept"),
    [
        ("auto", torch.float32, torch.bfloat16, "float16"),
        ("auto", torch.float32, torch.float16, "float16"),
        ("auto", torch.float32, torch.float32, None),
        ("auto", torch.float32, None, None),
        ("auto", torch.bfloat16, torch.bfloat16, None),
        ("float16", torch.float32, torch.float32, "float16"),
        ("float16", torch.bfloat16, torch.bfloat16, None),
        ("float32", torch.float32, torch.bfloat16, None),
        ("int8", torch.float32, torch.bfloat16, "int8"),
        ("int8", torch.bfloat16, torch.bfloat16, None),
        ("int8 or auto", torch.float32, torch.bfloat16, "int8"),
    ],
)
def test_weights_of_sixteen_bits_are_kept_in_as_many_unless_fewer_are_asked_for(
    weights: str,
    computed: torch.dtype,
    stored: torch.dtype | None,
    kept: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_weights, "library", lambda kept: object())
    assert wanted(config(weights, computed, stored)) == kept


def config(weights: str, computed: torch.dtype, stored: torch.dtype | None, eager: bool = True) -> Any:
    model = SimpleNamespace(dtype=computed, hf_config=SimpleNamespace(dtype=stored), enforce_eager=eager)
    return SimpleNamespace(model_config=model, additional_config={"weights": weights})


def test_code_that_is_compiled_keeps_float32() -> None:
    assert wanted(config("auto", torch.float32, torch.bfloat16, eager=False)) is None
    for weights in ("float16", "int8"):
        with pytest.raises(
            ValueError, match=f"cpu_weights {weights} works without compilation only: set enforce_eager"
        ):
            wanted(config(weights, torch.float32, torch.bfloat16, eager=False))


def test_weights_that_cannot_be_multiplied_with_here_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_weights, "library", lambda kept: None)
    assert wanted(config("int8 or auto", torch.float32, torch.bfloat16)) in ("float16", None)
    with pytest.raises(ValueError, match="cpu_weights int8: engine.native has no products with them on this machine"):
        wanted(config("int8", torch.float32, torch.bfloat16))
