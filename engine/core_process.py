"""How the engine core's process comes to life on a CPU: forked from a template that has imported everything already.

vLLM would start three Python processes one after the other (service, core, worker), each importing vLLM and torch for
itself; on two cores that is most of the time to ready. Here a template process (multiprocessing's forkserver) imports
while the service imports, and the core is forked from it in no time, also when it has to be started again after a
crash. The template runs no thread and no OpenMP region, so forking it is safe.

The core's own failure is handed back as one line (`Fault`), and the core never outlives the service.
"""

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

# What the core imports on its way up. Not numba (n-gram drafting): vLLM walks over all loaded modules when a worker
# starts and trips over one of llvmlite's.
_TEMPLATE_IMPORTS = (
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.model_executor.models.llama",
    "engine.cpu_worker",
    "engine.cpu_executor",
)
_PR_SET_PDEATHSIG = 1


class Fault:
    """Where a core process leaves the reason of its death, one line.

    Args:
        path: a file only this engine uses.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def clear(self) -> None:
        """Forget an earlier reason."""
        self._path.unlink(missing_ok=True)

    def write(self, error: BaseException) -> None:
        """Keep the reason; called in the core process."""
        with contextlib.suppress(OSError):
            self._path.write_text(one_line(error))

    def read(self) -> str | None:
        """The reason, None where the core gave none (it was killed)."""
        try:
            return self._path.read_text() or None
        except OSError:
            return None


def one_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def start_template(environment: Mapping[str, str]) -> None:
    """Start the template process, or do nothing where it runs; returns at once while it imports.

    Args:
        environment: what it needs beside this process's own environment, such as `LD_PRELOAD`.
    """
    multiprocessing.set_forkserver_preload(list(_TEMPLATE_IMPORTS))
    with environment_set(environment):
        forkserver.ensure_running()


@contextlib.contextmanager
def environment_set(environment: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while: processes started meanwhile inherit them."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def context(fault: Fault, environment: Mapping[str, str], *, forked: bool) -> SpawnContext | ForkServerContext:
    """What vLLM takes for its multiprocessing context when it starts the core.

    Args:
        fault: where the core leaves the reason of its death.
        environment: set in the core before it starts.
        forked: from the template (`start_template`), else from nothing, as vLLM does on a GPU.
    """

    service_pid = os.getpid() if forked else None

    def wrapped(options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "target": _run, "args": (options["target"], fault, dict(environment), service_pid)}

    if forked:

        class Forked(ForkServerContext):
            def Process(self, **options: Any) -> ForkServerProcess:  # type: ignore[override]
                return ForkServerProcess(**wrapped(options))

        return Forked()

    class Spawned(SpawnContext):
        def Process(self, **options: Any) -> SpawnProcess:  # type: ignore[override]
            return SpawnProcess(**wrapped(options))

    return Spawned()


def _run(
    target: Callable[..., None], fault: Fault, environment: Mapping[str, str], service_pid: int | None, **kwargs: Any
) -> None:
    """The core process: run vLLM's own entry point and leave one line where it fails."""
    if service_pid is not None:
        _die_with(service_pid)
    os.environ.update(environment)
    # Deprecations inside vLLM and torch, and a start that fails: both are for developers; `fault` has the reason.
    warnings.filterwarnings("ignore")
    logging.getLogger("vllm.v1.engine.core").addFilter(lambda record: "failed to start" not in str(record.msg))
    try:
        target(**kwargs)
    except Exception as error:
        fault.write(error)
        sys.exit(1)


def _die_with(service_pid: int) -> None:
    """Have the kernel end this process when the template ends, which it does with the service, however that ends.

    Only for forked cores: the signal follows the parent's *thread*, and the template has but one.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if not Path(f"/proc/{service_pid}").exists():
            sys.exit(1)
