"""A server that speaks the multi-context protocol of ElevenLabs over a real socket, with the faults that were met in it.

Text is collected per context until the chunk schedule, a flush or `auto_mode` has it spoken: 20 ms of tone per
character, in messages of up to 12 characters with their alignment.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from tts_adapter.audio import encode

KEY = "a-key"
MS_PER_CHARACTER = 20
CHARACTERS_PER_MESSAGE = 12
MOST_CONTEXTS = 5
RATES_HZ = {"pcm_16000": 16_000, "pcm_22050": 22_050, "pcm_24000": 24_000, "ulaw_8000": 8_000}


@dataclass
class Faults:
    """What goes wrong."""

    silent: bool = False
    drop_after_messages: int | None = None
    error_after_messages: int | None = None
    garbage: bool = False
    lose_text_closed_early: bool = True
    reply_delay_s: float = 0.0


@dataclass
class Context:
    """One reply as the server knows it."""

    pending: str = ""
    spoken: str = ""
    schedule: list[int] = field(default_factory=lambda: [120, 160, 250, 290])
    messages: int = 0
    closed: bool = False
    kept_alive: int = 0


@dataclass
class ElevenLabs:
    """What the tests see of the server."""

    url: str = ""
    faults: Faults = field(default_factory=Faults)
    connections: int = 0
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    contexts: dict[str, Context] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    closed_with: list[str] = field(default_factory=list)


class Connection:
    """One socket."""

    def __init__(self, socket: ServerConnection, server: ElevenLabs, query: dict[str, list[str]]) -> None:
        self.socket = socket
        self.server = server
        self.auto_mode = query.get("auto_mode") == ["true"]
        self.output_format = query["output_format"][0]
        self.open: set[str] = set()

    async def run(self) -> None:
        async for message in self.socket:
            fields = json.loads(message)
            self.server.messages.append(fields)
            if not await self.take(fields):
                return

    async def take(self, fields: dict[str, Any]) -> bool:
        name = fields["context_id"]
        if fields.get("close_context"):
            await self.close_context(name)
            return True
        if name not in self.open:
            if len(self.open) == MOST_CONTEXTS:
                return await self.refuse("Maximum simultaneous contexts exceeded")
            self.open.add(name)
            context = self.server.contexts[name] = Context()
            if fields.get("text") not in (" ", None) and "voice_settings" not in fields:
                return await self.refuse("context was not initialised")
            context.schedule = fields.get("generation_config", {}).get("chunk_length_schedule", context.schedule)
            if not all(50 <= length <= 500 for length in context.schedule):
                return await self.refuse("chunk_length_schedule out of range")
            return True
        context = self.server.contexts[name]
        if "voice_settings" in fields:
            return await self.refuse("voice_settings may be sent once")
        if fields.get("text") == "":
            context.kept_alive += 1
            return True
        context.pending += fields.get("text", "")
        if self.auto_mode or fields.get("flush") or len(context.pending) >= context.schedule[0]:
            return await self.speak(name, context)
        return True

    async def refuse(self, reason: str) -> bool:
        self.server.closed_with.append(reason)
        await self.socket.close(1008, reason)
        return False

    async def close_context(self, name: str) -> None:
        context = self.server.contexts[name]
        self.open.discard(name)
        context.closed = True
        if context.pending.strip() and not (self.server.faults.lose_text_closed_early and not context.messages):
            await self.speak(name, context)
        await self.socket.send(json.dumps({"isFinal": True, "contextId": name}))

    async def speak(self, name: str, context: Context) -> bool:
        if self.server.faults.silent:
            return True
        await asyncio.sleep(self.server.faults.reply_delay_s)
        text, context.pending = context.pending, ""
        context.schedule = context.schedule[1:] or context.schedule
        if not any(character.isalnum() for character in text):
            return True
        for start in range(0, len(text), CHARACTERS_PER_MESSAGE):
            if not await self.fault(context):
                return False
            part = text[start : start + CHARACTERS_PER_MESSAGE]
            context.spoken += part
            context.messages += 1
            await self.socket.send(json.dumps({**self.audio(part), "contextId": name}))
        return True

    async def fault(self, context: Context) -> bool:
        faults = self.server.faults
        if faults.garbage:
            await self.socket.send("not json")
        if faults.error_after_messages == context.messages:
            error = {"message": f"cannot say {context.pending}", "error": "quota_exceeded", "code": 1008}
            await self.socket.send(json.dumps(error))
            return await self.refuse("quota")
        if faults.drop_after_messages == context.messages:
            self.socket.transport.abort()
            return False
        return True

    def audio(self, text: str) -> dict[str, Any]:
        rate = RATES_HZ[self.output_format]
        at = np.arange(len(text) * MS_PER_CHARACTER * rate // 1000)
        tone = (8000 * np.sin(2 * np.pi * 440 * at / rate)).astype(np.int16)
        payload = encode(tone, "mulaw" if self.output_format == "ulaw_8000" else "pcm16")
        alignment = {
            "chars": list(text),
            "charStartTimesMs": [n * MS_PER_CHARACTER for n in range(len(text))],
            "charDurationsMs": [MS_PER_CHARACTER] * len(text),
        }
        return {"audio": base64.b64encode(payload).decode(), "alignment": alignment, "normalizedAlignment": None}


@asynccontextmanager
async def elevenlabs_server() -> AsyncIterator[ElevenLabs]:
    """The server on a free port of this machine."""
    seen = ElevenLabs()

    def check(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("xi-api-key") != KEY:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no key")
        return None

    async def handle(socket: ServerConnection) -> None:
        assert socket.request is not None
        parts = urlsplit(socket.request.path)
        assert parts.path == "/v1/text-to-speech/a-voice/multi-stream-input"
        seen.connections += 1
        seen.queries.append(parse_qs(parts.query))
        await Connection(socket, seen, seen.queries[-1]).run()

    async with serve(handle, "127.0.0.1", 0, process_request=check, close_timeout=0.5) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        seen.url = f"ws://{host}:{port}"
        yield seen
