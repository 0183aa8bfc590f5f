"""The command-line bridge against a small server that speaks through the real dialect."""

import argparse
import asyncio
import json
import socket
import wave
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from service import call
from service.protocols.events import (
    BeginAudio,
    CallEnded,
    CallStarted,
    Command,
    EndTurn,
    Event,
    Fault,
    HangUp,
    Interrupted,
    Played,
    Ready,
    SendAudio,
    SendToken,
    UserText,
)
from service.protocols.native import NativeDialect

FRAME = bytes(range(160)) * 2  # 20 ms of pcm16 at 8 kHz


class Line:
    """The server's end of one call."""

    def __init__(self, connection: ServerConnection) -> None:
        self.dialect = NativeDialect()
        self.events: list[Event] = []
        self.connection = connection

    async def hear(self, kind: type[Event]) -> Any:
        """The next event of that kind; what comes before it is kept in `events`."""
        while True:
            for event in self.dialect.receive(await self.connection.recv(), 0.0):
                self.events.append(event)
                if isinstance(event, kind):
                    return event

    async def say(self, *commands: Command) -> None:
        for command in commands:
            for frame in self.dialect.send(command, 0.0):
                await self.connection.send(frame)

    async def answer(self) -> None:
        await self.hear(CallStarted)
        await self.say(Ready("c-1"))


Script = Callable[[Line], Awaitable[None]]


def run_call(
    script: Script,
    *argv: str,
    refuse: HTTPStatus | None = None,
) -> tuple[int, Line | None]:
    """`voicepace call ARGV` against a server that follows `script`; its exit code and the server's end of the call."""
    lines: list[Line] = []

    async def handle(connection: ServerConnection) -> None:
        lines.append(Line(connection))
        await script(lines[-1])

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") == "Bearer wrong":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "")
        return connection.respond(refuse, "") if refuse else None

    async def both() -> int:
        async with serve(handle, "127.0.0.1", 0, process_request=admit) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            parser = argparse.ArgumentParser()
            call.add_arguments(parser)
            args = parser.parse_args([*argv, "--url", f"ws://127.0.0.1:{port}/v1/voice"])
            return await asyncio.to_thread(call.run, args)

    return asyncio.run(both()), lines[0] if lines else None


async def two_turns(line: Line) -> None:
    await line.answer()
    for turn in (1, 2):
        await line.hear(UserText)
        tokens = [SendToken(turn, index, text, index // 2) for index, text in enumerate(["Good", " ", "", "day"])]
        await line.say(*tokens, EndTurn(turn, "stop", timings_ms={"engine_tit_ms": 16.0 + turn}))
    await line.hear(CallEnded)


def test_text_call(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = run_call(two_turns, "hello", "--turns", "2")
    out = capsys.readouterr().out
    assert code == 0
    assert out.count("> hello") == 2
    assert "2 turns, 6 tokens" in out
    assert "engine TIT      17.5 ms" in out
    assert line is not None
    assert Played(1, token_index=3) in line.events
    assert Played(2, token_index=3) in line.events


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = run_call(two_turns, "hello", "bye", "--json")
    outcome = json.loads(capsys.readouterr().out)
    assert code == 0
    assert outcome["call_id"] == "c-1"
    assert [reply["text"] for reply in outcome["replies"]] == ["Good day", "Good day"]
    assert outcome["figures"]["reasons"] == {"stop": 2}
    assert outcome["figures"]["output_after_end"] == 0


async def spoken(line: Line) -> None:
    await line.answer()
    await line.hear(UserText)
    await line.say(SendToken(1, 0, "Hi"), BeginAudio(1), *[SendAudio(1, FRAME)] * 5, EndTurn(1, "stop"))
    await line.hear(CallEnded)


def test_audio_is_played_reported_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reply.wav"
    code, line = run_call(spoken, "hello", "--out", str(path))
    assert code == 0
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        assert file.readframes(10_000) == FRAME * 5
    assert line is not None
    positions = [event.audio_ms for event in line.events if isinstance(event, Played)]
    assert positions == sorted(positions, key=lambda position: position or 0.0)
    assert positions[-1] == pytest.approx(100.0)
    assert "first audio" in capsys.readouterr().out


def test_mulaw_is_decoded(tmp_path: Path) -> None:
    async def loud(line: Line) -> None:
        await line.answer()
        await line.hear(UserText)
        await line.say(SendAudio(1, b"\x00\xff" * 80), EndTurn(1, "stop"))
        await line.hear(CallEnded)

    path = tmp_path / "reply.wav"
    assert run_call(loud, "hello", "--audio", "mulaw", "--out", str(path))[0] == 0
    with wave.open(str(path)) as file:
        # G.711: 0x00 is the largest negative value, 0xff is silence.
        assert file.readframes(160) == ((-32124).to_bytes(2, "little", signed=True) + bytes(2)) * 80


async def talks_until_interrupted(line: Line) -> None:
    await line.answer()
    await line.hear(UserText)
    await line.say(SendToken(1, 0, "Once"), SendToken(1, 1, " upon"))
    await line.hear(Interrupted)
    await line.say(SendToken(1, 2, " a"), EndTurn(1, "interrupted", heard="Once upon"))
    await line.hear(CallEnded)


def test_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = run_call(talks_until_interrupted, "a story", "--interrupt-after", "0", "--json")
    outcome = json.loads(capsys.readouterr().out)
    assert code == 0
    assert outcome["replies"][0]["heard"] == "Once upon"
    assert outcome["figures"]["interrupt_to_silence_ms"]["max"] > 0
    assert line is not None
    assert [event for event in line.events if isinstance(event, Interrupted)] == [Interrupted()]


async def talks_aloud_until_interrupted(line: Line) -> None:
    await line.answer()
    await line.hear(UserText)
    await line.say(BeginAudio(1), *[SendAudio(1, FRAME)] * 50)
    await line.hear(Interrupted)
    await line.say(EndTurn(1, "interrupted"))
    await line.hear(CallEnded)


def test_interrupt_of_audio_says_how_much_was_heard(tmp_path: Path) -> None:
    path = tmp_path / "heard.wav"
    code, line = run_call(talks_aloud_until_interrupted, "a", "--interrupt-after", "0.2", "--out", str(path))
    assert code == 0
    assert line is not None
    [interrupt] = [event for event in line.events if isinstance(event, Interrupted)]
    assert 0 < interrupt.heard_ms < 1000
    with wave.open(str(path)) as file:
        assert file.getnframes() / 8 == pytest.approx(interrupt.heard_ms, abs=21)


def test_errors_of_the_service_are_shown_and_the_call_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    async def complains(line: Line) -> None:
        await line.answer()
        await line.hear(UserText)
        await line.say(Fault("bad_message", "is wrong", "text"), SendToken(2, 0, "Yes"), EndTurn(2, "stop"))
        await line.hear(CallEnded)

    assert run_call(complains, "hello")[0] == 0
    assert "error: is wrong (text)" in capsys.readouterr().out


async def vanishes(line: Line) -> None:
    await line.answer()
    await line.hear(UserText)
    await line.say(SendToken(1, 0, "Half"))
    line.connection.transport.abort()


async def hangs_up(line: Line) -> None:
    await line.answer()
    await line.hear(UserText)
    await line.say(HangUp("draining"))
    await line.connection.wait_closed()


async def says_nothing(line: Line) -> None:
    await line.connection.wait_closed()


@pytest.mark.parametrize(
    ("script", "argv", "refuse", "said"),
    [
        (vanishes, [], None, "the connection was lost (code 1006)"),
        (hangs_up, [], None, "the service ended the call: draining"),
        (says_nothing, ["--timeout", "0.1"], None, "the service said nothing for 0.1 s"),
        (says_nothing, [], HTTPStatus.UNAUTHORIZED, "asks for a key (401): give --key-env NAME"),
        (says_nothing, [], HTTPStatus.SERVICE_UNAVAILABLE, "takes no more calls now (503)"),
        (says_nothing, [], HTTPStatus.NOT_FOUND, "(404)"),
        (says_nothing, ["--key-env", "VP_TEST_KEY"], None, "refused the key (401)"),
        (says_nothing, ["--key-env", "VP_NO_SUCH_KEY"], None, "VP_NO_SUCH_KEY is not set"),
        (says_nothing, ["--audio", "none", "--out", "x.wav"], None, "--out needs audio"),
    ],
)
def test_failures_are_one_clear_line(
    script: Script,
    argv: list[str],
    refuse: HTTPStatus | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VP_TEST_KEY", "wrong")
    code, _ = run_call(script, "hello", *argv, refuse=refuse)
    captured = capsys.readouterr()
    assert code == 1
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_a_lost_call_still_shows_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    run_call(vanishes, "hello")
    assert "1 turns, 1 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "said"),
    [("ws://127.0.0.1:{port}/v1/voice", "cannot reach"), ("http://nowhere", "is not a WebSocket address")],
)
def test_nobody_there(url: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # bound, never listening: nobody else can take the port
        taken.bind(("127.0.0.1", 0))
        parser = argparse.ArgumentParser()
        call.add_arguments(parser)
        args = parser.parse_args(["hello", "--url", url.format(port=taken.getsockname()[1])])
        assert call.run(args) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
