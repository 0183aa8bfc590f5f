"""What costs a start of its own: another speculation, the death of the core, and starts that must fail."""

import asyncio
import os
import signal
import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from engine import embedded_model
from engine.api import EngineDead, EngineStartError, Sampling, TokenBurst
from engine.vllm_engine import VllmEngine
from tests.real_engine import ask, collect, cpu_demo, ids_of, nothing_left

pytestmark = [pytest.mark.engine, pytest.mark.anyio]

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"


@pytest.fixture(scope="module")
def first_layers(model_cache_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model cut to its first 4 layers."""
    folder = tmp_path_factory.mktemp("draft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedded_model.cut_layers(embedded_model.ready(model_cache_dir, print), folder, 4)
    return folder


@pytest.fixture(scope="module")
async def drafted_engine(anyio_backend: str, model_cache_dir: Path, first_layers: Path) -> AsyncIterator[VllmEngine]:
    """Draft-model speculation."""
    engine = VllmEngine(
        cpu_demo(speculation="draft_model", draft_model=str(first_layers), num_speculative_tokens=3), model_cache_dir
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await engine.start()
    yield engine
    await engine.stop()


async def drain(bursts: AsyncIterator[TokenBurst]) -> None:
    async for _ in bursts:
        pass


async def test_a_draft_model_changes_the_steps_and_not_the_tokens(
    drafted_engine: VllmEngine, real_engine: VllmEngine
) -> None:
    drafted = await collect(drafted_engine, ask(drafted_engine, COUNTING))
    looked_up = await collect(real_engine, ask(real_engine, COUNTING))
    assert ids_of(drafted) == ids_of(looked_up)
    assert sum(count for count, _ in drafted[-1].draft_steps) > 0
    assert all(count <= 3 for count, _ in drafted[-1].draft_steps)


async def test_a_core_that_is_killed_ends_its_replies_and_a_new_start_serves_again(drafted_engine: VllmEngine) -> None:
    request = ask(drafted_engine, "Once upon a time", Sampling(max_tokens=1000, temperature=0.0))
    before = await collect(drafted_engine, ask(drafted_engine, COUNTING))
    (pid,) = drafted_engine.core_pids()
    async with aclosing(drafted_engine.generate(request)) as bursts:
        await anext(bursts)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineDead):
            await asyncio.wait_for(drain(bursts), timeout=20)
    assert drafted_engine.dead
    with pytest.raises(EngineDead):
        await collect(drafted_engine, ask(drafted_engine, COUNTING))
    await drafted_engine.start()
    assert not drafted_engine.dead
    assert drafted_engine.core_pids() != (pid,)
    assert ids_of(await collect(drafted_engine, ask(drafted_engine, COUNTING))) == ids_of(before)
    assert await nothing_left(drafted_engine)


async def test_stop_leaves_no_process_and_may_be_called_twice(drafted_engine: VllmEngine) -> None:
    (pid,) = drafted_engine.core_pids()
    await drafted_engine.stop()
    await drafted_engine.stop()
    assert drafted_engine.dead
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": "/no/such/folder"}, "engine.model: /no/such/folder does not exist"),
        ({"model": "."}, "engine.model: . holds no model"),
        ({"speculation": "draft_model", "draft_model": "/no/draft"}, "engine.draft_model: /no/draft does not exist"),
        ({"speculation": "medusa", "heads": "./no-heads"}, "engine.heads: ./no-heads does not exist"),
        ({"cpu_kv_cache_gib": 100_000}, "GiB of memory are available; lower engine.cpu_kv_cache_gib"),
        ({"quantization": "no_such_method"}, "quantization"),
        ({"max_model_len": 1_000_000}, "max_model_len"),
        ({"cpu_kv_cache_gib": 0.01}, "KV cache"),
    ],
)
async def test_what_keeps_the_engine_from_starting_is_said_in_one_line(
    changes: dict[str, object], line: str, model_cache_dir: Path, real_engine: VllmEngine
) -> None:
    engine = VllmEngine(cpu_demo(**changes), model_cache_dir)
    with pytest.raises(EngineStartError) as failed:
        await engine.start()
    assert line in str(failed.value)
    assert "\n" not in str(failed.value)
    assert engine.running == 0
