"""The straight run through Llama's layers says what `transformers` says of the same checkpoint."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.api import Sampling
from engine.heads.target import load_target, target_folder
from engine.llama_forward import install
from engine.vllm_engine import VllmEngine
from tests.real_engine import ask, collect, cpu_demo, ids_of

# Logits of this model are about 20; float32 sums in another order differ by about 1e-4, float16 weights by less.
NEAR_TIE = 2e-3
LONG = " ".join(f"Item {number} costs {number * 7} coins." for number in range(60))


def test_another_model_is_left_as_it_is() -> None:
    model = SimpleNamespace(model=SimpleNamespace(forward=None))
    assert not install(model)
    assert model.model.forward is None


async def furthest_from_best(engine: VllmEngine, cache_dir: Path, text: str) -> float:
    """How far below the best logit, by `transformers` on the same checkpoint, a greedy token is at most."""
    request = ask(engine, text, Sampling(max_tokens=32, temperature=0.0))
    said = ids_of(await collect(engine, request))
    target = load_target(target_folder("embedded", cache_dir), "cpu")
    whole = torch.tensor([[*request.prompt_token_ids, *said]])
    with torch.inference_mode():
        logits = target.model(whole).logits[0, len(request.prompt_token_ids) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(said)[:, None]).squeeze(1)
    return float((logits.amax(1) - chosen).max())


@pytest.mark.engine
@pytest.mark.anyio
@pytest.mark.parametrize("text", ["Once upon a time", "1, 2, 3, 4, 5,", LONG], ids=["story", "counting", "chunked"])
async def test_greedy_tokens_are_the_best_ones(real_engine: VllmEngine, model_cache_dir: Path, text: str) -> None:
    assert await real_engine.client.collective_rpc("runs_straight") == [True]
    assert await furthest_from_best(real_engine, model_cache_dir, text) < NEAR_TIE


@pytest.mark.engine
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore")
async def test_they_are_without_the_compiled_loops_too(model_cache_dir: Path) -> None:
    engine = VllmEngine(cpu_demo(cpu_weights="float32"), model_cache_dir)
    await engine.start()
    try:
        assert await engine.client.collective_rpc("runs_straight") == [True]
        assert await furthest_from_best(engine, model_cache_dir, LONG) < NEAR_TIE
    finally:
        await engine.stop()
