"""What runs where trees cannot."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import embedded_model
from engine.vllm_engine import VllmEngine
from tests.engine.tree.test_exact import GREEDY
from tests.engine.tree.tree_engine import TreeLab, make_tiny_model, tree_options

pytestmark = [pytest.mark.engine, pytest.mark.prove, pytest.mark.anyio, pytest.mark.timeout(3000)]


@asynccontextmanager
async def running(options: Any, cache: Path, oracle: Path) -> AsyncIterator[TreeLab]:
    lab = TreeLab(VllmEngine(options, cache), oracle)
    await lab.engine.start()
    try:
        yield lab
    finally:
        await lab.engine.stop()


@pytest.mark.filterwarnings("ignore")
async def test_a_model_that_trees_cannot_do_runs_without_them(
    model_cache_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_tiny_model(tmp_path / "model", embedded_model.ready(model_cache_dir, lambda line: None))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 64}
    (folder / "config.json").write_text(json.dumps(config))
    oracle = tmp_path / "oracle.json"
    oracle.write_text(json.dumps({"replies": []}))
    async with running(tree_options(oracle, model=str(folder)), model_cache_dir, oracle) as lab:
        fallback = lab.engine.fallback
        assert fallback is not None
        assert fallback.instead == "none"
        assert "trees can do" in fallback.reason
        assert lab.engine.tree_tally() is None
        answer = await lab.ask([5, 6, 7], **GREEDY | {"max_tokens": 4})
        assert len(answer.token_ids) == 4
    assert any(record.levelname == "ERROR" and fallback.reason in record.message for record in caplog.records)
