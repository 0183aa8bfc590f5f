"""The product of float16_product.c, called with torch's tensors."""

import torch

from engine.native.library import library


def available() -> bool:
    """Whether this machine has it."""
    return library() is not None


class Panels:
    """A matrix laid out for the product.

    Args:
        matrix: [out, in] of any floating type, within float16's range.

    Attributes:
        shape: (out, in).
        address: of the panels, valid as long as this object.

    Raises:
        RuntimeError: not available here.
    """

    def __init__(self, matrix: torch.Tensor) -> None:
        loops = library()
        if loops is None:
            raise RuntimeError("engine.native was not compiled for this machine")
        self._product = loops.product
        self.shape = self._outputs, self._inputs = matrix.shape
        width = loops.panel_width()
        padded = torch.nn.functional.pad(matrix.half(), (0, 0, 0, -self._outputs % width))
        self._panels = padded.view(-1, width, self._inputs).transpose(1, 2).contiguous()
        self.address = self._panels.data_ptr()

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], float32; a row's result does not depend on the rows beside it."""
        if x.dtype != torch.float32 or x.shape[-1] != self._inputs:
            raise ValueError(f"takes float32 rows of {self._inputs}, not {x.dtype} of {x.shape[-1]}")
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], self._outputs)
        rows = x.numel() // self._inputs
        self._product(x.data_ptr(), self.address, y.data_ptr(), rows, self._inputs, self._outputs)
        return y
