"""One call in the native protocol, as its client: speaks, listens, plays what it hears in real time, and reports it.

Playing is simulated by `Playback` and reported with `played`, as a telephone bridge would.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from service.call_report import OBJECTIVE_S, TurnTimes

REPORT_EVERY_S = 0.2


class CallFailed(Exception):
    """The call could not be held to its end; the message is one clear line."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """What to say and how."""

    texts: Sequence[str]
    audio: dict[str, Any] | None
    interrupt_after_s: float | None = None
    timeout_s: float = 60.0


@dataclass(slots=True)
class Reply:
    """One reply: its times, its text, its audio."""

    times: TurnTimes
    pieces: list[str] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    token_index: int | None = None
    heard: str | None = None


class Screen:
    """Shows tokens with their gaps in milliseconds; late ones stand out."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._colour = out is not None and out.isatty()

    def line(self, text: str) -> None:
        if self._out is not None:
            print(text, file=self._out, flush=True)

    def token(self, text: str, gap_s: float | None) -> None:
        if self._out is None:
            return
        late = gap_s is not None and gap_s > OBJECTIVE_S
        mark = "" if gap_s is None else f"{{{1000 * gap_s:.0f}{'!' if late else ''}}}"
        if self._colour:
            mark = f"\x1b[{'1;31' if late else '2'}m{mark}\x1b[0m" if mark else ""
        self._out.write(mark + text)
        self._out.flush()


class Caller:
    """One call in the native protocol, as its client."""

    def __init__(self, socket: ClientConnection, plan: CallPlan, screen: Screen) -> None:
        self.call_id = ""
        self.replies: list[Reply] = []
        self._socket = socket
        self._plan = plan
        self._screen = screen
        self._now = asyncio.get_running_loop().time
        self._by_turn: dict[int, Reply] = {}
        self._asked: Reply | None = None  # asked for, and no word of it yet
        self._playing: Reply | None = None
        self._reported_s = 0.0
        self._last_word_s = self._now()

    async def hold(self) -> None:
        """The whole call.

        Raises:
            CallFailed: the service ended it, or stopped answering.
        """
        await self._send({"type": "start", "audio": self._plan.audio})
        while not self.call_id:
            await self._read(self._now() + REPORT_EVERY_S)
            self._check_silence()
        for text in self._plan.texts:
            await self._ask(text)
        await self._send({"type": "end"})

    async def _ask(self, text: str) -> None:
        """Say one thing and listen to the reply to its end."""
        self._screen.line(f"\n> {text}")
        reply = self._asked = Reply(TurnTimes(-1, asked_s=self._now()))
        self.replies.append(reply)
        self._reported_s = 0.0
        await self._send({"type": "user_text", "text": text})
        self._last_word_s = self._now()
        while reply.times.ended_s is None or reply.times.playback.left_s(self._now()) > 0:
            interrupt_at_s = self._interrupt_at_s(reply)
            wake_s = self._now() + REPORT_EVERY_S
            await self._read(wake_s if interrupt_at_s is None else min(wake_s, interrupt_at_s))
            if reply.times.ended_s is None:
                self._check_silence()
            await self._report(reply, every_s=REPORT_EVERY_S)
            if interrupt_at_s is not None and self._now() >= interrupt_at_s:
                await self._interrupt(reply)
        await self._report(reply, every_s=0.0)
        self._screen.line(f"\n  [{reply.times.reason}]" + (f" heard: {reply.heard}" if reply.heard is not None else ""))

    def _interrupt_at_s(self, reply: Reply) -> float | None:
        times = reply.times
        first_s = times.first_audio_s if self._plan.audio else next(iter(times.token_times_s), None)
        if self._plan.interrupt_after_s is None or first_s is None:
            return None
        if times.interrupted_s is not None or times.ended_s is not None:
            return None
        return first_s + self._plan.interrupt_after_s

    async def _interrupt(self, reply: Reply) -> None:
        await self._report(reply, every_s=0.0)
        heard = {"heard_ms": self._heard_ms(reply)} if self._plan.audio else {}
        reply.times.interrupted_s = self._now()
        self._stop_playing(reply)
        await self._send({"type": "interrupt", **heard})

    async def _report(self, reply: Reply, every_s: float) -> None:
        """Tell the service what has been played."""
        if self._now() < self._reported_s + every_s or reply.times.turn_id < 0:
            return
        self._reported_s = self._now()
        if self._plan.audio:
            await self._send({"type": "played", "turn_id": reply.times.turn_id, "audio_ms": self._heard_ms(reply)})
        elif reply.token_index is not None:
            await self._send({"type": "played", "turn_id": reply.times.turn_id, "token_index": reply.token_index})

    def _heard_ms(self, reply: Reply) -> float:
        return round(1000 * reply.times.playback.position_s(self._now()), 1)

    def _stop_playing(self, reply: Reply) -> None:
        reply.times.playback.clear(self._now())
        del reply.frames[round(reply.times.playback.received_s * 50) :]

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(message))

    def _check_silence(self) -> None:
        if self._now() > self._last_word_s + self._plan.timeout_s:
            raise CallFailed(f"the service said nothing for {self._plan.timeout_s:g} s")

    async def _read(self, until_s: float) -> None:
        """Take one message if one comes until then."""
        try:
            async with asyncio.timeout_at(until_s):
                data = await self._socket.recv()
        except TimeoutError:
            return
        now = self._last_word_s = self._now()
        if isinstance(data, bytes):
            self._audio(data, now)
        else:
            self._message(json.loads(data), now)

    def _audio(self, data: bytes, now: float) -> None:
        if (reply := self._playing) is None:
            return
        reply.times.audio_frame(now)
        if reply.times.interrupted_s is None:
            reply.frames.append(data)

    def _message(self, message: dict[str, Any], now: float) -> None:
        match message["type"]:
            case "ready":
                self.call_id = message["call_id"]
            case "token":
                reply = self._reply(message["turn_id"])
                gap_s = reply.times.token(message["text"], now)
                reply.pieces.append(message["text"])
                reply.token_index = message["index"]
                self._screen.token(message["text"], gap_s)
            case "audio_begin":
                self._playing = self._reply(message["turn_id"])
            case "audio_clear":
                self._stop_playing(self._reply(message["turn_id"]))
            case "turn_end":
                reply = self._reply(message["turn_id"])
                reply.heard = message.get("heard")
                reply.times.end(message["reason"], message["timings_ms"], now)
            case "error":
                where = f" ({message['field']})" if message.get("field") else ""
                self._screen.line(f"\n  error: {message['message']}{where}")
            case "end":
                raise CallFailed(f"the service ended the call: {message['reason']}")

    def _reply(self, turn_id: int) -> Reply:
        """The reply of that number: the one asked for, if it is new, else one nobody asked for (a greeting)."""
        if turn_id not in self._by_turn:
            if self._asked is None:
                self.replies.append(Reply(TurnTimes(-1)))
            reply = self._by_turn[turn_id] = self._asked or self.replies[-1]
            reply.times.turn_id = turn_id
            self._asked = None
        return self._by_turn[turn_id]


@asynccontextmanager
async def connected(url: str, key: str | None, subprotocol: str | None = None) -> AsyncIterator[ClientConnection]:
    """An open WebSocket to the service, `subprotocol` offered.

    Raises:
        CallFailed: saying in one line why there is none, or how it was lost.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else None
    try:
        async with connect(
            url,
            subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
            additional_headers=headers,
            compression=None,
            proxy=None,
            max_size=2**20,
        ) as socket:
            yield socket
    except InvalidURI:
        raise CallFailed(f"{url} is not a WebSocket address (ws://HOST:PORT/PATH)") from None
    except InvalidStatus as error:
        raise CallFailed(_refusal(error.response.status_code, url, key)) from None
    except ConnectionClosed as error:
        said = error.rcvd.reason if error.rcvd and error.rcvd.reason else ""
        code = error.rcvd.code if error.rcvd else 1006
        raise CallFailed(f"the connection was lost (code {code}{': ' + said if said else ''})") from None
    except (InvalidHandshake, TimeoutError):
        raise CallFailed(f"{url} does not answer as a WebSocket service") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CallFailed(f"cannot reach {url}: {why}") from None


def _refusal(status: int, url: str, key: str | None) -> str:
    if status in (401, 403):
        return f"{url} refused the key ({status})" if key else f"{url} asks for a key ({status}): give --key-env NAME"
    if status == 503:
        return f"{url} takes no more calls now (503)"
    if status == 404:
        return f"there is no voice service at {url} (404)"
    return f"{url} refused the call (HTTP {status})"
