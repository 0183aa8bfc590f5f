"""The shipped heads, as a chain and as trees: the text stays the model's, and drafts are kept."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.api import Sampling
from engine.bench.published_prompts import DIALOGUES
from engine.vllm_engine import VllmEngine
from tests.real_engine import ask, collect, cpu_demo, ids_of

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

GREEDY = Sampling(max_tokens=32, temperature=0.0)


@pytest.fixture(scope="module", params=["medusa", "medusa_tree"])
async def drafting(
    request: pytest.FixtureRequest, anyio_backend: str, model_cache_dir: Path
) -> AsyncIterator[VllmEngine]:
    """The embedded model with the shipped heads."""
    engine = VllmEngine(cpu_demo(speculation=request.param, dtype="float32"), model_cache_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await engine.start()
    yield engine
    await engine.stop()


async def test_with_drafts_is_said_what_is_said_without(drafting: VllmEngine, real_engine: VllmEngine) -> None:
    kept = steps = 0
    for dialogue in DIALOGUES["conversational"][:4]:
        text = drafting.tokenizer.render(dialogue.turns[0], add_generation_prompt=True)
        bursts = await collect(drafting, ask(drafting, text, GREEDY))
        assert ids_of(bursts) == ids_of(await collect(real_engine, ask(real_engine, text, GREEDY)))
        kept += sum(burst.accepted for burst in bursts[1:])
        steps += len(bursts) - 1
    # Heads that guess nothing right would pass the comparison.
    assert kept > 0.1 * steps
