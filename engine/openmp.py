"""The environment of a process that computes on the CPU.

vLLM's CPU kernels and torch share one OpenMP runtime. With Intel's (`libiomp5.so`, from the `intel-openmp` package)
two threads are many times faster than with GNU's, but only if it is there before anything else brings another: it
must be in `LD_PRELOAD` when the process starts.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

LIBRARY = "libiomp5.so"

# Something may take `LD_PRELOAD` away on the way.
_RESTARTED = "OPENMP_RESTARTED"


def library(prefix: str = sys.prefix) -> Path | None:
    """Intel's OpenMP in this environment, None where it is not installed."""
    path = Path(prefix) / "lib" / LIBRARY
    return path if path.exists() else None


def preloading(environ: Mapping[str, str], path: Path | None) -> dict[str, str]:
    """`LD_PRELOAD` with the library in front of what is there already; nothing to set where there is no library."""
    if path is None:
        return {}
    others = [entry for entry in environ.get("LD_PRELOAD", "").split(":") if entry and LIBRARY not in entry]
    return {"LD_PRELOAD": ":".join([str(path), *others])}


def restart_with(path: Path | None) -> None:
    """Run the command of this process anew with the library in front, unless it is there already; once."""
    wanted = preloading(os.environ, path)
    if _RESTARTED not in os.environ and any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted, _RESTARTED: "1"})


def thread_environment(cores: tuple[int, ...], threads: int | None) -> dict[str, str]:
    """How many threads compute, and how they wait.

    Args:
        cores: CPUs that compute, one of each physical core.
        threads: how many to use of them, from the first; None for all.
    """
    count = len(cores) if threads is None else threads
    return {
        "OMP_NUM_THREADS": str(count),
        # Milliseconds a thread spins for the next piece of work before it sleeps: the gaps between the operators of one
        # step are shorter, the gap between two steps is longer and belongs to the event loop and the voice.
        "KMP_BLOCKTIME": "1",
        # Waiting in a low-power state saves energy and makes every operator start late.
        "KMP_TPAUSE": "0",
    }
