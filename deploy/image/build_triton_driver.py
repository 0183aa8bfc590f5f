"""Compile Triton's one host module ahead of time, so that the image that runs needs no C compiler.

Triton compiles kernels with its own assembler, but the Python module through which it talks to the driver with the
system's C compiler, at first use, into TRITON_CACHE_DIR. The cache key holds the folder of libcuda, so TRITON_LIBCUDA_PATH
must be the same here and where the image runs. libcuda itself comes with the driver: an empty library stands in.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from triton.backends.nvidia.driver import CudaUtils


def main() -> int:
    """Fill TRITON_CACHE_DIR; the exit status."""
    stand_in = Path(os.environ["TRITON_LIBCUDA_PATH"]) / "libcuda.so.1"
    made = not stand_in.exists()
    if made:
        with tempfile.TemporaryDirectory() as empty:
            source = Path(empty) / "empty.c"
            source.touch()
            subprocess.run(["gcc", "-shared", "-o", stand_in, source], check=True)
    try:
        # Compiled and kept before it is loaded; loading may fail, for there is no driver here.
        with suppress(ImportError):
            CudaUtils()
    finally:
        if made:
            stand_in.unlink()
    built = list(Path(os.environ["TRITON_CACHE_DIR"]).glob("*/cuda_utils*.so"))
    print(*built)
    return 0 if len(built) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
