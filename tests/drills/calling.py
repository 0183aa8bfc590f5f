"""A client of the native protocol for drills: one call, its turns, and what each was told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect


@dataclass
class Told:
    """What the service said during one turn."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    audio_bytes: int = 0

    @property
    def text(self) -> str:
        """The tokens, joined."""
        return "".join(message["text"] for message in self.messages if message["type"] == "token")

    @property
    def errors(self) -> list[str]:
        """Codes of the errors."""
        return [message["code"] for message in self.messages if message["type"] == "error"]

    @property
    def reason(self) -> str:
        """Why the turn ended."""
        return str(self.messages[-1]["reason"])


@asynccontextmanager
async def call(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
    """An open call; `options` are fields of `start`."""
    async with connect(url, open_timeout=120, ping_interval=None, proxy=None) as bridge:
        await started(bridge, **options)
        yield bridge


async def started(bridge: ClientConnection, **options: Any) -> None:
    """Open the call on a connection."""
    await bridge.send(json.dumps({"type": "start", **options}))
    assert json.loads(await bridge.recv())["type"] == "ready"


async def say(bridge: ClientConnection, text: str) -> None:
    """The caller's words."""
    await bridge.send(json.dumps({"type": "user_text", "text": text}))


async def take(bridge: ClientConnection, told: Told, until: str = "turn_end") -> Told:
    """Everything up to the next message of a type."""
    while True:
        data = await bridge.recv()
        if isinstance(data, bytes):
            told.audio_bytes += len(data)
            continue
        told.messages.append(json.loads(data))
        if told.messages[-1]["type"] == until:
            return told


async def ask(bridge: ClientConnection, text: str, limit_s: float = 120) -> Told:
    """A whole turn."""
    async with asyncio.timeout(limit_s):
        await say(bridge, text)
        return await take(bridge, Told())
