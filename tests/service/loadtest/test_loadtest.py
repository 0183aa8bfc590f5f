"""The load test over real sockets, against a small server that speaks through the real dialect."""

import argparse
import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from service.loadtest import command
from service.protocols.events import (
    CallStarted,
    Command,
    EndTurn,
    Interrupted,
    Ready,
    SendAudio,
    SendToken,
    UserText,
)
from service.protocols.native import NativeDialect

QUICK = ["--quiet", "--ramp", "0.1", "--duration", "1", "--think", "0.05", "0.1", "--turns", "3", "--calls", "4"]


class Server:
    """Answers each utterance at once: three tokens, and two frames in an audio call. Counts what it saw."""

    def __init__(self, room: int = 1000, interruptible: bool = False) -> None:
        self.room = room
        self.interruptible = interruptible
        self.held = 0
        self.events: list[Any] = []

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != "/v1/voice":
            return connection.respond(HTTPStatus.NOT_FOUND, "")
        if self.held >= self.room:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        self.held += 1
        return None

    async def call(self, connection: ServerConnection) -> None:
        dialect = NativeDialect()
        turn = 0

        async def say(*commands: Command) -> None:
            for command_ in commands:
                for frame in dialect.send(command_, 0.0):
                    await connection.send(frame)

        try:
            async for data in connection:
                for event in dialect.receive(data, 0.0):
                    self.events.append(event)
                    match event:
                        case CallStarted():
                            await say(Ready("c"))
                        case UserText(final=True):
                            turn += 1
                            await say(*[SendToken(turn, index, "word") for index in range(3)])
                            if dialect.wants_audio:
                                await say(*[SendAudio(turn, b"\xff" * 160)] * 2)
                            if not self.interruptible:
                                await say(EndTurn(turn, "stop", timings_ms={"engine_tit_ms": 10.0}))
                        case Interrupted():
                            await say(EndTurn(turn, "interrupted"))
        except ConnectionClosed:
            pass
        finally:
            self.held -= 1


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """The server on a thread of its own; yields its address."""
    ready, stop = threading.Event(), asyncio.Event()
    port: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        async with serve(server.call, "127.0.0.1", 0, process_request=server.admit) as listening:
            port.append(next(iter(listening.sockets)).getsockname()[1])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"ws://127.0.0.1:{port[0]}"
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)


def load(url: str, *argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*QUICK, "--url", url, *argv]))


def outcome(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_text_load(tmp_path: Path) -> None:
    server, json_path, html_path = Server(), tmp_path / "load.json", tmp_path / "load.html"
    slo = tmp_path / "slo.toml"
    slo.write_text("[at_most]\ncalls.refused = 0\n[at_least]\nreplies = 5\n")
    with serving(server) as url:
        files = ["--slo", str(slo), "--json", str(json_path), "--html", str(html_path)]
        code = load(url, "--interrupts", "0", *files)
    found = outcome(json_path)
    figures = found["figures"]
    assert code == 0
    assert [verdict["limit"] for verdict in found["objective"]] == ["calls.refused <= 0", "replies >= 5"]
    assert figures["reasons"] == {"stop": figures["replies"]}
    assert figures["calls"]["held_max"] == 4
    assert figures["within_objective"] is not None
    assert figures["calls"]["lost"] == figures["calls"]["failed"] == figures["calls"]["refused"] == 0
    assert figures["ttft_ms"]["p50"] > 0
    assert figures["disordered"] == {}
    assert figures["first_audio_ms"]["p50"] is None
    assert figures["client"]["cpu_share"] > 0
    partial = [event for event in server.events if isinstance(event, UserText) and not event.final]
    assert partial
    html = html_path.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "The objective was met." in html


def test_at_the_end_calls_are_held_and_not_replaced(tmp_path: Path) -> None:
    with serving(Server()) as url:
        load(url, "--think", "5", "5", "--duration", "0.5", "--json", str(tmp_path / "load.json"))
    calls = outcome(tmp_path / "load.json")["figures"]["calls"]
    assert calls["arrived"] == calls["done"] == 4


def test_audio_load_over_two_processes(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    with serving(Server()) as url:
        load(url, "--audio", "mulaw", "--processes", "2", "--interrupts", "0", "--json", str(path))
    figures = outcome(path)["figures"]
    assert figures["client"]["processes"] == 2
    assert figures["frames_per_s"] > 0
    assert figures["first_audio_ms"]["p50"] > 0
    assert figures["frame_lateness_ms"]["p99"] is not None


def test_interrupts_and_hang_ups(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    server = Server(interruptible=True)
    with serving(server) as url:
        load(url, "--interrupts", "1", "--hang-ups", "0.5", "--turns", "1", "--duration", "3", "--json", str(path))
    figures = outcome(path)["figures"]
    assert figures["calls"]["hung_up"] > 0
    assert figures["calls"]["lost"] == 0
    assert figures["reasons"]["interrupted"] > 0
    assert figures["barge_in_ms"]["max"] == 0.0
    assert any(isinstance(event, Interrupted) for event in server.events)


def test_refused_calls_miss_the_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "load.json"
    with serving(Server(room=2)) as url:
        assert load(url, "--interrupts", "0", "--json", str(path)) == 1
    calls = outcome(path)["figures"]["calls"]
    assert calls["refused_by_status"] == {"503": calls["refused"]}
    assert calls["held_max"] == 2
    assert "MISSED  calls.refused <= 0" in capsys.readouterr().out


def test_finds_the_most_calls(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    with serving(Server(room=3)) as url:
        # Hang-ups would leave a place taken until the server has noticed.
        slo = tmp_path / "slo.toml"
        slo.write_text("at_most.calls.refused = 0\n")
        argv = ["--calls", "2", "--turns", "50", "--duration", "0.4", "--hang-ups", "0", "--slo", str(slo)]
        assert load(url, "--find-max", "6", *argv, "--json", str(path)) == 0
    found = outcome(path)
    assert found["most_calls"] == 3
    assert [run["calls"] for run in found["tried"]] == [2, 4, 4, 3]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--calls", "0"], "--calls must be at least 1"),
        (["--think", "2", "1"], "the shorter pause first"),
        (["--slo", "no-such-file.toml"], "no-such-file.toml: No such file"),
        (["--texts", "no-such-file.txt"], "no-such-file.txt: No such file"),
        (["--set", "a=b"], "--set is for the service"),
        (["--key-env", "VP_NO_SUCH_KEY"], "VP_NO_SUCH_KEY is not set"),
        (["--url", "http://127.0.0.1:1"], "is not a WebSocket address"),
    ],
)
def test_what_cannot_be_run(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Server()) as url:
        assert load(url, *argv) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_figure_is_found_out_before_the_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slo = tmp_path / "slo.toml"
    slo.write_text("at_most.first_word_ms.p50 = 1\n")
    server = Server()
    with serving(server) as url:
        assert load(url, "--slo", str(slo)) == 2
    assert "first_word_ms.p50: there is no such figure" in capsys.readouterr().err
    assert server.events == []


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # bound, never listening
        taken.bind(("127.0.0.1", 0))
        assert load(f"ws://127.0.0.1:{taken.getsockname()[1]}") == 2
    assert "Connection refused" in capsys.readouterr().err


def test_a_service_of_its_own_with_the_scripted_engine(tmp_path: Path) -> None:
    path, slo = tmp_path / "load.json", tmp_path / "slo.toml"
    slo.write_text("at_least.replies = 1\n")
    argv = ["--engine", "scripted", "--set", "scripted.step_time_ms=5", "--slo", str(slo), "--json", str(path)]
    assert load("ws://127.0.0.1:1", *argv, "--dialect", "twilio-media", "--duration", "3", "--turns", "1") == 0
    found = outcome(path)
    assert found["audio"] is True
    assert found["figures"]["frames_per_s"] > 0
    assert found["figures"]["faults"] == {}
    assert found["figures"]["service"]["cpu_share"] > 0


def test_a_service_that_does_not_start_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("ws://127.0.0.1:1", "--engine", "scripted", "--set", "scripted.step_time_ms=-5") == 2
    error = capsys.readouterr().err
    assert "scripted.step_time_ms" in error
    assert error.count("\n") == 1
