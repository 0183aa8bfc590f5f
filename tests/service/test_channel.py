"""Sending on a socket that takes a frame at once, later, or never; in virtual time."""

import asyncio
import contextlib

import pytest
from starlette.websockets import WebSocketState

from service.channel import CallLost, Channel
from service.protocols.events import Frame, SendToken
from service.protocols.native import NativeDialect
from tests.virtual_time import run_virtual

TOKEN = SendToken(0, 0, "word", 0, 0.0)


class Socket:
    """Takes each frame after `waits` waits of a second."""

    application_state = WebSocketState.CONNECTED

    def __init__(self, waits: int) -> None:
        self.waits = waits
        self.taken: list[str] = []

    async def send_text(self, data: str) -> None:
        for _ in range(self.waits):
            await asyncio.sleep(1.0)
        self.taken.append(data)


@pytest.mark.parametrize("takes", [True, False])
def test_a_frame_takes_the_short_way_where_there_is_one(takes: bool) -> None:
    offered: list[Frame] = []

    def send_now(frame: Frame) -> bool:
        offered.append(frame)
        return takes

    async def main() -> Socket:
        socket = Socket(0)
        await Channel(socket, NativeDialect(), 10.0, send_now).send(TOKEN)  # type: ignore[arg-type]
        return socket

    socket = run_virtual(main())
    assert len(offered) == 1
    assert socket.taken == ([] if takes else offered)


async def sent(waits: int, timeout_s: float = 10.0) -> tuple[Socket, Channel, float]:
    socket = Socket(waits)
    channel = Channel(socket, NativeDialect(), timeout_s)  # type: ignore[arg-type]
    begun = asyncio.get_running_loop().time()
    with contextlib.suppress(CallLost):
        await channel.send(TOKEN)
    return socket, channel, asyncio.get_running_loop().time() - begun


@pytest.mark.parametrize("waits", [0, 1, 3])
def test_a_send_returns_once_the_socket_has_taken_the_frame(waits: int) -> None:
    socket, channel, took_s = run_virtual(sent(waits))
    assert len(socket.taken) == 1
    assert took_s == pytest.approx(waits)
    assert not channel.lost


def test_a_socket_that_takes_nothing_loses_the_call() -> None:
    socket, channel, took_s = run_virtual(sent(60))
    assert took_s == pytest.approx(10.0)
    assert channel.lost
    assert socket.taken == []


def test_a_cancelled_send_ends_at_once_and_loses_nothing() -> None:
    async def cancelled() -> tuple[bool, float]:
        socket = Socket(60)
        channel = Channel(socket, NativeDialect(), 100.0)  # type: ignore[arg-type]
        begun = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await channel.send(TOKEN)
        return channel.lost, asyncio.get_running_loop().time() - begun

    lost, took_s = run_virtual(cancelled())
    assert not lost
    assert took_s == pytest.approx(2.5)
