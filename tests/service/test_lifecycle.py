"""What a lifecycle tells of the engine it has started: up or not, and what its heads promise."""

import asyncio

import pytest

from engine.api import EngineStartError
from engine.fake import ScriptedEngine
from service.lifecycle import Lifecycle, State
from service.metrics import Metrics
from tests.virtual_time import run_virtual


class WithHeads(ScriptedEngine):
    """Knows what its heads reached once it has been started."""

    heads_acceptance_length: float | None = None

    async def start(self) -> None:
        await super().start()
        self.heads_acceptance_length = 2.4


class Fails(ScriptedEngine):
    """Starts the first time only, until it has failed twice more."""

    starts = 0

    async def start(self) -> None:
        self.starts += 1
        if self.starts in (2, 3):
            raise EngineStartError("no memory")
        await super().start()


def after_the_start(engine: ScriptedEngine, then: float = 0.0) -> tuple[Metrics, Lifecycle]:
    """A lifecycle that has been ready, `then` seconds after its engine died (0: it has not)."""
    metrics, announced = Metrics("m"), []

    async def main() -> Lifecycle:
        lifecycle = Lifecycle(engine, None, metrics, lambda: announced.append(True))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(lifecycle.run())
            await asyncio.sleep(0.1)
            if then:
                engine.kill()
                await asyncio.sleep(then)
            running.cancel()
        return lifecycle

    lifecycle = run_virtual(main())
    assert announced == [True]
    return metrics, lifecycle


def test_the_value_stored_with_the_heads_is_exported_once_the_engine_has_read_them() -> None:
    metrics, _ = after_the_start(WithHeads())
    assert metrics.registry.get_sample_value("voicepace_heads_acceptance_length", {"model": "m"}) == 2.4


def test_without_heads_there_is_no_such_sample() -> None:
    metrics, _ = after_the_start(ScriptedEngine())
    assert "voicepace_heads_acceptance_length{" not in metrics.exposition().decode()


@pytest.mark.parametrize(
    ("then", "state", "up"), [(0.1, State.READY, 1), (1.0, State.RESTARTING, 0), (8.0, State.READY, 1)]
)
def test_a_dead_engine_is_started_again_with_pauses_until_it_starts(then: float, state: State, up: int) -> None:
    # It is looked at every half second, then tried at once, after 1 s and after 5 s.
    engine = Fails()
    metrics, lifecycle = after_the_start(engine, then)
    assert lifecycle.state is state
    assert metrics.registry.get_sample_value("voicepace_engine_up") == up
    assert engine.starts == {0.1: 1, 1.0: 2, 8.0: 4}[then]
    assert lifecycle.ready == (then == 8.0)
