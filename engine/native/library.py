"""The compiled loops of this folder, where they were compiled.

Loaded in the engine's process only, where OpenMP has been preloaded.
"""

import ctypes
import functools
from importlib.util import find_spec

_POINTER = ctypes.c_void_p


@functools.cache
def library() -> ctypes.CDLL | None:
    """None where they were not compiled, or do not suit this processor."""
    spec = find_spec("engine.native._loops")
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
    return loops if loops.supported() else None
