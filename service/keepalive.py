"""WebSocket pings at the interval that suits each dialect: some bridges hang up on them, some proxies close without."""

from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


def protocol_with_pings(intervals_s: Mapping[str, float | None]) -> type[WebSocketsSansIOProtocol]:
    """uvicorn's protocol, pinging by path: `intervals_s` maps a path, and what is signed below it, to seconds.

    None, and any other path: no pings.
    """

    class PingsByPath(WebSocketsSansIOProtocol):
        def start_keepalive(self) -> None:
            """Called once the upgrade is accepted."""
            scope: Any = self.scope
            path: str = scope["path"]
            self.ping_interval = intervals_s.get(path, intervals_s.get(path.rpartition("/")[0]))
            super().start_keepalive()

    return PingsByPath
