"""The real engine on the int8 copy of the embedded model."""

import warnings
from pathlib import Path

import pytest

from engine.vllm_engine import VllmEngine
from tests.real_engine import ask, collect, cpu_demo, text_of

pytestmark = [pytest.mark.engine, pytest.mark.prove, pytest.mark.anyio]


async def test_it_speaks_and_still_knows_what_it_knew(model_cache_dir: Path) -> None:
    engine = VllmEngine(cpu_demo(quantization="int8"), model_cache_dir)
    with warnings.catch_warnings():
        # Deprecations inside vLLM and what it imports.
        warnings.simplefilter("ignore")
        await engine.start()
    try:
        assert engine.client.model_config.quantization == "compressed-tensors"
        assert text_of(await collect(engine, ask(engine, "The capital of France is"))).startswith(" Paris")
        counted = text_of(await collect(engine, ask(engine, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,")))
        assert counted.startswith(" 13, 14, 15, 16")
    finally:
        await engine.stop()
