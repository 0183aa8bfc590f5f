"""Runs with Ray's own interpreter: a local cluster with two replicas, calls on both, and one replica killed.

Prints what happened as one JSON object. Arguments: settings as `key=value`.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import ray
from prometheus_client.parser import text_string_to_metric_families
from ray import serve
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from deploy.ray_serve import application

CALLS = 8
TOKEN = f"{os.getpid()}-drill"
QUESTION = json.dumps({"type": "user_text", "text": "Tell me a long story about the sea."})


def replicas() -> set[int]:
    """Process ids of the replicas of this cluster, and of no other."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"DRILL_TOKEN={TOKEN}" in (folder / "environ").read_text(errors="replace").split("\0")
            if ours and (folder / "cmdline").read_text().startswith("ray::ServeReplica"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


class Call:
    """One call, and what became of it."""

    def __init__(self, bridge: ClientConnection) -> None:
        self.bridge = bridge
        self.reasons: list[str] = []
        self.tokens = 0
        self.closed: int | None = None

    async def turn(self, speaking: asyncio.Barrier | None = None) -> None:
        """Ask, and listen to the end of the reply or of the call; `speaking`: waited for after the first token."""
        try:
            await self.bridge.send(QUESTION)
            while True:
                message = json.loads(await self.bridge.recv())
                if message["type"] == "token":
                    self.tokens += 1
                    if speaking is not None:
                        await speaking.wait()
                        speaking = None
                if message["type"] == "turn_end":
                    self.reasons.append(message["reason"])
                    return
        except ConnectionClosed as closed:
            self.closed = closed.rcvd.code if closed.rcvd else 1006


async def opened(url: str) -> Call:
    bridge = await connect(url, open_timeout=120, ping_interval=None)
    await bridge.send('{"type":"start"}')
    assert json.loads(await bridge.recv())["type"] == "ready"
    return Call(bridge)


async def turns(calls: list[Call], meanwhile: Any = None) -> None:
    """A turn of each at once; `meanwhile` runs when all have begun to be answered."""
    speaking = asyncio.Barrier(len(calls) + 1)
    async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(call.turn(speaking))
        await speaking.wait()
        if meanwhile is not None:
            meanwhile()


def two_are_back() -> bool:
    return serve.status().applications["default"].deployments["voicepace"].replica_states == {"RUNNING": 2}


def targets(folder: Path) -> list[str]:
    """Where Prometheus is told to scrape."""
    return [
        target for file in folder.glob("*.json") for one in json.loads(file.read_text()) for target in one["targets"]
    ]


def served_calls(target: str) -> float:
    """Replies that one replica counts."""
    with urlopen(f"http://{target}/metrics", timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(s.value for family in families for s in family.samples if s.name == "voicepace_turns_total")


def proxied(url: str) -> int:
    """The status of /metrics behind the proxy."""
    try:
        with urlopen(url.replace("ws", "http").replace("/v1/voice", "/metrics"), timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


async def drill(url: str, folder: Path) -> dict[str, Any]:
    calls = [await opened(url) for _ in range(CALLS)]
    before = replicas()
    victim = min(before)
    await turns(calls, lambda: os.kill(victim, signal.SIGKILL))
    cut = [call for call in calls if call.closed is not None]
    alive = [call for call in calls if call.closed is None]
    await turns(alive)
    new = await opened(url)
    await turns([new])
    async with asyncio.timeout(240):
        while not await asyncio.to_thread(two_are_back):
            await asyncio.sleep(0.5)
    return {
        "replicas": len(before),
        "cut": [[call.closed, call.tokens > 0] for call in cut],
        "alive": [[*call.reasons] for call in alive],
        "new": [*new.reasons],
        "proxied": await asyncio.to_thread(proxied, url),
        "replaced": victim not in replicas() and len(replicas()) == 2,
        "scrapes": [
            await asyncio.to_thread(served_calls, target) for target in await asyncio.to_thread(targets, folder)
        ],
        "bridges": [*alive, new],
    }


async def drained(settings: dict[str, str], calls: list[Call]) -> list[str]:
    """The application is deployed anew while every call is answered: its replicas give way, the replies go on."""
    loop = asyncio.get_running_loop()
    anew = []
    again = {**settings, "conversation.temperature": "0.5"}
    await turns(calls, lambda: anew.append(loop.run_in_executor(None, lambda: serve.run(application(again)))))
    for call in calls:
        await call.bridge.close()
    await anew[0]
    return [call.reasons[-1] for call in calls]


def main(settings: dict[str, str]) -> None:
    os.environ |= {"DRILL_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Sockets of Ray lie below this folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder, object_store_memory=100 << 20
        )
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        wanted = {
            "replicas": "2",
            "server.drain_s": "120",
            "voice.names": "[]",
            "targets": f"{folder}/targets",
        } | settings
        serve.run(application(wanted))
        url = f"ws://127.0.0.1:{port}/v1/voice"

        async def all_of_it() -> dict[str, Any]:
            outcome = await drill(url, Path(folder) / "targets")
            old = replicas()
            outcome["drained"] = await drained(wanted, outcome.pop("bridges"))
            async with asyncio.timeout(120):
                while old & replicas():
                    await asyncio.sleep(0.5)
            outcome["renewed"] = len(replicas())
            return outcome

        outcome = asyncio.run(all_of_it())
        serve.shutdown()
        ray.shutdown()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(dict(argument.split("=", 1) for argument in sys.argv[1:]))
