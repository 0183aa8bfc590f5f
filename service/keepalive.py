"""What uvicorn's WebSocket lacks: pings at the interval that suits each dialect, and an end for peers that take nothing.

Some bridges hang up on pings, some proxies close without. A peer that has stopped reading would keep its closed socket,
and all that waits in it, for as long as it likes.
"""

import struct
from asyncio import TimerHandle
from collections.abc import Mapping
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


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
            await super().run_asgi()
            if not self.disconnected:
                self._forced_end = self.loop.call_later(self.close_timeout, self._end)

        def _end(self) -> None:
            # Without lingering, the kernel too forgets what waits, and the peer sees a reset.
            self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            """The socket is gone: nothing is left to force."""
            if self._forced_end is not None:
                self._forced_end.cancel()
            super().connection_lost(exc)

    return CallSocket
