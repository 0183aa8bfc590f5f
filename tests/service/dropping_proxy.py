"""A TCP relay on a port of its own that a test can break: the network between a client and a service."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator


class DroppingProxy:
    """Relays to `target_port`; while `broken`, new connections are closed at once."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self.broken = False
        self.port = 0

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def drop(self) -> None:
        """Reset every connection."""
        assert self._loop is not None
        for writer in list(self._writers):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    def main(self) -> None:
        """The thread."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        for writer in list(self._writers):
            writer.transport.abort()
        server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.broken:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, far_writer}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._copy(reader, far_writer))
            tasks.create_task(self._copy(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def wait_started(self) -> None:
        assert self._started.wait(10)

    def end(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)


@contextlib.contextmanager
def dropping_proxy(target_port: int) -> Iterator[DroppingProxy]:
    """For as long as a `with` block lasts."""
    proxy = DroppingProxy(target_port)
    thread = threading.Thread(target=proxy.main, name="proxy")
    thread.start()
    proxy.wait_started()
    try:
        yield proxy
    finally:
        proxy.end()
        thread.join(10)
    assert not thread.is_alive()
