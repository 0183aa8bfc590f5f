"""The ASGI application: routes, and a lifespan that starts, watches, drains and stops. No globals."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import cast

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST

from engine.api import Engine
from service import console_page, openai_api, transcripts
from service.admission import Admission
from service.calls import Calls
from service.credentials import BearerOnly, Credentials
from service.equipment import Equipment
from service.gateway import Gateway
from service.lifecycle import Lifecycle, State
from service.metrics import Metrics
from service.normalising import make_normaliser
from service.settings import Settings
from service.speech_detector import SpeechModel
from service.tool_use import MakeReader
from service.traces import make_traces
from tts_adapter.pace_model import PaceModel
from tts_adapter.voice import Voice


class Service:
    """The application and the parts a server needs a hand on."""

    def __init__(self, app: FastAPI, lifecycle: Lifecycle, calls: Calls) -> None:
        self.app = app
        self.lifecycle = lifecycle
        self.calls = calls


def create_app(
    settings: Settings,
    engine: Engine,
    voice: Voice | None,
    metrics: Metrics,
    announce: Callable[[], None] = lambda: None,
    failed: Callable[[], None] = lambda: None,
) -> Service:
    """Build the service.

    Args:
        settings: the whole tree.
        engine: not yet started; the lifespan starts it while the routes already answer.
        voice: not yet started, or None for text only.
        metrics: where everything is recorded.
        announce: called when the service is ready for its first call.
        failed: called when it could not start; `lifecycle.failure` says why.
    """
    server = settings.server
    max_gap_s = None if server.max_predicted_gap_ms is None else server.max_predicted_gap_ms / 1e3
    calls = Calls(Admission(server.max_calls, max_gap_s), server.max_waiting_calls, server.max_wait_s)
    metrics.watch_load(
        server.max_calls, lambda: calls.waiting, lambda: calls.admission.predicted_gap_s(max(1, calls.count))
    )
    metrics.describe(
        version=version("voicepace"),
        profile=settings.profile,
        speculation="scripted" if settings.scripted.enabled else settings.engine.speculation,
        objective_ratio=server.objective_ratio,
    )
    if (tree_tally := getattr(engine, "tree_tally", None)) is not None:
        metrics.watch_trees(tree_tally)
    lifecycle = Lifecycle(engine, voice, metrics, announce)
    pace_model = PaceModel(settings.pacing.slo_ms / 1000)
    speech_model = SpeechModel() if settings.listen.vad else None
    tool_reader = _tool_reader(engine, settings.openai.tool_parser)
    normaliser = make_normaliser(settings)
    traces = make_traces(settings.traces)
    equipment = Equipment(
        engine, voice, settings, metrics, calls, pace_model, speech_model, normaliser, tool_reader, traces
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        metrics.watch_leftovers(lambda: len(asyncio.all_tasks(loop)), lambda: engine.running)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(_run(lifecycle, failed), name="lifecycle")
            yield
            running.cancel()
        await lifecycle.stop()
        await asyncio.to_thread(traces.close)

    app = FastAPI(title="voicepace", lifespan=lifespan)
    _mount_probes(app, lifecycle, metrics)
    credentials = Credentials(settings.auth)
    app.add_middleware(BearerOnly, credentials=credentials)
    transcripts.mount(app, calls)
    console_page.mount(app, credentials)
    Gateway(equipment, lifecycle, credentials).mount(app)
    if hasattr(type(engine), "client"):  # the scripted engine has none to put the handlers on
        api = openai_api.mount(app, cast(openai_api.LlmEngine, engine), settings, metrics)
        lifecycle.prepare = api.prepare
    return Service(app, lifecycle, calls)


def _tool_reader(engine: Engine, parser_name: str | None) -> MakeReader | None:
    """What reads the tool calls of a reply; None without a parser, or an engine that has any."""
    if parser_name is None or not hasattr(type(engine), "client"):
        return None
    from engine.tool_calls import ToolCallReader

    client = cast(openai_api.LlmEngine, engine)
    return lambda tools: ToolCallReader(parser_name, client.client.get_tokenizer(), tools)


async def _run(lifecycle: Lifecycle, failed: Callable[[], None]) -> None:
    await lifecycle.run()
    if lifecycle.failure is not None:
        failed()


def _mount_probes(app: FastAPI, lifecycle: Lifecycle, metrics: Metrics) -> None:
    @app.get("/healthz")
    async def healthz() -> Response:
        """200 while the process serves requests at all."""
        dead = lifecycle.state is State.FAILED
        return Response(lifecycle.state.value + "\n", 503 if dead else 200, media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        """200 while a call would be served, else 503 and the state."""
        state = lifecycle.state.value if lifecycle.ready or lifecycle.state is not State.READY else "engine dead"
        return Response(state + "\n", 200 if lifecycle.ready else 503, media_type="text/plain")

    @app.get("/metrics")
    async def scrape() -> Response:
        """The Prometheus exposition."""
        # In a thread: with an engine's own metrics it takes tens of milliseconds, and calls would wait.
        return Response(await asyncio.to_thread(metrics.exposition), media_type=CONTENT_TYPE_LATEST)
