"""`voicepace serve` as an operator meets it: start, faults, and an orderly end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

VOICEPACE = Path(sys.executable).parent / "voicepace"
SCRIPTED = ("serve", "--scripted.enabled", "true", "--voice.names", "[]", "--port", "0")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    process = subprocess.Popen(
        [VOICEPACE, *SCRIPTED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("voicepace is ready: http://127.0.0.1:")
        yield process, line.split()[-1].replace("http", "ws")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [VOICEPACE, *arguments], capture_output=True, text=True, env={**os.environ, **environ}, timeout=60, check=False
    )


def test_a_call_under_way_may_finish_before_the_end() -> None:
    with serving("--server.drain_s", "20") as (process, url):

        async def call() -> str:
            async with connect(f"{url}/v1/voice") as bridge:
                await bridge.send('{"type":"start"}')
                await bridge.recv()
                await bridge.send('{"type":"user_text","text":"hello"}')
                await bridge.recv()
                process.send_signal(signal.SIGTERM)
                async for message in bridge:
                    body = json.loads(message)
                    if body["type"] == "turn_end":
                        return str(body["reason"])
            raise AssertionError("the call ended before its turn")

        assert asyncio.run(call()) == "stop"
        assert process.wait(15) == 0


def test_a_call_that_outlasts_the_limit_is_told_and_ended() -> None:
    with serving("--server.drain_s", "0.3") as (process, url):

        async def call() -> list[str]:
            async with connect(f"{url}/v1/voice") as bridge:
                await bridge.send('{"type":"start"}')
                await bridge.recv()
                process.send_signal(signal.SIGTERM)
                return [json.loads(message)["type"] async for message in bridge]

        assert asyncio.run(call()) == ["end"]
        assert process.wait(15) == 0


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "--scripted.enabled", "true", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == f"voicepace: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_wrong_setting_is_one_clear_line() -> None:
    done = run("serve", VOICEPACE_ENGINE__MODLE="x")
    assert done.returncode == 2
    assert done.stderr == "voicepace: engine.modle: there is no such setting\n"


@pytest.mark.parametrize("command", ["serve", "call", "loadtest", "plan", "profiles", "bench"])
def test_help_needs_no_engine(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert "usage: voicepace" in done.stdout
