"""What uvicorn's WebSocket lacks: pings that suit each dialect, an end for peers that take nothing, a short way out.

Some bridges hang up on pings, some proxies close without. A peer that has stopped reading would keep its closed socket,
and all that waits in it, for as long as it likes. A frame that can leave at once need not go through every layer of the
application. And what a connection leaves behind when it ends is freed then, not by a garbage collection for which every
other call has to wait.
"""

import struct
from asyncio import TimerHandle
from collections.abc import Mapping
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

SEND_NOW = "voicepace.send_now"
"""Extension of the ASGI scope: `send_now(frame)` of the socket."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP connection."""

    def handle_websocket_upgrade(self) -> None:
        """The connection belongs to another protocol from here on."""
        super().handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment]  # as when it is lost: the parser refers back to this object


def protocol_with_pings(intervals_s: Mapping[str, float | None]) -> type[WebSocketsSansIOProtocol]:
    """uvicorn's protocol, pinging by path: `intervals_s` maps a path, and what is signed below it, to seconds.

    None, and any other path: no pings.
    """

    class CallSocket(WebSocketsSansIOProtocol):
        _forced_end: TimerHandle | None = None

        def start_keepalive(self) -> None:
            """Called once the upgrade is accepted."""
            scope: Any = self.scope
            path: str = scope["path"]
            self.ping_interval = intervals_s.get(path, intervals_s.get(path.rpartition("/")[0]))
            super().start_keepalive()

        async def run_asgi(self) -> None:
            """The call is over when this returns; what the peer has not taken by then it gets `close_timeout` for."""
            extensions: Any = self.scope["extensions"]
            extensions[SEND_NOW] = self.send_now
            try:
                await super().run_asgi()
            finally:
                del extensions[SEND_NOW]
            if not self.disconnected:
                self._forced_end = self.loop.call_later(self.close_timeout, self._end)

        def send_now(self, frame: str | bytes) -> bool:
            """Send one message; False where the peer takes none just now, or none any more."""
            if self.close_sent or self.disconnected or not self.writable.is_set():
                return False
            try:
                if isinstance(frame, str):
                    self.conn.send_text(frame.encode())
                else:
                    self.conn.send_binary(frame)
            except InvalidState:
                return False
            self.transport.write(b"".join(self.conn.data_to_send()))
            return True

        def _end(self) -> None:
            # Without lingering, the kernel too forgets what waits, and the peer sees a reset.
            self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            """The socket is gone: nothing is left to force, or to read."""
            if self._forced_end is not None:
                self._forced_end.cancel()
            super().connection_lost(exc)
            # What it was in the middle of reading, and what was wrong with it, refer back to the connection.
            self.conn.parser.close()
            self.conn.parser_exc = None

    return CallSocket
