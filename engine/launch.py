"""From options to a running `AsyncLLM`, and from whatever goes wrong on the way to one clear line.

Blocking work (imports, waiting for the core) runs in a thread, so that the service can answer "not ready" meanwhile.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import embedded_model, openmp
from engine.api import EngineStartError
from engine.arguments import cpu_dtype, vllm_arguments
from engine.core_process import Fault, GuardedContext, Standby, StandbyContext, environment_set, one_line
from engine.hardware import CpuFacts, available_memory_bytes, read_cpu
from engine.heads.names import is_ours
from engine.options import EngineOptions
from engine.tree.fallback import Fallback, is_unfit, reason_of, without_trees

logger = logging.getLogger("voicepace.engine")

Progress = Callable[[str], None]


@dataclass(slots=True)
class Launcher:
    """Starts engines with the same options, one at a time.

    Args:
        options: the settings.
        cache_dir: for the embedded model.
        progress: takes a line for every long step.

    Attributes:
        in_use: the settings of the engine that runs.
        fallback: how they differ from `options` where trees cannot be used; None where they do not.
    """

    options: EngineOptions
    cache_dir: Path
    progress: Progress
    fallback: Fallback | None = field(init=False, default=None)
    in_use: EngineOptions = field(init=False)
    _scratch: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="voicepace-", ignore_cleanup_errors=True)
    )

    def __post_init__(self) -> None:
        self.in_use = self.options

    @property
    def fault(self) -> Fault:
        """Where the core leaves the reason of its death."""
        return Fault(Path(self._scratch.name) / "fault")

    @property
    def tally_path(self) -> Path:
        """Where the core counts what trees gave (`engine.tree.tally`)."""
        return Path(self._scratch.name) / "tally"

    async def launch(self) -> Any:
        """A running `AsyncLLM`.

        Raises:
            EngineStartError: one line that says what is wrong.
        """
        building = asyncio.get_running_loop().run_in_executor(None, self._build)
        try:
            return await asyncio.shield(building)
        except asyncio.CancelledError:
            # The thread cannot be stopped; what it builds is taken down as soon as it is there.
            building.add_done_callback(_shut_down)
            raise

    def _environment(self) -> dict[str, str]:
        """For vLLM in this process and in the core."""
        level = self.options.vllm_log_level.upper()
        environment = {
            "VLLM_LOGGING_LEVEL": level,
            "VLLM_NO_USAGE_STATS": "1",
            "TORCH_CPP_LOG_LEVEL": "WARNING" if level in ("DEBUG", "INFO") else "ERROR",
            # Spawned helpers of vLLM's inherit this process's own start method otherwise.
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        }
        if self.options.embedded:
            environment["HF_HUB_OFFLINE"] = "1"
        return environment | openmp.preloading(os.environ, openmp.library())

    def _build(self) -> Any:
        self.in_use, self.fallback = self.options, None
        try:
            return self._build_with(self.options)
        except EngineStartError as error:
            if self.options.speculation != "medusa_tree" or not is_unfit(str(error)):
                raise
            self.in_use = without_trees(self.options)
            self.fallback = Fallback(self.in_use.speculation, reason_of(str(error)))
            logger.error("%s; running with speculation %s instead", error, self.in_use.speculation)
            return self._build_with(self.in_use)

    def _build_with(self, options: EngineOptions) -> Any:
        cpu = read_cpu()
        environment = self._environment()
        with environment_set(environment):
            model = self._embedded_folder() if options.embedded else None
            check_before_start(options, cpu, model)
            self.progress("loading the engine")
            self.fault.clear()
            standby = None
            if cpu is not None and options.tensor_parallel_size == 1:
                # Now, so that it imports while this process does.
                threads = openmp.thread_environment(cpu.cores, options.cpu_threads)
                standby = Standby(self.fault, environment | threads)
            try:
                context = GuardedContext(self.fault) if standby is None else StandbyContext(standby)
                arguments = vllm_arguments(options, cpu, model)
                if options.speculation == "medusa":
                    arguments["speculative_config"]["model"] = self._medusa_folder(arguments)
                if options.speculation == "medusa_tree":
                    arguments["additional_config"]["tree"]["tally"] = str(self.tally_path)
                return _async_llm(arguments, options, context)
            except Exception as error:
                if standby is not None:
                    standby.give_up()
                raise EngineStartError(f"engine: {self.fault.read() or _reason(error)}") from error

    def _embedded_folder(self) -> str:
        return str(embedded_model.ready(self.cache_dir, self.progress, int8=self.options.int8_copy))

    def _medusa_folder(self, arguments: dict[str, Any]) -> str:
        """What vLLM loads independent heads from: made from a file of ours, or what the settings name as it is."""
        name: str = arguments["speculative_config"]["model"]
        if not is_ours(name):
            return name
        from engine.heads.shipped import vllm_folder

        dtype = arguments["dtype"] if arguments["dtype"] != "auto" else "bfloat16"
        return str(vllm_folder(name, Path(arguments["model"]).expanduser(), self.cache_dir.expanduser(), dtype))


def _async_llm(arguments: dict[str, Any], options: EngineOptions, context: Any) -> Any:
    """Import vLLM and build the client; returns when the core says it is ready."""
    logging.getLogger("vllm").setLevel(options.vllm_log_level.upper())
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine import utils as core_launch
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.abstract import Executor

    config = AsyncEngineArgs(**arguments).create_engine_config()
    with _core_context(core_launch, context):
        return AsyncLLM(
            vllm_config=config, executor_class=Executor.get_class(config), log_requests=False, log_stats=True
        )


@contextmanager
def _core_context(core_launch: Any, context: Any) -> Iterator[None]:
    """vLLM asks a function of its own module for the multiprocessing context; answer for it while the core starts."""
    theirs = core_launch.get_mp_context
    core_launch.get_mp_context = lambda: context
    try:
        yield
    finally:
        core_launch.get_mp_context = theirs


def check_before_start(options: EngineOptions, cpu: CpuFacts | None, model: str | None) -> None:
    """Find the common mistakes before anything slow is started.

    Raises:
        EngineStartError: a folder does not exist or holds no model, or memory is short.
    """
    for key, value in (
        ("model", model or options.model),
        ("draft_model", options.draft_model),
        ("heads", options.heads),
    ):
        if value is None or not _is_path(value):
            continue
        folder = Path(value).expanduser()
        if not folder.exists():
            raise EngineStartError(f"engine.{key}: {value} does not exist")
        if key == "heads" and is_ours(value):
            continue
        if folder.is_dir() and not (folder / "config.json").exists():
            raise EngineStartError(f"engine.{key}: {value} holds no model (there is no config.json)")
    if cpu is not None:
        _check_memory(options, cpu, Path(model or options.model).expanduser())


def _check_memory(options: EngineOptions, cpu: CpuFacts, folder: Path) -> None:
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors")) if folder.is_dir() else 0
    # Checkpoints are stored in 16 bits; while they are read, the file and the copy are both there.
    needed = stored * (2 if cpu_dtype(options, cpu) == "float32" else 1) + int(options.cpu_kv_cache_gib * 2**30)
    available = available_memory_bytes()
    if needed > available:
        raise EngineStartError(
            f"engine: {needed / 2**30:.1f} GiB are needed for weights and KV cache and {available / 2**30:.1f} GiB of "
            "memory are available; lower engine.cpu_kv_cache_gib or choose a smaller model"
        )


def _is_path(name: str) -> bool:
    """A Hugging Face name is `owner/name`; anything that starts like a path, or is a folder here, is one."""
    return name.startswith(("/", "./", "../", "~")) or Path(name).is_dir()


def _reason(error: BaseException) -> str:
    """One line; vLLM's configuration errors come wrapped in pydantic's, whose first line only counts them."""
    errors = getattr(error, "errors", None)
    if callable(errors) and (details := errors()):
        return str(details[0].get("msg", "")).splitlines()[0].removeprefix("Value error, ")
    return one_line(error)


def _shut_down(building: "asyncio.Future[Any]") -> None:
    if not building.cancelled() and building.exception() is None:
        building.result().shutdown(timeout=0)
