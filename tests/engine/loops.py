"""The compiled loops that this processor may run, and what they make of numbers, in float64."""

import torch

from engine.native import library, panels
from engine.native.library import Kept

NARROW_INT8 = "engine.native._loops_avxvnni_int8"
ALL: list[tuple[Kept, str]] = [(kept, name) for kept, names in library.WIDEST_FIRST.items() for name in names]


def as_kept(matrix: torch.Tensor, kept: Kept) -> torch.Tensor:
    """[out, in] float64: what the loops have of a matrix."""
    if kept == "float16":
        return matrix.half().double()
    q, step, least = panels.rounded(matrix.view(len(matrix), -1, panels.BLOCK))
    return (q.double() * step.double()[..., None] + least.double()[..., None]).view(matrix.shape)


def as_multiplied(x: torch.Tensor, kept: Kept) -> torch.Tensor:
    """[rows, in] float64: what the loops make of rows before they multiply."""
    if kept == "float16":
        return x.double()
    blocks = x.view(len(x), -1, panels.BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True)
    # As the loops have it, so that float32 rows are rounded to the same steps.
    q = (blocks * (127 / largest).where(largest > 1e-30, torch.zeros_like(largest))).round()
    return (q.double() * (largest / 127).double()).view(x.shape)
