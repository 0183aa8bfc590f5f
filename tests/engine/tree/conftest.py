"""One engine with trees per model: a tiny random one for every run, the embedded one for proofs."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import embedded_model
from engine.vllm_engine import VllmEngine
from tests.engine.tree.tree_engine import TreeLab, make_tiny_model, tree_options

# Blocks of 32 tokens: enough for eight short requests, not for eight long ones.
_BLOCKS = 64
_BYTES_PER_TOKEN = {"tiny": 3 * 2 * 2 * 32 * 4, "embedded": 30 * 2 * 3 * 64 * 4}


@pytest.fixture(scope="session", params=["tiny", pytest.param("embedded", marks=pytest.mark.prove)])
async def lab(
    request: pytest.FixtureRequest,
    anyio_backend: str,
    model_cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[TreeLab]:
    """A running engine in float32 whose oracle knows nothing yet."""
    folder, model = tmp_path_factory.mktemp("tree"), request.param
    oracle = folder / "oracle.json"
    changes = {"cpu_kv_cache_gib": _BLOCKS * 32 * _BYTES_PER_TOKEN[model] / 2**30}
    if model == "tiny":
        like = embedded_model.ready(model_cache_dir, lambda line: None)
        changes["model"] = str(make_tiny_model(folder / "model", like))
    lab = TreeLab(VllmEngine(tree_options(oracle, **changes), model_cache_dir), oracle)
    lab.know([])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await lab.engine.start()
    yield lab
    await lab.engine.stop()
