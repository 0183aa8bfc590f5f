"""How the engine core's process comes to life on a CPU: it stands by with everything imported before it is asked for.

vLLM would start three Python processes one after the other (service, core, worker), each importing vLLM and torch for
itself; on two cores that is most of the time to ready. Here the core's process is started first and imports while the
service imports; when vLLM then wants to start its core, the waiting process is handed the work. (Forking it from a
template would be quicker still, but Intel's OpenMP binds the threads of a forked process and spins more: steps took
more than twice the processor time.)

The core's own failure is handed back as one line (`Fault`), and the core never outlives the service.
"""

import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

# What the core imports on its way up. Not numba (n-gram drafting): vLLM walks over all loaded modules when a worker
# starts and trips over one of llvmlite's.
IMPORTS = (
    "engine.quiet",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.model_executor.models.llama",
    "engine.cpu_worker",
    "engine.cpu_executor",
)


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


class Standby:
    """A process that waits, imports done, to become the engine core.

    Args:
        fault: where it leaves the reason of its death.
        environment: what it needs beside this process's own, such as `LD_PRELOAD` and the number of threads.
        imports: modules it loads while it waits.
    """

    def __init__(self, fault: Fault, environment: Mapping[str, str], imports: tuple[str, ...] = IMPORTS) -> None:
        self._ours, theirs = Pipe()
        self.process = SpawnProcess(target=_stand_by, name="EngineCore", args=(theirs, fault, imports), daemon=True)
        with environment_set(environment):
            self.process.start()
        # Only the process itself may keep its end: then either side sees at once that the other has gone.
        theirs.close()

    def hand_over(self, target: Callable[..., None], kwargs: Mapping[str, Any]) -> None:
        """Have the process run `target(**kwargs)`; at most once."""
        self._ours.send((target, kwargs))

    def give_up(self) -> None:
        """End the process, whatever it does."""
        self._ours.close()
        self.process.kill()
        self.process.join()


class StandbyContext(SpawnContext):
    """What vLLM takes for its multiprocessing context when it starts the core: one process, which is there already."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby

    def Process(self, *, target: Callable[..., None], name: str, kwargs: Mapping[str, Any]) -> Any:  # type: ignore[override]
        """A process object whose `start` hands the work over."""
        return _Waiting(self._standby, target, kwargs)


class _Waiting:
    """Passes for a `multiprocessing` process that has not been started."""

    def __init__(self, standby: Standby, target: Callable[..., None], kwargs: Mapping[str, Any]) -> None:
        self._standby, self._target, self._kwargs = standby, target, kwargs

    def start(self) -> None:
        self._standby.hand_over(self._target, self._kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._standby.process, name)


class GuardedContext(SpawnContext):
    """Spawns as vLLM does, but the core leaves the reason where it fails."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def Process(self, *, target: Callable[..., None], name: str, kwargs: Mapping[str, Any]) -> Any:  # type: ignore[override]
        """A process that runs `target` and notes its failure."""
        return SpawnProcess(target=_run, name=name, args=(self._fault, target), kwargs=kwargs)


def _stand_by(connection: Connection, fault: Fault, imports: tuple[str, ...]) -> None:
    try:
        for module in imports:
            importlib.import_module(module)
        target, kwargs = connection.recv()
    except EOFError:
        return
    except Exception as error:
        fault.write(error)
        sys.exit(1)
    threading.Thread(target=_end_with_the_service, args=(connection,), name="service-watch", daemon=True).start()
    _run(fault, target, **kwargs)


def _end_with_the_service(connection: Connection) -> None:
    """The pipe closes when the service ends, however it ends."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def _run(fault: Fault, target: Callable[..., None], **kwargs: Any) -> None:
    """Run vLLM's own entry point and leave one line where it fails."""
    # Deprecations inside vLLM and torch, and a start that fails: both are for developers; `fault` has the reason.
    warnings.filterwarnings("ignore")
    logging.getLogger("vllm.v1.engine.core").addFilter(lambda record: "failed to start" not in str(record.msg))
    try:
        target(**kwargs)
    except Exception as error:
        fault.write(error)
        sys.exit(1)
