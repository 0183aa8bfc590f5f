"""Trees that follow load and acceptance, in the real engine: replies stay exact while the size changes."""

import warnings
from pathlib import Path

import pytest

from engine import embedded_model
from engine.vllm_engine import VllmEngine
from tests.engine.tree.test_exact import GREEDY, prompts_of
from tests.engine.tree.tree_engine import TreeLab, make_tiny_model, tree_options

pytestmark = [pytest.mark.engine, pytest.mark.anyio]


async def test_replies_stay_exact_while_the_size_of_trees_changes(model_cache_dir: Path, tmp_path: Path) -> None:
    like = embedded_model.ready(model_cache_dir, lambda line: None)
    changes = {"model": str(make_tiny_model(tmp_path / "model", like)), "cpu_kv_cache_gib": 0.01}
    options = tree_options(tmp_path / "oracle.json", tree_follows_load=True, **changes)
    lab = TreeLab(VllmEngine(options, model_cache_dir), tmp_path / "oracle.json")
    lab.know([])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await lab.engine.start()
    try:
        assert lab.engine.fallback is None
        asked = [prompts_of(lab, 1), prompts_of(lab, 8)]
        plain = [await lab.ask_all(prompts, [GREEDY] * len(prompts)) for prompts in asked]
        lab.know([answer for answers in plain for answer in answers])
        before = lab.tally()
        for _ in range(4):
            for prompts, expected in zip(asked, plain, strict=True):
                await lab.forget()
                trees = await lab.ask_all(prompts, [GREEDY] * len(prompts))
                assert [answer.token_ids for answer in trees] == [answer.token_ids for answer in expected]
        after = lab.tally()
        trees_seen, nodes = after["trees"] - before["trees"], after["nodes"] - before["nodes"]
        assert 0 < nodes < 16 * trees_seen
        assert after["tokens"] - before["tokens"] > trees_seen
        assert after["draft_failures"] == 0
    finally:
        await lab.engine.stop()
