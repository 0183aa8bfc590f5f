"""Products of a few rows with a fixed matrix, which is laid out once for the processor at hand.

As the engine multiplies with the model's own matrices on a CPU: by oneDNN, or with copies in fewer bits
(`engine.kept_weights`). With two to eight rows, which is what drafting a tree has, that takes half the time of
torch's product or less, which lays the matrix out anew in every call.
"""

from collections.abc import Callable

import torch
from vllm import _custom_ops as ops

from engine.kept_weights import KeptProduct, can_keep
from engine.native.library import Kept

_CACHED_SHAPES = 32

Multiply = Callable[[torch.Tensor], torch.Tensor]


class PackedProduct:
    """Implements `engine.heads.architectures.Product`; matrices must not change once they have been multiplied with.

    Args:
        kept: how the copies are kept that float32 matrices are multiplied with as; None: as they are.
    """

    def __init__(self, kept: Kept | None) -> None:
        self._kept = kept
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
        if self._kept and can_keep(matrix):
            return KeptProduct(matrix.detach(), self._kept)
        handler = ops.create_onednn_mm(matrix.t(), _CACHED_SHAPES)
        return lambda rows: ops.onednn_mm(handler, rows, None)
