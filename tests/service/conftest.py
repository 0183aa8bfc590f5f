"""One service with the real engine and the real voice, shared by all tests that call it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.vllm_engine import VllmEngine
from service.settings import load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.catalog import make_voice


@pytest.fixture(scope="session")
def real_service(model_cache_dir: Path) -> Iterator[Running]:
    """Profile `cpu-demo` with n-gram drafting, so that bursts of several real tokens reach the clients."""
    flags = {"engine.speculation": "ngram", "engine.served_model_name": '["tiny", "small"]'}
    settings = load_settings({**flags, "openai.tool_parser": "hermes"}, environ={})
    engine = VllmEngine(settings.engine, model_cache_dir)
    with running_service(settings, engine, make_voice(settings.voice), ready_within_s=240) as running:
        yield running
