"""What tests of the real engine share: options, requests, and what to read off a reply."""

import asyncio
import itertools
from contextlib import aclosing

from engine.api import Engine, GenerateRequest, Sampling, TokenBurst
from engine.options import EngineOptions
from engine.profiles import PROFILES
from engine.vllm_engine import VllmEngine

GREEDY = Sampling(max_tokens=48, temperature=0.0)

_numbers = itertools.count()


def cpu_demo(**changes: object) -> EngineOptions:
    """Engine options of the profile `cpu-demo` without speculation, with some changed."""
    return EngineOptions.model_validate({**PROFILES["cpu-demo"].settings["engine"], "speculation": "none", **changes})


def ask(engine: Engine, text: str, sampling: Sampling = GREEDY) -> GenerateRequest:
    """A request that goes on from `text` as it stands."""
    return GenerateRequest(f"test-{next(_numbers)}", tuple(engine.tokenizer.encode(text)), sampling)


async def collect(engine: Engine, request: GenerateRequest) -> list[TokenBurst]:
    """The whole reply."""
    async with aclosing(engine.generate(request)) as bursts:
        return [burst async for burst in bursts]


def ids_of(bursts: list[TokenBurst]) -> list[int]:
    """All token ids."""
    return [token_id for burst in bursts for token_id in burst.token_ids]


def text_of(bursts: list[TokenBurst]) -> str:
    """All text."""
    return "".join(piece for burst in bursts for piece in burst.pieces)


async def nothing_left(engine: VllmEngine) -> bool:
    """Whether the core itself holds no request: only then it agrees to drop all its cache blocks."""
    async with asyncio.timeout(20):
        while not await engine.client.reset_prefix_cache():
            pass
    return engine.running == 0
