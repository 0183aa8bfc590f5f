"""The first requests after a start, so that no caller's first turn pays for what happens only once.

They make allocators grow, kernels choose their shapes and drafters compile: short and long prompts, alone and together,
greedy and sampled. What they leave in the prefix cache is dropped.
"""

import asyncio
from contextlib import aclosing
from typing import Any

from engine.api import EngineStartError, GenerateRequest, Sampling

_SHORT_TOKENS, _TURN_TOKENS = 24, 120
_TEXT = "The first requests prepare the engine, so that a caller waits no longer than the next one. "


async def run(engine: Any) -> None:
    """Send them to `engine` (a `VllmEngine`) and wait.

    Raises:
        EngineStartError: one failed; the engine is not fit to serve.
    """
    try:
        await _send(engine)
    except ExceptionGroup as failures:
        raise EngineStartError(f"engine: the first request failed: {failures.exceptions[0]}") from failures
    await engine.client.reset_prefix_cache()


async def _send(engine: Any) -> None:
    ids = engine.tokenizer.encode(_TEXT * 20)
    room = max(1, engine.max_model_len - 16)
    greedy = Sampling(max_tokens=8, temperature=0.0)
    sampled = Sampling(max_tokens=8, temperature=0.8, top_p=0.9, seed=1)
    rounds = [
        [(ids[: min(_SHORT_TOKENS, room)], greedy)],
        [(ids[1 : 1 + min(_TURN_TOKENS, room)], sampled)],
        [(ids[start : start + min(length, room)], greedy) for start, length in ((2, _SHORT_TOKENS), (3, _TURN_TOKENS))],
        [(ids[4 : 4 + min(_SHORT_TOKENS, room)], greedy)],
    ]
    for number, prompts in enumerate(rounds):
        async with asyncio.TaskGroup() as group:
            for position, (prompt, sampling) in enumerate(prompts):
                request = GenerateRequest(f"warmup-{number}-{position}", tuple(prompt), sampling)
                group.create_task(_drain(engine, request), name=request.request_id)


async def _drain(engine: Any, request: GenerateRequest) -> None:
    async with aclosing(engine.generate(request)) as bursts:
        async for _ in bursts:
            pass
