"""Products of a few rows with a fixed matrix by oneDNN, as vLLM multiplies with the model's own matrices on a CPU.

The matrix is laid out once for the processor at hand. With two to eight rows, which is what drafting a tree has, that
takes half the time of torch's product, which lays it out anew in every call.
"""

import torch
from vllm import _custom_ops as ops

_CACHED_SHAPES = 32


class PackedProduct:
    """Implements `engine.heads.architectures.Product`; matrices must not change once they have been multiplied with."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, torch.Size], tuple[torch.Tensor, ops.CPUDNNLGEMMHandler]] = {}

    def __call__(self, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        """[n, in] times [out, in] gives [n, out]."""
        key = (matrix.data_ptr(), matrix.shape)
        packed = self._packed.get(key)
        if packed is None:
            # The matrix is kept, so that no other can take its address.
            packed = self._packed[key] = (matrix, ops.create_onednn_mm(matrix.t(), _CACHED_SHAPES))
        product: torch.Tensor = ops.onednn_mm(packed[1], rows, None)
        return product
