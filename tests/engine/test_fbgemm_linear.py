"""Products with int8 weights by FBGEMM against integers and float64, and which kernel vLLM takes; without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.model_executor.kernels import linear
from vllm.model_executor.kernels.linear import CPUInt8ScaledMMLinearKernel
from vllm.platforms import PlatformEnum

from engine import fbgemm_linear
from engine.fbgemm_linear import LEVELS, FbgemmInt8Kernel, int8_product, packed_int8
from engine.int8_weights import quantize

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)
NAMES = ["weight", "weight_scale", "input_scale", "input_zero_point", "azp_adj"]


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 20), st.sampled_from([32, 64, 192]), st.sampled_from([16, 48, 96]))
def test_no_activation_moves_by_more_than_half_a_step_of_its_remainder(
    seed: int, rows: int, wide: int, out: int
) -> None:
    weight, scale = quantize(random(seed, out, wide))
    x = random(seed + 1, rows, wide) * torch.logspace(-4, 4, rows)[:, None]
    exact = x.double() @ (weight.double() * scale.double()).T
    largest = x.double().abs().amax(dim=-1, keepdim=True)
    half_a_step = largest / LEVELS / (2 * LEVELS) / 2
    bound = half_a_step * (weight.double().abs() * scale.double()).sum(dim=1)
    got = int8_product(x, packed_int8(weight, scale))
    assert ((got - exact).abs() <= bound * 1.02 + largest * 1e-5).all()


def test_sums_of_the_largest_values_are_not_cut_off() -> None:
    wide = 576
    weight, scale = torch.full((16, wide), 127, dtype=torch.int8), torch.ones(16, 1)
    packed = packed_int8(weight, scale)
    for sign in (1.0, -1.0):
        got = int8_product(torch.full((3, wide), sign), packed)
        torch.testing.assert_close(got, torch.full((3, 16), sign * 127 * wide))


def test_a_row_does_not_depend_on_the_others() -> None:
    weight, scale = quantize(random(0, 48, 64))
    packed = packed_int8(weight, scale)
    x = random(1, 9, 64)
    x[4] *= 1e6
    together = int8_product(x, packed)
    for row in range(9):
        assert torch.equal(int8_product(x[row : row + 1], packed)[0], together[row])


def test_a_row_of_zeros_stays_zero_and_types_and_shapes_are_kept() -> None:
    packed = packed_int8(*quantize(random(0, 48, 64)))
    got = int8_product(torch.zeros(2, 3, 64, dtype=torch.bfloat16), packed)
    assert (got.shape, got.dtype) == ((2, 3, 48), torch.bfloat16)
    assert not got.any()


def config(**changes: Any) -> Any:
    usual = {"is_static_input_scheme": False, "is_channelwise": True, "input_symmetric": True}
    return SimpleNamespace(**(usual | changes))


@pytest.mark.parametrize(
    "other", [{"is_static_input_scheme": True}, {"is_channelwise": False}, {"input_symmetric": False}]
)
def test_other_layouts_are_left_to_vllm(other: dict[str, bool]) -> None:
    assert FbgemmInt8Kernel.can_implement(config())[0]
    assert not FbgemmInt8Kernel.can_implement(config(**other))[0]


def test_cores_with_vnni_are_left_to_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fbgemm_linear, "read_cpuinfo", lambda: ["flags : avx2 avx512_vnni"])
    assert not FbgemmInt8Kernel.is_supported()[0]
    monkeypatch.setattr(fbgemm_linear, "read_cpuinfo", lambda: ["flags : avx2"])
    assert FbgemmInt8Kernel.is_supported()[0]


def test_installed_it_comes_before_vllms_own_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [CPUInt8ScaledMMLinearKernel]
    monkeypatch.setitem(linear._POSSIBLE_INT8_KERNELS, PlatformEnum.CPU, kernels)
    fbgemm_linear.install()
    fbgemm_linear.install()
    assert kernels == [FbgemmInt8Kernel, CPUInt8ScaledMMLinearKernel]


def kernel_and_layer(monkeypatch: pytest.MonkeyPatch) -> tuple[FbgemmInt8Kernel, torch.nn.Module, torch.Tensor]:
    monkeypatch.setattr(fbgemm_linear, "read_cpuinfo", lambda: ["flags : avx2"])
    weight, scale = quantize(random(0, 48, 64))
    layer = torch.nn.Module()
    for name, value in (("weight", weight), ("weight_scale", scale)):
        layer.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    kernel = FbgemmInt8Kernel(config(), NAMES)
    kernel.process_weights_after_loading(layer)
    return kernel, layer, weight * scale


def test_the_kernel_multiplies_and_lets_the_checkpoints_weights_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, layer, weight = kernel_and_layer(monkeypatch)
    x, bias = random(1, 5, 64), random(2, 48)
    got = kernel.apply_weights(layer, x, bias)
    exact = x @ weight.T + bias
    assert layer.weight is None
    assert float((got - exact).norm() / exact.norm()) < 3e-4
