"""Compile Triton's one host module ahead of time, so that the image that runs needs no C compiler.

Triton compiles kernels with its own assembler, but the Python module through which it talks to the driver with the
system's C compiler, at first use, into TRITON_CACHE_DIR. The cache key holds the folder of libcuda, so TRITON_LIBCUDA_PATH
must be the same here and where the image runs. libcuda itself comes with the driver: an empty library stands in.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from triton.backends.nvidia import driver
from triton.runtime.build import compile_so_from_file


def main() -> int:
    """Fill TRITON_CACHE_DIR; the exit status."""
    folder = Path(os.environ["TRITON_LIBCUDA_PATH"])
    stand_in = folder / "libcuda.so.1"
    made = not stand_in.exists()
    if made:
        with tempfile.TemporaryDirectory() as empty:
            source = Path(empty) / "empty.c"
            source.touch()
            subprocess.run(["gcc", "-shared", "-o", stand_in, source], check=True)
    try:
        built = compile_so_from_file(
            src_path=os.path.join(driver.dirname, "driver.c"),
            name="cuda_utils",
            library_dirs=driver.library_dirs(),
            include_dirs=driver.include_dirs,
            libraries=driver.libraries,
        )
    finally:
        if made:
            stand_in.unlink()
    print(built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
