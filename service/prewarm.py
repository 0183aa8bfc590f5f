"""While the caller still speaks: the engine reads partial words, so that the final ones find most of the prompt cached.

Whole blocks are cached, so this pays for long utterances. One request at a time; a newer partial replaces the one that
still waits, and the final words end both. A step under way cannot be called back: final words that come while a partial is
being read wait for it. `voicepace bench readahead` measures both cases; it is off by default because which of them is the
rule depends on the recogniser.
"""

import asyncio
from contextlib import aclosing

from engine.api import Engine, EngineError, GenerateRequest, Sampling


class Prewarm:
    """The warming of one call's prompts.

    Args:
        engine: reads them.
        tasks: the call's task group.
        name: prefix of the request ids.
    """

    def __init__(self, engine: Engine, tasks: asyncio.TaskGroup, name: str) -> None:
        self._engine = engine
        self._tasks = tasks
        self._name = name
        self._count = 0
        self._next: tuple[int, ...] | None = None
        self._task: asyncio.Task[None] | None = None

    def read(self, prompt: tuple[int, ...]) -> None:
        """Have `prompt` read as soon as the one before it has been."""
        self._next = prompt
        if self._task is None or self._task.done():
            self._task = self._tasks.create_task(self._run(), name="prewarm")

    async def done(self) -> None:
        """Return once everything asked for has been read."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """The final words are here: nothing more is to be read ahead."""
        self._next = None
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._next is not None:
            prompt, self._next = self._next, None
            self._count += 1
            request = GenerateRequest(f"{self._name}-ahead-{self._count}", prompt, Sampling(max_tokens=1))
            try:
                async with aclosing(self._engine.generate(request)) as bursts:
                    async for _ in bursts:
                        pass
            except EngineError:
                return  # warming is only ever a gain; the turn itself will say what is wrong
