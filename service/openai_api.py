"""`/v1/completions`, `/v1/chat/completions` and `/v1/models`: vLLM's own handlers, mounted on our app.

The handlers live in an inner app of their own, so that their exception handlers and state touch no other route. It is
built from the engine's running `AsyncLLM` and built again after the engine was restarted. Before a request reaches it,
this module reads the body once, refuses what must not pass, and opens the exchange that owns the request's work in the
engine.
"""

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.api import EngineDead, RequestRefused
from engine.step_log import StepLog
from service.metrics import Metrics
from service.openai_checks import paced_hold_ms, parse_body
from service.openai_client import OpenAiEngineClient
from service.openai_exchange import open_exchange

if TYPE_CHECKING:
    from service.settings import Settings

DIALECTS = {"/v1/completions": "completions", "/v1/chat/completions": "chat"}
PATHS = (*DIALECTS, "/v1/models")
SURFACE = "openai"
PACED_SURFACE = "openai_paced"
MAX_BODY_BYTES = 16 * 1024 * 1024

_log = logging.getLogger(__name__)


class LlmEngine(Protocol):
    """What is used of `engine.vllm_engine.VllmEngine`."""

    @property
    def client(self) -> Any:
        """vLLM's `AsyncLLM`, another one after a restart; raises `EngineDead` while there is none."""

    @property
    def step_log(self) -> StepLog:
        """When the engine stepped."""

    @property
    def dead(self) -> bool:
        """True once the engine process has gone."""


class OpenAiApi:
    """The three endpoints as one ASGI app; see `mount`."""

    def __init__(self, engine: LlmEngine, settings: "Settings", metrics: Metrics) -> None:
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._building = asyncio.Lock()
        self._built: tuple[Any, ASGIApp] | None = None

    async def prepare(self) -> None:
        """Build the handlers for the running engine, so that the first request need not wait for it."""
        await self._handlers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        handlers = await self._handlers()
        if handlers is None:
            await _error(503, "ServiceUnavailableError", "the engine is not ready", headers={"Retry-After": "5"})(
                scope, receive, send
            )
            return
        try:
            body = await _read_body(receive)
            fields = parse_body(body) if scope["method"] == "POST" else {}
            hold_ms = paced_hold_ms(fields, self._settings.pacing.max_first_hold_ms)
        except _BodyTooLarge:
            await _error(413, "RequestTooLarge", f"the body exceeds {MAX_BODY_BYTES} bytes")(scope, receive, send)
            return
        except RequestRefused as refused:
            await _error(400, "BadRequestError", str(refused), refused.parameter)(scope, receive, send)
            return
        receive = _replay(body, receive)
        dialect = DIALECTS.get(scope["path"])
        if dialect is None:
            await _respond(handlers, scope, receive, send)
            return
        metrics = self._metrics.stream(SURFACE if hold_ms is None else PACED_SURFACE, dialect)
        async with open_exchange(metrics, hold_ms) as exchange:
            await _respond(handlers, scope, receive, exchange.timed(send))

    async def _handlers(self) -> ASGIApp | None:
        """The inner app for the engine as it is now, None while it cannot serve."""
        try:
            llm = self._engine.client
        except EngineDead:
            return None
        if self._engine.dead:
            return None
        async with self._building:
            if self._built is None or self._built[0] is not llm:
                self._built = (llm, await self._build(llm))
            return self._built[1]

    async def _build(self, llm: Any) -> FastAPI:
        from vllm.entrypoints.launchers.api_server.app_state import init_app_state
        from vllm.entrypoints.openai.chat_completion.api_router import router as chat_router
        from vllm.entrypoints.openai.completion.api_router import router as completion_router
        from vllm.entrypoints.openai.models.api_router import router as models_router
        from vllm.entrypoints.serve.exception_handling.register import init_exception_handler
        from vllm.v1.engine.exceptions import EngineDeadError

        app = FastAPI(openapi_url=None)
        for router in (completion_router, chat_router, models_router):
            app.include_router(router)
        init_exception_handler(app)
        app.add_exception_handler(EngineDeadError, _engine_died)
        # vLLM's handlers stop the server they find here when the engine dies; ours decides that itself.
        app.state.server = SimpleNamespace(should_exit=False)
        openai = self._settings.openai
        tasks = await llm.get_supported_tasks()
        client = OpenAiEngineClient(
            llm, self._engine.step_log, self._settings.pacing, tasks, split_bursts=openai.stream_unit == "token"
        )
        names = _served_names(self._settings, llm)
        args = _server_args(llm.model_config.model, names, openai.tool_parser)
        await init_app_state(client, app.state, args, tasks)
        return app


def mount(app: FastAPI, engine: LlmEngine, settings: "Settings", metrics: Metrics) -> OpenAiApi:
    """Put the endpoints on `app`.

    They answer 503 until the engine has started and after it has died, and serve the new one after a restart. Awaiting
    `prepare` on the result, once the engine has started, spares the first request a second.
    """
    api = OpenAiApi(engine, settings, metrics)
    for path in PATHS:
        app.router.routes.append(Route(path, endpoint=api, include_in_schema=False))
    return api


def _served_names(settings: "Settings", llm: Any) -> list[str]:
    names = settings.engine.served_model_name or llm.model_config.served_model_name
    return [names] if isinstance(names, str) else list(names)


def _server_args(model: str, names: Sequence[str], tool_parser: str | None) -> Any:
    """The arguments of vLLM's own server at their defaults, but for what is ours to say. No request is logged."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    args = make_arg_parser(FlexibleArgumentParser()).parse_args([])
    args.model = model
    args.served_model_name = list(names)
    args.enable_log_requests = False
    args.enable_log_outputs = False
    args.enable_log_deltas = False
    args.enable_prompt_tokens_details = True
    args.tool_call_parser = tool_parser
    args.enable_auto_tool_choice = tool_parser is not None
    return args


class _BodyTooLarge(Exception):
    pass


async def _read_body(receive: Receive) -> bytes:
    """The whole body; a client that leaves meanwhile has sent what there is."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _BodyTooLarge
        more = message.get("more_body", False)
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body again and then what comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


async def _respond(handlers: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        await handlers(dict(scope), receive, send)
    except Exception as error:
        # The handlers' outermost layer has answered 500 and raises again. What the error says may quote the request.
        _log.error("%s in the OpenAI endpoints", type(error).__name__)


async def _engine_died(_request: Any, _error_raised: Exception) -> JSONResponse:
    return _error(503, "ServiceUnavailableError", "the engine has died", headers={"Retry-After": "30"})


def _error(
    status: int, kind: str, message: str, parameter: str | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    error = {"message": message, "type": kind, "param": parameter, "code": status}
    return JSONResponse({"error": error}, status, headers)
