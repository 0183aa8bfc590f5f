"""Products of float32 rows with weights kept in fewer bits, by loops of our own, or FBGEMM's, which comes with torch.

A decode step takes as long as reading the weights. In float16 they are half the bytes of float32, and sums stay in
float32. In 8 bits they are a quarter, and processors with VNNI multiply four times as many of them in the same time; rows
are rounded to 8 bits as well then, in blocks of 32 (`engine/native/int8_block.h`). vLLM's own products read float32
weights where the cores do not multiply in bfloat16. FBGEMM (arXiv 2101.05615) reads float16 at half the speed of memory,
and once for every six rows; it stands in where our own was not compiled.

Loaded in the engine's process only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from vllm.model_executor.layers import utils as layers

from engine.native.library import Kept, library
from engine.native.panels import BLOCK, Panels


class KeptProduct:
    """Products with a copy of a matrix in fewer bits, summed in float32.

    What bfloat16 can say is the same in float16 above 6e-5, and rounded to multiples of 6e-8 below.

    Args:
        matrix: [out, in] float32 within float16's range; not kept once it is packed.
        kept: how it is kept, if its inputs are whole blocks; else in float16.
    """

    def __init__(self, matrix: torch.Tensor, kept: Kept) -> None:
        self._matrix: torch.Tensor | None = matrix
        self._kept: Kept = kept if matrix.shape[1] % BLOCK == 0 else "float16"
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
        if library(self._kept) is not None:
            self._panels = Panels(self._matrix, self._kept)
            self._multiply = self._panels.product
        else:
            packed = torch.ops.quantized.linear_prepack_fp16(self._matrix, None)
            self._multiply = lambda x: torch.ops.quantized.linear_dynamic_fp16.default(x, packed)
        self._matrix = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], float32."""
        self.pack()
        return self._multiply(x)


def can_keep(matrix: torch.Tensor) -> bool:
    """Whether `KeptProduct` takes it."""
    return matrix.dtype == torch.float32 and bool(matrix.abs().max() <= torch.finfo(torch.float16).max)


def keep(layer: torch.nn.Module, remove_weight: bool, kept: Kept) -> bool:
    """Let a float32 layer of vLLM's multiply with a copy of its weights in fewer bits.

    Args:
        layer: unquantized.
        remove_weight: whether the layer's own weights go. Where they stay, as those of embeddings, which may never be
            multiplied with, the copy is made at the first product.
        kept: how the copy is kept.

    Returns:
        False where the layer is not of that kind and nothing was done; else it has the copy as `kept_product`.
    """
    weight = layer.weight
    if weight.is_meta or weight.ndim != 2 or not can_keep(weight):
        return False
    multiply = KeptProduct(weight.data, kept)
    if remove_weight:
        multiply.pack()
        layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)

    def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        result = multiply(x)
        return result if bias is None else result + bias

    layer.cpu_linear = product
    layer.kept_product = multiply
    return True


def wanted(vllm_config: Any) -> Kept | None:
    """How an engine's settings want its weights to be kept (`engine.options`, `cpu_weights`); None: in float32.

    Compiled code cannot hold what is packed, so `auto` is float32 there. `int8 or auto` is int8 if this process can.

    Raises:
        ValueError: weights in fewer bits in code that is to be compiled, or that this machine has no products with.
    """
    model, weights = vllm_config.model_config, vllm_config.additional_config.get("weights", "float32")
    if model.dtype != torch.float32 or weights == "float32":
        return None
    if weights == "int8 or auto" and model.enforce_eager and _multiplies("int8"):
        return "int8"
    if weights in ("auto", "int8 or auto"):
        stored = getattr(model.hf_config, "dtype", None)
        of_16_bits = model.enforce_eager and stored in (torch.float16, torch.bfloat16)
        return "float16" if of_16_bits and _multiplies("float16") else None
    if not model.enforce_eager:
        raise ValueError(f"cpu_weights {weights} works without compilation only: set enforce_eager")
    if not _multiplies(weights):
        raise ValueError(f"cpu_weights {weights}: engine.native has no products with them on this machine")
    return cast(Kept, weights)


def _multiplies(kept: Kept) -> bool:
    fbgemm = "fbgemm" in torch.backends.quantized.supported_engines
    return library(kept) is not None or (kept == "float16" and fbgemm)


@contextmanager
def loaded(kept: Kept) -> Iterator[None]:
    """Layers that are loaded meanwhile multiply with weights that are kept so; those that cannot are left to vLLM."""
    theirs = layers.dispatch_cpu_unquantized_gemm

    def dispatch(layer: torch.nn.Module, remove_weight: bool) -> None:
        if not keep(layer, remove_weight, kept):
            theirs(layer, remove_weight)

    layers.dispatch_cpu_unquantized_gemm = dispatch
    try:
        yield
    finally:
        layers.dispatch_cpu_unquantized_gemm = theirs
