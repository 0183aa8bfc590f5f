"""Replies that quote their system prompt, with continuations looked up in it: the same as without any drafts."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.api import Engine, Sampling
from engine.bench.published_prompts import DIALOGUES
from engine.vllm_engine import VllmEngine
from tests.real_engine import ask, collect, cpu_demo, ids_of

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SAMPLINGS = (Sampling(max_tokens=40, temperature=0.0), Sampling(max_tokens=40, temperature=0.8, seed=11))
TURNS = [dialogue.turns[-1] for dialogue in DIALOGUES["multi_turn"][:3]]


@asynccontextmanager
async def started(cache_dir: Path, **changes: object) -> AsyncIterator[VllmEngine]:
    """The embedded model."""
    engine = VllmEngine(cpu_demo(dtype="float32", **changes), cache_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def replies(engine: Engine, sampling: Sampling) -> list[list[int]]:
    """To every turn: alone, then all at a time."""
    texts = [engine.tokenizer.render(turn, add_generation_prompt=True) for turn in TURNS]
    bursts = [await collect(engine, ask(engine, text, sampling)) for text in texts]
    bursts += await asyncio.gather(*(collect(engine, ask(engine, text, sampling)) for text in texts))
    return [ids_of(reply) for reply in bursts]


@pytest.fixture(scope="module")
async def plain(anyio_backend: str, model_cache_dir: Path) -> list[list[list[int]]]:
    """The replies without drafts, for each sampling."""
    async with started(model_cache_dir) as engine:
        return [await replies(engine, sampling) for sampling in SAMPLINGS]


@pytest.mark.parametrize("follows_load", [True, False])
async def test_quotes_are_grafted_and_the_reply_is_what_it_was(
    plain: list[list[list[int]]], model_cache_dir: Path, follows_load: bool
) -> None:
    changes = {"speculation": "medusa_tree", "tree_follows_load": follows_load, "tree_lookup": True}
    async with started(model_cache_dir, **changes) as engine:
        assert engine.fallback is None
        for sampling, expected in zip(SAMPLINGS, plain, strict=True):
            before = engine.tree_tally() or {}
            assert await replies(engine, sampling) == expected
            after = engine.tree_tally() or {}
            assert after["grafts"] > before["grafts"]
            assert after["graft_tokens"] > before["graft_tokens"] + 5
            assert after["draft_failures"] == 0
