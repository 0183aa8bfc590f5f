"""The real engines of `voicepace bench published`: made, looked at from outside, and the draft model cut for them."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from engine import embedded_model
from engine.api import Engine, EngineError, EngineStartError
from engine.options import EngineOptions

Progress = Callable[[str], None]


class Host(Protocol):
    """What the benchmark needs beside the engines themselves."""

    def make(self, options: EngineOptions) -> Engine:
        """An engine, not yet started."""

    async def forget(self, engine: Engine) -> None:
        """Empty its prefix cache: a block must not profit from the one before."""

    def memory_bytes(self, engine: Engine) -> int | None:
        """Resident memory of its processes, None where unknown."""


@dataclass(frozen=True, slots=True)
class VllmHost:
    """Engines over vLLM.

    Args:
        cache_dir: of the embedded model.
        progress: takes a line for every long step.
    """

    cache_dir: Path
    progress: Progress

    def make(self, options: EngineOptions) -> Engine:
        """A `VllmEngine`."""
        from engine.vllm_engine import VllmEngine

        return VllmEngine(options, self.cache_dir, self.progress)

    async def forget(self, engine: Engine) -> None:
        """The core drops its blocks only once it has let go of the last request.

        Raises:
            EngineError: it still holds one after ten seconds.
        """
        from engine.vllm_engine import VllmEngine

        try:
            async with asyncio.timeout(10):
                while not await cast(VllmEngine, engine).client.reset_prefix_cache():
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise EngineError("the engine holds on to a reply that has ended") from error

    def memory_bytes(self, engine: Engine) -> int | None:
        """Of the core's processes and their children. On a GPU this is host memory only."""
        import psutil  # type: ignore[import-untyped]

        from engine.vllm_engine import VllmEngine

        try:
            cores = [psutil.Process(pid) for pid in cast(VllmEngine, engine).core_pids()]
            family = {process for core in cores for process in (core, *core.children(recursive=True))}
            return sum(process.memory_info().rss for process in family) or None
        except psutil.Error:
            return None


def cut_draft_model(cache_dir: Path, layers: int, progress: Progress) -> Path:
    """The first `layers` layers of the embedded model as a draft model, made in the cache folder where missing.

    Raises:
        EngineStartError: the embedded model is not there, or cutting it failed.
    """
    checkpoint = embedded_model.ready(cache_dir, progress)
    folder = checkpoint.with_name(f"{checkpoint.name}-first-{layers}")
    if folder.exists():
        return folder
    progress(f"cutting the first {layers} layers of the embedded model as a draft model (once)")
    try:
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _cut(checkpoint, fresh, layers)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise EngineStartError(f"draft model: {folder}: {error.strerror or error}") from error
    return folder


def _cut(checkpoint: Path, folder: Path, layers: int) -> None:
    """In a process of its own, so that torch's memory is given back."""
    command = [sys.executable, "-m", "engine.embedded_model", "cut", str(checkpoint), str(folder), str(layers)]
    root = str(Path(__file__).resolve().parent.parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        raise EngineStartError(f"draft model: {lines[-1]}")
