"""The WebSocket endpoints: who may enter, and what happens to a socket from upgrade to close."""

import logging
from functools import partial

from fastapi import FastAPI, Response, WebSocket
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocketState

from service.calls import Refused
from service.channel import Channel
from service.credentials import Credentials
from service.equipment import Equipment
from service.keepalive import SEND_NOW
from service.lifecycle import Lifecycle
from service.protocols.catalog import CATALOG, DialectEntry
from service.protocols.events import Frame
from service.session import Session

logger = logging.getLogger("voicepace.gateway")

NORMAL_CLOSURE = 1000
INTERNAL_ERROR = 1011


class Gateway:
    """Takes calls on every dialect's path."""

    def __init__(self, equipment: Equipment, lifecycle: Lifecycle, credentials: Credentials) -> None:
        self._equipment = equipment
        self._credentials = credentials
        self._lifecycle = lifecycle

    def mount(self, app: FastAPI) -> None:
        """Put the endpoints on `app`."""
        for entry in CATALOG.values():
            take = partial(self._take, entry=entry)
            app.router.routes.append(WebSocketRoute(entry.path, take, name=entry.name))
            # Bridges that can send no header carry a signed token in the path.
            app.router.routes.append(WebSocketRoute(entry.path + "/{token}", take, name=f"{entry.name}-signed"))

    async def _take(self, websocket: WebSocket, entry: DialectEntry) -> None:
        refusal = self._credentials.upgrade_refusal(websocket.scope, entry)
        if refusal is not None:
            self._equipment.metrics.refused.labels(refusal).inc()
            await refuse(websocket, 401 if refusal == "auth" else 403, refusal)
            return
        try:
            if not self._lifecycle.ready and not self._equipment.calls.draining:
                raise Refused("not_ready", 5)
            async with self._equipment.calls.admitted():
                await self._serve(websocket, entry)
        except Refused as refused:
            self._equipment.metrics.refused.labels(refused.reason).inc()
            await refuse(websocket, 503, refused.reason, {"Retry-After": str(refused.retry_after_s)})

    async def _serve(self, websocket: WebSocket, entry: DialectEntry) -> None:
        dialect = entry.make()
        offered = websocket.scope.get("subprotocols", [])
        if dialect.subprotocol is not None and dialect.subprotocol not in offered:
            await refuse(websocket, 400, f"the subprotocol {dialect.subprotocol} must be offered")
            return
        await websocket.accept(dialect.subprotocol)
        send_now = websocket.scope.get("extensions", {}).get(SEND_NOW)
        channel = Channel(websocket, dialect, self._equipment.settings.server.send_timeout_s, send_now)
        session = Session(dialect, channel, self._equipment)
        code = NORMAL_CLOSURE
        try:
            await session.run(lambda: receive(websocket))
        except Exception as error:  # the call boundary: one broken call never takes others with it
            code = INTERNAL_ERROR
            logger.error("call ended by an internal error: %s", _origin(error), exc_info=logger.isEnabledFor(10))
        finally:
            await channel.close(code)


async def receive(websocket: WebSocket) -> Frame | None:
    """The next message, or None once the peer has closed."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        return None
    text = message.get("text")
    return text if text is not None else bytes(message["bytes"])


async def refuse(websocket: WebSocket, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
    """Answer the upgrade request with an HTTP status instead of accepting it."""
    if websocket.application_state is WebSocketState.CONNECTING:
        await websocket.send_denial_response(Response(reason + "\n", status, headers, media_type="text/plain"))


def _origin(error: BaseException) -> str:
    """Type and place of an error; its text may quote what was said."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown place"
    return f"{type(error).__name__} at {place}"
