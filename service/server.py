"""`voicepace serve`: settings to a listening socket, and an orderly end."""

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api import Engine
from engine.plan.start_line import start_line
from engine.profiles import PROFILES
from service.settings import Settings, SettingsError, keys, load_settings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


SEND_BUFFER_BYTES = 64 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every setting is a flag of its dotted key."""
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--host", dest="server.host", help="same as --server.host")
    parser.add_argument("--port", dest="server.port", help="same as --server.port")
    for key, (description, default) in keys().items():
        shown = f"{description} Default: {default}".replace("%", "%%")
        parser.add_argument(f"--{key}", dest=key, metavar="VALUE", help=shown, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; the exit status."""
    known = keys()
    flags = {key: value for key, value in vars(args).items() if key in known and value is not None}
    try:
        settings = load_settings(flags, args.config)
    except SettingsError as error:
        print(f"voicepace: {error}", file=sys.stderr)
        return 2
    from service import logs

    logs.set_up(settings.log.level, settings.engine.vllm_log_level)
    try:
        listener = listen(settings.server.host, settings.server.port)
    except OSError as error:
        where = f"{settings.server.host}:{settings.server.port}"
        print(f"voicepace: cannot listen on {where}: {error.strerror}", file=sys.stderr)
        return 1
    with listener:
        try:
            return serve(settings, listener)
        except SettingsError as error:
            print(f"voicepace: {error}", file=sys.stderr)
            return 2


def serve(settings: Settings, listener: socket.socket) -> int:
    """Run the service on a bound socket; 0 after an orderly end, 1 where it could not start."""
    from service.event_loop import PreciseLoop

    with asyncio.Runner(loop_factory=PreciseLoop) as runner:
        return runner.run(_serve(settings, listener))


async def _serve(settings: Settings, listener: socket.socket) -> int:
    from service.app import create_app
    from service.interpreter import settle_interpreter
    from service.metrics import Metrics
    from tts_adapter.voices.catalog import make_voice

    _progress(f"starting with profile {settings.profile}{planned(settings.profile)}")
    engine = make_engine(settings)
    metrics = Metrics(engine.model_name, settings.pacing.slo_ms / 1000)
    voice = make_voice(settings.voice)
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        settle_interpreter()
        print(f"voicepace is ready: http://{host}:{port}", flush=True)

    def failed() -> None:
        server.should_exit = True

    service = create_app(settings, engine, voice, metrics, announce, failed)
    server = web_server(service.app, settings)
    stopping = _stop_signals()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve([listener]), name="server")
        waiting = tasks.create_task(stopping.acquire(), name="signals")
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            service.lifecycle.drain()
            drained = tasks.create_task(service.calls.drain(settings.server.drain_s), name="drain")
            impatient = tasks.create_task(stopping.acquire(), name="second signal")
            await asyncio.wait([drained, impatient], return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            impatient.cancel()
            server.should_exit = True
        waiting.cancel()
    if service.lifecycle.failure is not None:
        print(f"voicepace: {service.lifecycle.failure}", file=sys.stderr)
        return 1
    return 0


def planned(profile: str) -> str:
    """What the plan says of a profile whose machine is known, as the end of a line; else nothing."""
    question = PROFILES[profile].planned
    return "" if question is None else f"; {question['gpu']}: {start_line(**question)}"


def make_engine(settings: Settings) -> Engine:
    """The engine that the settings ask for, not yet started."""
    scripted = settings.scripted
    if scripted.enabled:
        from engine.fake import Script, ScriptedEngine

        script = Script((), scripted.first_token_ms / 1e3, scripted.step_time_ms / 1e3, scripted.burst_sizes)
        return ScriptedEngine(script=script)
    from engine.vllm_engine import VllmEngine

    return VllmEngine(settings.engine, settings.cache_dir.expanduser(), _progress)


def _progress(line: str) -> None:
    print(f"voicepace: {line}", file=sys.stderr, flush=True)


def _stop_signals() -> asyncio.Semaphore:
    """Released once per SIGTERM or SIGINT: the first drains, the second stops at once."""
    stops = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stops.release)
    return stops


def web_server(app: "FastAPI", settings: Settings) -> "uvicorn.Server":
    import uvicorn

    from service.keepalive import HttpProtocol, protocol_with_pings
    from service.protocols.catalog import CATALOG

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """The signals are ours: calls are drained before the server is told to exit."""
            yield

    return Server(
        uvicorn.Config(
            app,
            http=HttpProtocol,
            ws=protocol_with_pings({entry.path: settings.server.ping_interval(entry) for entry in CATALOG.values()}),
            ws_max_size=settings.server.max_message_bytes,
            # Frames are small and due at once: compressing them costs more time than it saves.
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=5,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: the address is in use, or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by every connection. Left alone, the kernel takes megabytes for a peer that has stopped reading: minutes of
    # audio, before a send waits and the peer is found out.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    try:
        listener.bind((host, port))
        # Listening from here on: who connects before the server runs waits instead of being turned away.
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener
