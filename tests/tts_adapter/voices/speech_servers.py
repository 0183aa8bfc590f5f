"""Servers that speak the protocols of Cartesia, Deepgram, Rime and OpenAI over real sockets: 20 ms of tone a character.

Each checks the key and refuses what its service refuses; `Faults` makes it fail.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from websockets.asyncio.server import Request, Response, ServerConnection, serve

KEY = "a-key"
MS_PER_CHARACTER = 20


@dataclass
class Faults:
    """What goes wrong."""

    silent: bool = False
    drop_after_texts: int | None = None
    error_after_texts: int | None = None


@dataclass
class Service:
    """What the tests see of a server."""

    url: str = ""
    faults: Faults = field(default_factory=Faults)
    connections: int = 0
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)

    def failing(self, socket: ServerConnection) -> str | None:
        """The fault that is due before the next text is spoken."""
        if self.faults.drop_after_texts == len(self.spoken):
            socket.transport.abort()
            return "dropped"
        if self.faults.error_after_texts == len(self.spoken):
            return "error"
        return "silent" if self.faults.silent else None


def tone(text: str, rate_hz: int) -> bytes:
    at = np.arange(len(text) * MS_PER_CHARACTER * rate_hz // 1000)
    return (8000 * np.sin(2 * np.pi * 440 * at / rate_hz)).astype("<i2").tobytes()


def parts(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


Handler = Callable[[ServerConnection, Service], Awaitable[None]]


@asynccontextmanager
async def socket_server(handler: Handler, header: str, value: str) -> AsyncIterator[Service]:
    """`handler` on a free port, for clients that send `header`."""
    service = Service()

    def check(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get(header) != value:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no key")
        return None

    async def handle(socket: ServerConnection) -> None:
        assert socket.request is not None
        service.connections += 1
        service.queries.append(parse_qs(urlsplit(socket.request.path).query))
        await handler(socket, service)

    async with serve(handle, "127.0.0.1", 0, process_request=check, close_timeout=0.5) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        service.url = f"ws://{host}:{port}"
        yield service


async def cartesia(socket: ServerConnection, service: Service) -> None:
    """A context per `context_id`; settings may not change within one; texts are spoken as they come."""
    settings: dict[str, Any] = {}
    heard_s: dict[str, float] = {}
    async for message in socket:
        fields = json.loads(message)
        service.messages.append(fields)
        name = fields["context_id"]
        if fields.get("cancel"):
            heard_s.pop(name, None)
            continue
        fixed = {key: fields[key] for key in ("model_id", "voice", "output_format")}
        if settings.setdefault(name, fixed) != fixed:
            await socket.send(json.dumps({"type": "error", "error_code": "context_changed", "context_id": name}))
            continue
        begin_s = heard_s.setdefault(name, 0.0)
        text = fields["transcript"]
        if text.strip():
            match service.failing(socket):
                case "error":
                    error = {"type": "error", "done": True, "error_code": "quota_exceeded", "status_code": 402}
                    await socket.send(json.dumps({**error, "message": f"cannot say {text}", "context_id": name}))
                    continue
                case "silent":
                    continue
                case "dropped":
                    return
            service.spoken.append(text)
            heard_s[name] += await cartesia_audio(socket, name, text, begin_s, fixed["output_format"]["sample_rate"])
        if not fields["continue"]:
            await socket.send(json.dumps({"type": "done", "done": True, "context_id": name}))


async def cartesia_audio(socket: ServerConnection, name: str, text: str, begin_s: float, rate_hz: int) -> float:
    starts = [at for at, c in enumerate(text) if not c.isspace() and (at == 0 or text[at - 1].isspace())]
    words = {
        "words": text.split(),
        "start": [begin_s + at * MS_PER_CHARACTER / 1000 for at in starts],
        "end": [begin_s + (at + 1) * MS_PER_CHARACTER / 1000 for at in starts],
    }
    await socket.send(json.dumps({"type": "timestamps", "word_timestamps": words, "context_id": name}))
    for part in parts(tone(text, rate_hz), 8000):
        data = base64.b64encode(part).decode()
        await socket.send(json.dumps({"type": "chunk", "data": data, "done": False, "context_id": name}))
    return len(text) * MS_PER_CHARACTER / 1000


async def deepgram(socket: ServerConnection, service: Service) -> None:
    """Text is collected until a flush, of which 20 are taken per connection here; audio is cut at odd bytes."""
    text, flushes = "", 0
    rate_hz = int(service.queries[-1]["sample_rate"][0])
    await socket.send(json.dumps({"type": "Metadata", "request_id": "1"}))
    async for message in socket:
        fields = json.loads(message)
        service.messages.append(fields)
        match fields["type"]:
            case "Speak":
                text += fields["text"]
            case "Clear":
                text = ""
                await socket.send(json.dumps({"type": "Cleared", "sequence_id": 0}))
            case "Flush":
                flushes += 1
                if flushes > 20:
                    await socket.send(json.dumps({"type": "Warning", "code": "TOO_MANY_FLUSHES"}))
                    continue
                match service.failing(socket):
                    case "error":
                        await socket.send(json.dumps({"type": "Error", "err_code": "QUOTA", "err_msg": text}))
                        continue
                    case "silent":
                        continue
                    case "dropped":
                        return
                service.spoken.append(text)
                for part in parts(tone(text, rate_hz), 3001):
                    await socket.send(part)
                text = ""
                await socket.send(json.dumps({"type": "Flushed", "sequence_id": flushes}))


async def rime(socket: ServerConnection, service: Service) -> None:
    """Text is collected until a flush, as with `segment=never`; `clear` drops what was not flushed."""
    text = ""
    query = service.queries[-1]
    assert query["segment"] == ["never"]
    async for message in socket:
        fields = json.loads(message)
        service.messages.append(fields)
        if "text" in fields:
            text += fields["text"]
        elif fields["operation"] == "clear":
            text = ""
        elif fields["operation"] == "flush" and text:
            match service.failing(socket):
                case "error":
                    await socket.send(json.dumps({"type": "error", "message": f"cannot say {text}"}))
                    continue
                case "silent":
                    continue
                case "dropped":
                    return
            service.spoken.append(text)
            for part in parts(tone(text, int(query["samplingRate"][0])), 8000):
                data = base64.b64encode(part).decode()
                await socket.send(json.dumps({"type": "chunk", "data": data, "contextId": None}))
            words = {"words": text.split(), "start": [], "end": []}
            await socket.send(json.dumps({"type": "timestamps", "word_timestamps": words}))
            text = ""
            await socket.send(json.dumps({"type": "done"}))


@asynccontextmanager
async def openai_server() -> AsyncIterator[Service]:
    """`POST /v1/audio/speech` with a chunked answer of 24 kHz PCM."""
    service = Service()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service.connections += 1
        try:
            while await answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        fields = json.loads(await reader.readexactly(length))
        service.messages.append(fields)
        assert head.startswith("POST /v1/audio/speech ")
        faults, spoken = service.faults, len(service.spoken)
        if f"Bearer {KEY}" not in head or faults.error_after_texts == spoken:
            status = "401 Unauthorized" if f"Bearer {KEY}" not in head else "429 Too Many Requests"
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
            return True
        service.spoken.append(fields["input"])
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        if faults.silent:
            await reader.read()
            return False
        for part in parts(tone(fields["input"], 24_000), 3001):
            if faults.drop_after_texts == spoken:
                return False
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return True

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        service.url = f"http://{host}:{port}/v1/"
        yield service
