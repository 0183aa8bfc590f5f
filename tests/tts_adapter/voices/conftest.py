"""One event loop and one started voice for all scenarios of a voice's contract."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from contract import Contract, Run, Scenario

from tts_adapter.voice import Voice


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """As in `contract.Run`."""
    contract: Contract = request.cls()
    stack = AsyncExitStack()

    async def started() -> Voice:
        voice = await stack.enter_async_context(contract.voice())
        await voice.start()
        stack.push_async_callback(voice.stop)
        return voice

    with asyncio.Runner() as runner:
        voice = runner.run(started())

        def play(scenario: Scenario) -> None:
            async def body() -> None:
                await scenario(voice)

            runner.run(body())

        yield play
        runner.run(stack.aclose())
