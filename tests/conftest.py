"""What every package's tests share: one real engine for the whole run.

Async tests are marked `anyio` and use anyio's pytest plugin, which keeps one event loop for as long as an async fixture
of the session lives: the engine and the tests that use it share that loop.
"""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

# Here and not at the end of the run, where hypothesis' own plugin would import it: CPython 3.11 can fail to parse a
# module ("AST constructor recursion depth mismatch") late in a long asynchronous run.
import hypothesis
import pytest

from engine.vllm_engine import VllmEngine
from tests.real_engine import cpu_demo

# A loaded machine fails no property: hypothesis' first use of Unicode alone can take seconds.
hypothesis.settings.register_profile("steady", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The only event loop we run on."""
    return "asyncio"


@pytest.fixture(scope="session")
def model_cache_dir() -> Path:
    """Where `voicepace serve` keeps the embedded model: it is converted once, for both."""
    return Path("~/.cache/voicepace").expanduser()


@pytest.fixture(scope="session")
async def real_engine(anyio_backend: str, model_cache_dir: Path) -> AsyncIterator[VllmEngine]:
    """The profile `cpu-demo` with n-gram drafting, so that steps yield several tokens. Started once, shared by all."""
    engine = VllmEngine(cpu_demo(speculation="ngram"), model_cache_dir)
    with warnings.catch_warnings():
        # Deprecations inside vLLM and what it imports.
        warnings.simplefilter("ignore")
        await engine.start()
    yield engine
    await engine.stop()
