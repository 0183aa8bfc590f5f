"""One engine with trees, of a tiny random model; the embedded one is in `tests/engine/test_medusa.py`."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import embedded_model
from engine.vllm_engine import VllmEngine
from tests.engine.tree.tree_engine import TreeLab, make_tiny_model, tree_options

# Blocks of 32 tokens: enough for eight short requests, not for eight long ones.
_BLOCKS = 64
_BYTES_PER_TOKEN = 3 * 2 * 2 * 32 * 4


@pytest.fixture(scope="session")
async def lab(
    anyio_backend: str,
    model_cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[TreeLab]:
    """A running engine in float32 whose oracle knows nothing yet."""
    folder = tmp_path_factory.mktemp("tree")
    oracle = folder / "oracle.json"
    model = make_tiny_model(folder / "model", embedded_model.ready(model_cache_dir, lambda line: None))
    options = tree_options(oracle, model=str(model), cpu_kv_cache_gib=_BLOCKS * 32 * _BYTES_PER_TOKEN / 2**30)
    lab = TreeLab(VllmEngine(options, model_cache_dir), oracle)
    lab.know([])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await lab.engine.start()
    yield lab
    await lab.engine.stop()
