"""Measures step time against batch on the engine of the current settings, for `voicepace plan --measure`."""

import asyncio
import json
from pathlib import Path

from engine.api import Engine
from engine.bench.step_time import Workload, measure_step_time
from service.settings import Settings


def measure(settings: Settings, path: Path) -> None:
    """Starts the engine of `settings`, measures, stops it and writes the result to `path`.

    Raises:
        EngineError: the engine does not start, or fails; one clear line.
        OSError: `path` cannot be written.
    """
    from engine.vllm_engine import VllmEngine

    engine = VllmEngine(settings.engine, settings.cache_dir, print)
    batches = tuple(batch for batch in Workload().batches if batch <= settings.engine.max_num_seqs)
    asyncio.run(write_measurement(engine, path, Workload(batches)))


async def write_measurement(engine: Engine, path: Path, workload: Workload) -> None:
    """Starts, measures and stops `engine`; `path` is replaced only by a whole result."""
    try:
        await engine.start()
        document = await measure_step_time(engine, workload)
    finally:
        await engine.stop()
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
