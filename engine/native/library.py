"""The compiled loops of this folder, where they were compiled.

They are loaded only where OpenMP has been preloaded: in the engine's process, and where heads are trained.
"""

import ctypes
import functools
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal

_POINTER = ctypes.c_void_p

Kept = Literal["int8", "float16"]
"""How a matrix is kept: in blocks of 8 bits (int8_block.h), or in float16."""

WIDEST_FIRST: Mapping[Kept, tuple[str, ...]] = {
    "int8": ("engine.native._loops_avx512_int8", "engine.native._loops_avxvnni_int8"),
    "float16": ("engine.native._loops_avx512", "engine.native._loops_avx2"),
}


@functools.cache
def library(kept: Kept) -> ctypes.CDLL | None:
    """Those for matrices that are kept so, with the widest registers that this processor has; None where none were compiled,
    or none suit it. What is not about matrices is the same in all."""
    return next((loops for name in WIDEST_FIRST[kept] if (loops := loaded(name)) is not None), None)


def width(kept: Kept) -> int:
    """Of what `library` gives: all sizes are multiples of it."""
    loops = library(kept)
    assert loops is not None
    return int(loops.size_unit())


def compiled(name: str) -> bool:
    """Whether one of the modules was compiled, for whatever processor; does not load it."""
    return find_spec(name) is not None


def loaded(name: str) -> ctypes.CDLL | None:
    """One of the modules that were compiled; None where it was not, or does not suit this processor."""
    spec = find_spec(name)
    return None if spec is None or spec.origin is None else opened(spec.origin)


def opened(path: str) -> ctypes.CDLL | None:
    """The loops of a file; None where they do not suit this processor."""
    try:
        loops = ctypes.CDLL(path)
    except OSError:  # no OpenMP was preloaded
        return None
    loops.product.argtypes = (*[_POINTER] * 3, *[ctypes.c_long] * 3)
    loops.layer.argtypes = [_POINTER] * 6
    loops.model.argtypes = (*[_POINTER] * 3, ctypes.c_long, *[_POINTER] * 8)
    loops.draft_level.argtypes = (*[_POINTER] * 2, ctypes.c_long, *[_POINTER] * 3, ctypes.c_long, *[_POINTER] * 2)
    loops.move_tokens.argtypes = (*[_POINTER] * 2, ctypes.c_long, *[_POINTER] * 2, ctypes.c_long)
    for procedure in (loops.product, loops.layer, loops.draft_level, loops.move_tokens):
        procedure.restype = None
    loops.model.restype = ctypes.c_double
    for size in (loops.panel_width, loops.size_unit):
        size.restype = ctypes.c_long
    return loops if loops.supported() else None
