"""Every telephony dialect over a real socket: the service with its scripted engine, and the bridge's side of a call."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.bridges.bridge import AudioArrived, Bridge, Cleared, Fact, MarkArrived, Refused, TextArrived, Transcript
from service.bridges.catalog import BRIDGES
from service.protocols.catalog import CATALOG
from service.settings import load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

REPLY = "Sure, I can help with that. What do you need?"
LONG_REPLY = " ".join([REPLY] * 40)  # still going on when a caller breaks in, however late that is


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    flags = {"scripted.enabled": "true", "server.max_calls": "16"}

    def reply(request: GenerateRequest) -> str:
        prompt = engine.tokenizer.decode(request.prompt_token_ids)
        return LONG_REPLY if prompt.endswith("story.\nassistant\n") else REPLY

    engine: ScriptedEngine = ScriptedEngine(reply, Script(first_token_s=0.02, step_time_s=0.015, burst_sizes=(1, 2, 3)))
    with running_service(load_settings(flags, environ={}), engine, ToneVoice()) as running:
        yield running


class Line:
    """A bridge on a socket; `pump` plays both directions until something has happened."""

    def __init__(self, bridge: Bridge, socket: ClientConnection, service: Running) -> None:
        self.bridge = bridge
        self.facts: list[Fact] = []
        self._socket = socket
        self._service = service
        self._now = asyncio.get_running_loop().time

    async def send(self, frames: list[str | bytes]) -> None:
        for frame in frames:
            await self._socket.send(frame)

    async def say(self, text: str) -> None:
        said = self.bridge.say(text, self._now())
        if not isinstance(said, Transcript):
            await self.send(said)
            return
        async with httpx.AsyncClient() as client:
            path = quote(said.path)
            assert (await client.post(self._service.http + path, json=dict(said.body))).status_code == 202

    async def pump(self, done: int | None = None, kind: type = object, limit_s: float = 15.0) -> None:
        """Until there are `done` facts of this kind; for `limit_s` where None is given."""
        end = self._now() + limit_s
        while self._now() < end and (done is None or self.count(kind) < done):
            await self.send(self.bridge.tick(self._now()))
            if self.bridge.audio is not None:
                await self.send(self.bridge.caller_audio(b"\xff" * self.bridge.audio.frame_bytes, self._now()))
            await self.listen(self._now() + 0.02, done, kind)
        assert done is None or self.count(kind) >= done, f"{done} {kind.__name__} awaited, {self.count(kind)} came"

    async def listen(self, until_s: float, done: int | None = None, kind: type = object) -> None:
        """Take what comes until then, or until there are `done` facts of this kind."""
        try:
            async with asyncio.timeout_at(until_s):
                while done is None or self.count(kind) < done:
                    facts, answers = self.bridge.receive(await self._socket.recv(), self._now())
                    self.facts += facts
                    await self.send(answers)
        except TimeoutError:
            pass

    def count(self, kind: type) -> int:
        return sum(isinstance(fact, kind) for fact in self.facts)

    @property
    def text(self) -> str:
        return "".join(fact.text for fact in self.facts if isinstance(fact, TextArrived))

    @property
    def audio_s(self) -> float:
        assert self.bridge.audio is not None
        arrived = sum(len(fact.payload) for fact in self.facts if isinstance(fact, AudioArrived))
        return arrived / self.bridge.audio.frame_bytes * 0.02

    async def until_text(self, text: str) -> None:
        """Until exactly this has arrived."""
        for _ in range(100):
            if self.text == text:
                return
            await self.pump(limit_s=0.1)
        assert self.text == text

    async def until_quiet(self) -> None:
        """Until no audio has come for a while after some came."""
        await self.pump(self.count(AudioArrived) + 1, AudioArrived)
        before = -1
        while self.count(AudioArrived) != before:
            before = self.count(AudioArrived)
            await self.pump(limit_s=0.6)


def hold_all(service: Running, purpose: str, talk: Callable[[Line], Awaitable[None]]) -> None:
    """One call of every dialect, all at a time."""

    async def hold(name: str) -> None:
        bridge = BRIDGES[name](call_id=f"{purpose}-{name}")
        protocols = None if bridge.subprotocol is None else [Subprotocol(bridge.subprotocol)]
        async with connect(service.ws + CATALOG[name].path, subprotocols=protocols, ping_interval=None) as socket:
            assert socket.subprotocol == bridge.subprotocol
            line = Line(bridge, socket, service)
            await line.send(bridge.opening())
            await line.pump(limit_s=0.2)
            await talk(line)
            assert not line.count(Refused), name
            await line.send(bridge.hang_up())

    async def hold_each() -> None:
        async with asyncio.TaskGroup() as calls:
            for name in BRIDGES:
                calls.create_task(hold(name), name=name)

    asyncio.run(hold_each())


def test_two_turns(service: Running) -> None:
    async def talk(line: Line) -> None:
        for turn in (1, 2):
            await line.say("What are your hours?")
            if line.bridge.audio is None:
                await line.until_text(REPLY * turn)
            else:
                await line.until_quiet()
                assert line.audio_s > turn
        if line.bridge.audio is not None:
            assert line.count(MarkArrived)

    hold_all(service, "two", talk)


def test_an_interruption_ends_the_reply(service: Running) -> None:
    async def talk(line: Line) -> None:
        await line.say("Tell me a story.")
        if line.bridge.audio is not None:
            await line.pump(5, AudioArrived)
            await line.say("Wait.")
            await line.pump(1, Cleared)
            return
        await line.pump(1, TextArrived)
        await line.send(line.bridge.interrupt(asyncio.get_running_loop().time()))
        await line.pump(limit_s=0.3)
        cut = line.text
        assert LONG_REPLY.startswith(cut)
        assert cut != LONG_REPLY
        await line.say("And on Sunday?")
        await line.until_text(cut + REPLY)

    hold_all(service, "cut", talk)


def test_broken_messages_cost_nothing_else(service: Running) -> None:
    async def talk(line: Line) -> None:
        await line.send(["{", "[]", '{"type":"prompt"}', '{"event":"media","media":1}', '{"type":"verb:hook"}'])
        await line.say("Still there?")
        await line.pump(1, TextArrived if line.bridge.audio is None else AudioArrived)

    hold_all(service, "bad", talk)


@pytest.mark.parametrize("name", ["jambonz", "asterisk"])
def test_the_subprotocol_must_be_offered(service: Running, name: str) -> None:
    async def call() -> None:
        async with connect(service.ws + CATALOG[name].path):
            pass

    with pytest.raises(InvalidStatus, match="400"):
        asyncio.run(call())
