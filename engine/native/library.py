"""The compiled loops of this folder, where they were compiled.

Loaded in the engine's process only, where OpenMP has been preloaded.
"""

import ctypes
import functools
from importlib.util import find_spec

_POINTER = ctypes.c_void_p

WIDEST_FIRST = ("engine.native._loops_avx512", "engine.native._loops_avx2")


@functools.cache
def library() -> ctypes.CDLL | None:
    """Those with the widest registers that this processor has; None where none were compiled, or none suit it."""
    return next((loops for name in WIDEST_FIRST if (loops := loaded(name)) is not None), None)


def width() -> int:
    """Of what `library` gives: all sizes are multiples of it."""
    loops = library()
    assert loops is not None
    return int(loops.panel_width())


def loaded(name: str) -> ctypes.CDLL | None:
    """One of the modules that were compiled; None where it was not, or does not suit this processor."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return None
    try:
        loops = ctypes.CDLL(spec.origin)
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
    loops.panel_width.restype = ctypes.c_long
    return loops if loops.supported() else None
