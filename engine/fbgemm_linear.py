"""Products with int8 weights for x86 cores without VNNI, by FBGEMM, which comes with torch.

vLLM multiplies int8 by oneDNN, which has no kernel for packed int8 weights on these cores: it packs the whole matrix
again in every product, and a decode step takes several times as long as in float32. FBGEMM (arXiv 2101.05615) packs
once and reads a quarter of float32's bytes.

Without VNNI, two products of a weight and an activation are added in 16 bits and cut off where they do not fit. With
activations of 7 bits they always fit: 2 * 127 * 127 < 2**15. Rounded to 7 bits, activations cost far more than the
weights do: perplexity on held-out replies rises by an eighth. So each row is multiplied twice in the same product, as
its rounded values and as what the rounding left over, again in 7 bits. What remains is the loss of the weights. For the
few rows of a decode step, which takes as long as reading the weights, the second half is nearly free; prompts are read
more slowly.

Loaded in the engine's process only.
"""

import warnings
from typing import Any

import torch
from vllm.model_executor.kernels import linear
from vllm.model_executor.kernels.linear import CPUInt8ScaledMMLinearKernel
from vllm.platforms import PlatformEnum

from engine.hardware import lacks_vnni, read_cpuinfo

LEVELS = 63
"""Steps from zero to a token's largest activation, and from zero to the largest remainder."""
# FBGEMM's activations are unsigned; this one stands for zero.
_ZERO_POINT = 64


class FbgemmInt8Kernel(CPUInt8ScaledMMLinearKernel):  # type: ignore[misc]
    """vLLM's place for a way to multiply int8: one scale per output channel, one per token, both symmetric."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Where it is both needed and there."""
        if not lacks_vnni(read_cpuinfo()):
            return False, "is for x86 cores without VNNI"
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            return False, "needs a torch with FBGEMM"
        return super().is_supported(compute_capability)  # type: ignore[no-any-return]

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        """Other layouts are left to vLLM's own kernel."""
        if c.is_static_input_scheme or not (c.is_channelwise and c.input_symmetric):
            return False, "is for scales per channel and per token, both symmetric"
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Pack the layer's weights and let go of the checkpoint's."""
        weight, scale, *_ = self._get_layer_params(layer)
        self.packed = packed_int8(weight.data, scale.data)
        layer.weight = None

    def apply_weights(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """[..., in] to [..., out] in `x`'s type."""
        result = int8_product(x, self.packed)
        return result if bias is None else result + bias


def packed_int8(weight: torch.Tensor, scale: torch.Tensor) -> Any:
    """What `int8_product` multiplies with.

    Args:
        weight: [out, in] int8, none of them -128.
        scale: [out, 1] float32.
    """
    zeros = torch.zeros(len(weight), dtype=torch.long)
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():
            # torch means to drop quantized tensors in favour of another package.
            warnings.simplefilter("ignore")
            quantized = torch._make_per_channel_quantized_tensor(weight, scale.flatten().double(), zeros, 0)
            return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = engine


def int8_product(x: torch.Tensor, packed: Any) -> torch.Tensor:
    """`x @ weight.T` with each row of `x` rounded to `LEVELS` steps of its own scale, and its remainder likewise.

    A row's result does not depend on the other rows.

    Args:
        x: [..., in] of any floating type.
        packed: of `packed_int8`.
    """
    values = x.reshape(-1, x.shape[-1]).float()
    largest = torch.linalg.vector_norm(values, torch.inf, dim=-1, keepdim=True).clamp_(min=1e-20)
    steps = values * (LEVELS / largest)
    coarse = steps.round()
    # A remainder is at most half a step.
    both = torch.cat((coarse, (steps - coarse).mul_(2 * LEVELS)))
    product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(both, 1.0, _ZERO_POINT, packed)
    high, low = product.chunk(2)
    result = torch.add(high, low, alpha=1 / (2 * LEVELS)).mul_(largest / LEVELS)
    return result.view(*x.shape[:-1], -1).to(x.dtype)  # type: ignore[no-any-return]


def install() -> None:
    """Put the kernel before vLLM's own, in this process; vLLM's way of registering one puts it behind."""
    kernels = linear._POSSIBLE_INT8_KERNELS[PlatformEnum.CPU]
    if FbgemmInt8Kernel not in kernels:
        kernels.insert(0, FbgemmInt8Kernel)
