"""Reading ahead: one request at a time, the newest partial next, ended by the final words."""

import asyncio

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.prewarm import Prewarm
from tests.virtual_time import run_virtual


def test_the_newest_partial_replaces_the_one_that_waits_and_stop_ends_all() -> None:
    seen: list[tuple[int, ...]] = []

    def reply(request: GenerateRequest) -> str:
        seen.append(request.prompt_token_ids)
        assert request.sampling.max_tokens == 1
        return "x"

    async def main() -> None:
        engine = ScriptedEngine(reply, Script(first_token_s=0.1))
        await engine.start()
        async with asyncio.TaskGroup() as tasks:
            ahead = Prewarm(engine, tasks, "call")
            for prompt in ((1,), (1, 2), (1, 2, 3)):
                ahead.read(prompt)
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.15)
            assert seen == [(1,), (1, 2, 3)]
            await ahead.stop()
            assert engine.running == 0
            await ahead.stop()
        await engine.stop()

    run_virtual(main())


def test_a_dead_engine_is_left_to_the_turn() -> None:
    async def main() -> None:
        engine = ScriptedEngine(script=Script(first_token_s=0.1))
        await engine.start()
        async with asyncio.TaskGroup() as tasks:
            ahead = Prewarm(engine, tasks, "call")
            ahead.read((1,))
            await asyncio.sleep(0.01)
            engine.kill()

    run_virtual(main())
