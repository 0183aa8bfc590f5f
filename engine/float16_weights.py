"""Products of float32 rows with weights kept in float16, by a loop of our own, or FBGEMM's, which comes with torch.

A decode step takes as long as reading the weights, which are half the bytes of float32; sums stay in float32. vLLM's own
products read float32 weights where the cores do not multiply in bfloat16. FBGEMM (arXiv 2101.05615) reads them at half
the speed of memory, and once for every six rows; it stands in where our own was not compiled.

Loaded in the engine's process only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from vllm.model_executor.layers import utils as layers

from engine.native.float16_product import Panels, available


class Float16Product:
    """Products with a float16 copy of a matrix, summed in float32.

    What bfloat16 can say is the same in float16 above 6e-5, and rounded to multiples of 6e-8 below.

    Args:
        matrix: [out, in] float32 within float16's range; not kept once it is packed.
    """

    def __init__(self, matrix: torch.Tensor) -> None:
        self._matrix: torch.Tensor | None = matrix
        self._multiply: Callable[[torch.Tensor], torch.Tensor]
        self._panels: Panels | None = None

    @property
    def panels(self) -> Panels | None:
        """The copy, where it is of our own layout."""
        self.pack()
        return self._panels

    def pack(self) -> None:
        """Make the copy, if that was not done; else the first product does it."""
        if self._matrix is None:
            return
        if available():
            self._panels = Panels(self._matrix)
            self._multiply = self._panels.product
        else:
            packed = torch.ops.quantized.linear_prepack_fp16(self._matrix, None)
            self._multiply = lambda x: torch.ops.quantized.linear_dynamic_fp16.default(x, packed)
        self._matrix = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], float32."""
        self.pack()
        return self._multiply(x)


def fits_float16(matrix: torch.Tensor) -> bool:
    """Whether `Float16Product` takes it."""
    return matrix.dtype == torch.float32 and bool(matrix.abs().max() <= torch.finfo(torch.float16).max)


def hold_in_float16(layer: torch.nn.Module, remove_weight: bool) -> bool:
    """Let a float32 layer of vLLM's multiply with a float16 copy of its weights.

    Args:
        layer: unquantized.
        remove_weight: whether the layer's own weights go. Where they stay, as those of embeddings, which may never be
            multiplied with, the copy is made at the first product.

    Returns:
        False where the layer is not of that kind and nothing was done; else it has the copy as `float16_product`.
    """
    weight = layer.weight
    if weight.is_meta or weight.ndim != 2 or not fits_float16(weight):
        return False
    multiply = Float16Product(weight.data)
    if remove_weight:
        multiply.pack()
        layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)

    def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        result = multiply(x)
        return result if bias is None else result + bias

    layer.cpu_linear = product
    layer.float16_product = multiply
    return True


def wanted(vllm_config: Any) -> bool:
    """Whether an engine's settings want its weights in float16 (`engine.options`, `cpu_weights`).

    Compiled code cannot hold what is packed, so `auto` is float32 there.

    Raises:
        ValueError: `float16` of code that is to be compiled.
    """
    model, weights = vllm_config.model_config, vllm_config.additional_config.get("weights")
    if model.dtype != torch.float32 or "fbgemm" not in torch.backends.quantized.supported_engines:
        return False
    stored = getattr(model.hf_config, "dtype", None)
    if weights == "float16" and not model.enforce_eager:
        raise ValueError("cpu_weights float16 works without compilation only: set enforce_eager")
    return weights == "float16" or (
        weights == "auto" and model.enforce_eager and stored in (torch.float16, torch.bfloat16)
    )


@contextmanager
def loaded() -> Iterator[None]:
    """Layers that are loaded meanwhile multiply with float16 weights; those that cannot are left to vLLM."""
    theirs = layers.dispatch_cpu_unquantized_gemm

    def dispatch(layer: torch.nn.Module, remove_weight: bool) -> None:
        if not hold_in_float16(layer, remove_weight):
            theirs(layer, remove_weight)

    layers.dispatch_cpu_unquantized_gemm = dispatch
    try:
        yield
    finally:
        layers.dispatch_cpu_unquantized_gemm = theirs
