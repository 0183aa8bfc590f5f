"""Products of a few rows with a fixed matrix, which is laid out once for the processor at hand.

As the engine multiplies with the model's own matrices on a CPU: by oneDNN, or with float16 copies
(`engine.float16_weights`). With two to eight rows, which is what drafting a tree has, that takes half the time of
torch's product or less, which lays the matrix out anew in every call.
"""

from collections.abc import Callable

import torch
from vllm import _custom_ops as ops

from engine.float16_weights import Float16Product, fits_float16

_CACHED_SHAPES = 32

Multiply = Callable[[torch.Tensor], torch.Tensor]


class PackedProduct:
    """Implements `engine.heads.architectures.Product`; matrices must not change once they have been multiplied with.

    Args:
        float16: whether float32 matrices are multiplied with as float16 copies.
    """

    def __init__(self, float16: bool) -> None:
        self._float16 = float16
        self._packed: dict[tuple[int, torch.Size], tuple[torch.Tensor, Multiply]] = {}

    def __call__(self, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        """[n, in] times [out, in] gives [n, out]."""
        key = (matrix.data_ptr(), matrix.shape)
        packed = self._packed.get(key)
        if packed is None:
            # The matrix is kept, so that no other can take its address.
            packed = self._packed[key] = (matrix, self._multiply(matrix))
        return packed[1](rows)

    def _multiply(self, matrix: torch.Tensor) -> Multiply:
        if self._float16 and fits_float16(matrix):
            return Float16Product(matrix.detach())
        handler = ops.create_onednn_mm(matrix.t(), _CACHED_SHAPES)
        return lambda rows: ops.onednn_mm(handler, rows, None)
