"""The way out of a call: commands become frames of its dialect and leave on its socket, in order.

There is no queue of our own: whoever sends waits until the socket has taken the frame, so a slow reader holds back its
own call alone. When it takes nothing for `send_timeout_s` the call is lost.
"""

import asyncio
from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from service.protocols.events import Command, Dialect, Frame, SendAudio, SendToken


class CallLost(Exception):
    """The peer has gone or takes no data; the message says which."""


class Channel:
    """Sends on one accepted WebSocket.

    Args:
        websocket: accepted.
        dialect: turns commands into frames.
        send_timeout_s: a peer that takes nothing for so long has lost its call.
        send_now: the server's own way to send a frame that the socket takes at once; False where it does not.
    """

    def __init__(
        self,
        websocket: WebSocket,
        dialect: Dialect,
        send_timeout_s: float,
        send_now: Callable[[Frame], bool] | None = None,
    ) -> None:
        self._websocket = websocket
        self._dialect = dialect
        self._send_timeout_s = send_timeout_s
        self._loop = asyncio.get_running_loop()
        self._send_now = send_now
        self._gone = False
        self._held_by: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def lost(self) -> bool:
        """True once the peer has gone or was given up on, or the socket was closed."""
        return self._gone

    def pause(self, by: str = "bridge") -> None:
        """Tokens and audio wait, everything else still leaves: the bridge's buffer is full, or the caller makes a sound."""
        self._held_by.add(by)
        self._open.clear()

    def resume(self, by: str = "bridge") -> None:
        """One reason to wait is gone. Tokens and audio leave again once there is none."""
        self._held_by.discard(by)
        if not self._held_by:
            self._open.set()

    async def send(self, command: Command) -> bool:
        """Send one command; False where the dialect cannot say it. Returns once the socket has taken every frame.

        Raises:
            CallLost: the peer has gone, or took nothing for the time allowed.
        """
        if isinstance(command, SendToken | SendAudio):
            while not self._open.is_set():  # it may be held again before this task has run
                await self._open.wait()
        frames = self._dialect.send(command, self._loop.time())
        await self.send_frames(frames)
        return bool(frames)

    async def send_frames(self, frames: list[Frame] | tuple[Frame, ...]) -> None:
        """Send frames that the protocol itself owes.

        Raises:
            CallLost: as `send`.
        """
        for frame in frames:
            await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        if self._gone or self._websocket.application_state is not WebSocketState.CONNECTED:
            raise CallLost("the peer has gone")
        if self._send_now is not None and self._send_now(frame):
            return
        try:
            async with asyncio.timeout(self._send_timeout_s):
                if isinstance(frame, str):
                    await self._websocket.send_text(frame)
                else:
                    await self._websocket.send_bytes(frame)
        except TimeoutError:
            self._gone = True
            raise CallLost("the peer takes no data") from None
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            # Starlette reports a send after the peer's close as WebSocketDisconnect or RuntimeError.
            self._gone = True
            raise CallLost("the peer has gone") from error

    async def close(self, code: int, reason: str = "") -> None:
        """Close once, from whichever side; bounded in time, never raises for a peer that has gone."""
        if self._gone or self._websocket.application_state is not WebSocketState.CONNECTED:
            return
        self._gone = True
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await self._websocket.close(code, reason)
        except (TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
            pass
