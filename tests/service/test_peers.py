"""Frameworks as callers: pipecat and livekit-agents with their own OpenAI clients, unchanged, against the real service.

Each is installed once into an environment of its own below `~/.cache/voicepace-peers`, from the package index.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.service.running import Running

pytestmark = [pytest.mark.engine, pytest.mark.prove, pytest.mark.timeout(1200)]

CACHE = Path("~/.cache/voicepace-peers").expanduser()
PACKAGES = {
    "pipecat": ("pipecat-ai[openai]==1.14.0",),
    "livekit": ("livekit-agents==1.8.9", "livekit-plugins-openai==1.8.9"),
}
every_framework = pytest.mark.parametrize("name", sorted(PACKAGES))


def python_of(name: str) -> Path:
    """The interpreter of a framework's own environment, made on first use."""
    home, wanted = CACHE / name, "\n".join(PACKAGES[name])
    python, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES[name]], check=True)
        stamp.write_text(wanted)
    return python


def command(service: Running, name: str, mode: str) -> list[str | Path]:
    script = Path(__file__).parent / "peers" / f"{name}_caller.py"
    return [python_of(name), script, mode, f"{service.http}/v1", "tiny"]


def outcome(service: Running, name: str, mode: str) -> dict[str, Any]:
    done = subprocess.run(command(service, name, mode), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@every_framework
def test_a_reply_is_streamed(real_service: Running, name: str) -> None:
    [texts] = outcome(real_service, name, "stream")["replies"]
    assert len(texts) > 5
    assert len("".join(texts)) > 20
    assert real_service.engine.running == 0


@every_framework
def test_a_tool_call_makes_the_round_trip(real_service: Running, name: str) -> None:
    told = outcome(real_service, name, "tool")
    [arguments] = told["calls"]
    assert set(arguments) == {"day"}
    assert "".join(told["replies"][-1])


@every_framework
def test_an_interruption_aborts_the_request(real_service: Running, name: str) -> None:
    async def running_ends() -> None:
        async with asyncio.timeout(20):
            while real_service.engine.running:
                await asyncio.sleep(0.01)

    with subprocess.Popen(
        command(real_service, name, "interrupt"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as framework:
        assert framework.stdout is not None
        texts = json.loads(framework.stdout.readline())["texts"]
        assert 3 <= len(texts) < 200  # of 400 tokens
        asyncio.run(running_ends())
        assert framework.poll() is None  # it is still there: the request was aborted, not lost with its client
        framework.communicate("\n", timeout=60)
        assert framework.returncode == 0
