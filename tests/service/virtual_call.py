"""One call in virtual time: the real session on a socket of ours, with the bridge's side of any dialect at its other end.

Every frame that leaves is kept with its time, and every prompt that reached the engine with the words in it, so that a
test can say exactly what left when and what was remembered.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.websockets import WebSocketState

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.admission import Admission
from service.bridges.bridge import AudioArrived, Bridge, Fact, TextArrived, Transcript
from service.calls import Calls
from service.channel import Channel
from service.equipment import Equipment
from service.metrics import Metrics
from service.protocols.catalog import CATALOG
from service.protocols.events import Frame, UserText
from service.session import Session
from service.settings import load_settings
from service.tool_use import MakeReader
from service.traces import Traces
from tests.service.native_bridge import bridge_of
from tts_adapter.pace_model import PaceModel
from tts_adapter.voices.tone import ToneVoice

REPLY = "We open at nine every day, but on Sunday we stay closed."
SCRIPT = Script(first_token_s=0.1, step_time_s=0.04, burst_sizes=(1, 2, 3))
TICK_S = 0.02


class FakeSocket:
    """What `Channel` needs of Starlette's WebSocket."""

    def __init__(self, arrived: Callable[[Frame], None]) -> None:
        self.application_state = WebSocketState.CONNECTED
        self.closed: list[int] = []
        self.stalled = False
        self._arrived = arrived

    async def send_text(self, data: str) -> None:
        await self._send(data)

    async def send_bytes(self, data: bytes) -> None:
        await self._send(data)

    async def close(self, code: int, reason: str = "") -> None:
        self.application_state = WebSocketState.DISCONNECTED
        self.closed.append(code)

    async def _send(self, data: Frame) -> None:
        while self.stalled:
            await asyncio.sleep(3600)
        self._arrived(data)


class VirtualCall:
    """A call under way.

    Attributes:
        facts: what the bridge understood, each with its time (loop time, seconds).
        prompts: the words of every prompt that reached the engine, oldest first.
    """

    def __init__(
        self,
        name: str,
        engine: ScriptedEngine,
        prompts: list[str],
        bridge: Bridge | None = None,
        tool_reader: MakeReader | None = None,
        traces: Traces | None = None,
        **flags: str,
    ) -> None:
        settings = load_settings(
            {"scripted.enabled": "true", **{key.replace("__", "."): text for key, text in flags.items()}}, environ={}
        )
        entry = CATALOG["native" if name.startswith("native") else name]
        self.bridge: Bridge = bridge or bridge_of(name)
        self.engine = engine
        self.prompts = prompts
        self.facts: list[tuple[float, Fact]] = []
        self.metrics = Metrics("scripted")
        self.now = asyncio.get_running_loop().time
        self._inbound: asyncio.Queue[Frame | None] = asyncio.Queue()
        calls = Calls(Admission(8, None), 0, 0.0)
        pace_model = PaceModel(settings.pacing.slo_ms / 1000)
        extra = {"tool_reader": tool_reader, "traces": traces or Traces()}
        equipment = Equipment(engine, ToneVoice(), settings, self.metrics, calls, pace_model, **extra)
        dialect = entry.make()
        self.socket = FakeSocket(self._arrived)
        channel = Channel(self.socket, dialect, settings.server.send_timeout_s)  # type: ignore[arg-type]
        self.channel = channel
        self.session = Session(dialect, channel, equipment)

    async def run(self) -> None:
        """The session, until it ends; then the socket is closed as the gateway does."""
        await self.session.run(self._inbound.get)
        await self.channel.close(1000)

    async def play(self) -> None:
        """The bridge plays what it has, in real time."""
        while True:
            self.send(self.bridge.tick(self.now()))
            await asyncio.sleep(TICK_S)

    def send(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._inbound.put_nowait(frame)

    def hang_up(self) -> None:
        """The caller hangs up, and the socket closes."""
        self.send(self.bridge.hang_up())
        self._inbound.put_nowait(None)

    async def say(self, text: str) -> None:
        said = self.bridge.say(text, self.now())
        if isinstance(said, Transcript):
            await self.session.take([UserText(text)])
        else:
            self.send(said)
            await settle()

    async def until_units(self, count: int, limit_s: float = 30.0) -> None:
        """Until so many tokens or frames of replies have arrived."""
        end = self.now() + limit_s
        while len(self.units()) < count and self.now() < end:
            await asyncio.sleep(0.001)
        assert len(self.units()) >= count

    def units(self) -> list[tuple[float, Fact]]:
        """Tokens or audio frames that have arrived, each with its time."""
        kind = TextArrived if self.bridge.audio is None else AudioArrived
        return [(at, fact) for at, fact in self.facts if isinstance(fact, kind)]

    def count(self, kind: type) -> int:
        return sum(isinstance(fact, kind) for _, fact in self.facts)

    @property
    def text(self) -> str:
        return "".join(fact.text for _, fact in self.facts if isinstance(fact, TextArrived))

    def _arrived(self, frame: Frame) -> None:
        facts, answers = self.bridge.receive(frame, self.now())
        self.facts += [(self.now(), fact) for fact in facts]
        self.send(answers)


@asynccontextmanager
async def virtual_call(
    name: str, reply: str | Callable[[str], str] = REPLY, script: Script = SCRIPT, **rest: Any
) -> AsyncIterator[VirtualCall]:
    """A started call of the dialect `name`; `reply` may be a function of the prompt's words. Nothing is left at the end."""
    prompts: list[str] = []

    def answer(request: GenerateRequest) -> str:
        prompts.append(engine.tokenizer.decode(request.prompt_token_ids))
        return reply if isinstance(reply, str) else reply(prompts[-1])

    engine = ScriptedEngine(answer, script)
    await engine.start()
    call = VirtualCall(name, engine, prompts, **rest)
    before = len(asyncio.all_tasks())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(call.run())
        playing = tasks.create_task(call.play())
        call.send(call.bridge.opening())
        await settle()
        yield call
        call.hang_up()
        await running
        playing.cancel()
    assert engine.running == 0
    assert len(asyncio.all_tasks()) == before
    await engine.stop()


async def settle() -> None:
    """Let everything happen that needs no time."""
    await asyncio.sleep(0.0005)


def dialogue(prompt: str) -> list[tuple[str, str]]:
    """What a prompt says, as (role, text), without the system's part and the reply's opening."""
    parts = re.split(r"(?:^|\n)(system|user|assistant)\n", prompt)[1:]
    said = list(zip(parts[::2], parts[1::2], strict=True))
    return [(role, text.strip("\n")) for role, text in said if role != "system"][:-1]
