"""The product of float16_product.c, called with torch's tensors.

Loaded in the engine's process only, where OpenMP has been preloaded.
"""

import ctypes
import functools
from importlib.util import find_spec

import torch

_WIDTH = 16
"""Outputs of a panel, as in the C file."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The compiled file; None where it was not compiled, or does not suit this machine."""
    spec = find_spec("engine.native._float16_product")
    if spec is None or spec.origin is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
    except OSError:  # no OpenMP was preloaded
        return None
    library.product.argtypes = (*[ctypes.c_void_p] * 3, *[ctypes.c_long] * 3)
    library.product.restype = None
    return library if library.supported() else None


def available() -> bool:
    """Whether this machine has it."""
    return _library() is not None


class Panels:
    """A matrix laid out for the product.

    Args:
        matrix: [out, in] of any floating type, within float16's range.

    Raises:
        RuntimeError: not available here.
    """

    def __init__(self, matrix: torch.Tensor) -> None:
        library = _library()
        if library is None:
            raise RuntimeError("float16_product was not compiled for this machine")
        self._product = library.product
        self._outputs, self._inputs = matrix.shape
        padded = torch.nn.functional.pad(matrix.half(), (0, 0, 0, -self._outputs % _WIDTH))
        self._panels = padded.view(-1, _WIDTH, self._inputs).transpose(1, 2).contiguous()
        self._address = self._panels.data_ptr()

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], float32; a row's result does not depend on the rows beside it."""
        if x.dtype != torch.float32 or x.shape[-1] != self._inputs:
            raise ValueError(f"takes float32 rows of {self._inputs}, not {x.dtype} of {x.shape[-1]}")
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], self._outputs)
        rows = x.numel() // self._inputs
        self._product(x.data_ptr(), self._address, y.data_ptr(), rows, self._inputs, self._outputs)
        return y
