"""Matrices as panels.h reads them, and their product (product.c), called with torch's tensors."""

import torch

from engine.native.huge_pages import HugePages
from engine.native.library import Kept, library

BLOCK = 32
"""Inputs that share a step and a least value in 8 bits, as in int8_block.h."""

_MEMORY = HugePages()
_LEVELS = 255
_LEAST_NORMAL = 2.0**-14
"""Of float16."""


class Panels:
    """A matrix laid out for the product.

    Args:
        matrix: [out, in] of any floating type, within float16's range; `in` in whole blocks where it is kept in 8 bits.
        kept: how.

    Attributes:
        shape: (out, in).
        kept: as given.
        address: of the panels, valid as long as this object.

    Raises:
        RuntimeError: not available here.
        ValueError: a matrix in 8 bits with a part of a block.
    """

    def __init__(self, matrix: torch.Tensor, kept: Kept) -> None:
        loops = library(kept)
        if loops is None:
            raise RuntimeError(f"engine.native was not compiled for {kept} on this machine")
        self._product = loops.product
        self.kept = kept
        self.shape = self._outputs, self._inputs = matrix.shape
        width = loops.panel_width()
        padded = torch.nn.functional.pad(matrix, (0, 0, 0, -self._outputs % width)).view(-1, width, self._inputs)
        self._panels = _MEMORY.kept(in_blocks(padded) if kept == "int8" else padded.half().transpose(1, 2))
        self.address = self._panels.data_ptr()

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], float32; a row's result does not depend on the rows beside it."""
        if x.dtype != torch.float32 or x.shape[-1] != self._inputs:
            raise ValueError(f"takes float32 rows of {self._inputs}, not {x.dtype} of {x.shape[-1]}")
        # Rows are packed in place where the matrix is in 8 bits.
        x = x.clone(memory_format=torch.contiguous_format) if self.kept == "int8" else x.contiguous()
        y = x.new_empty(*x.shape[:-1], self._outputs)
        rows = x.numel() // self._inputs
        self._product(x.data_ptr(), self.address, y.data_ptr(), rows, self._inputs, self._outputs)
        return y


def rounded(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights in 8 bits: `least + step * q` differs from the weight by half a step at most, and what float16 loses of both.

    Args:
        values: [..., BLOCK], of which each block is rounded by itself.

    Returns:
        [..., BLOCK] q, uint8; [...] step and [...] least, float16.

    Raises:
        ValueError: a part of a block.
    """
    if values.shape[-1] != BLOCK:
        raise ValueError(f"8 bits are for blocks of {BLOCK} inputs, not {values.shape[-1]}")
    values = values.float()
    least = values.amin(-1).half()
    exact = (values.amax(-1) - least.float()) / _LEVELS
    step = exact.half()
    # Among float16's smallest numbers the nearest may be so much too small that 255 steps end far from the greatest weight.
    step = torch.where((step.float() < exact) & (step < _LEAST_NORMAL), torch.nextafter(step, step + 1), step)
    q = (values - least.float()[..., None]) / step.float()[..., None]
    # Where all weights of a block are the same, its step is 0.
    return q.nan_to_num(0.0, 0.0, 0.0).round().clamp(0, _LEVELS).to(torch.uint8), step, least


def in_blocks(panels: torch.Tensor) -> torch.Tensor:
    """[panels, width, in] to [panels, in / BLOCK, bytes of a block]."""
    count, width, inputs = panels.shape
    if inputs % BLOCK:
        raise ValueError(f"8 bits are for whole blocks of {BLOCK} inputs, not {inputs}")
    q, step, least = rounded(panels.view(count, width, -1, BLOCK))
    fours = q.view(count, width, -1, BLOCK // 4, 4).permute(0, 2, 3, 1, 4).flatten(2)
    heads = torch.stack((step, least), -1).permute(0, 2, 3, 1).contiguous().view(torch.uint8).flatten(2)
    return torch.cat((heads, fours), -1)
