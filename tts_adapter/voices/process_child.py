"""A speaking process as the service sees it: started, written to, listened to, ended.

It gets an environment of its own: an OpenMP runtime preloaded for the engine would slow it, and no secret of the
service belongs there.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tts_adapter.voice import VoiceError
from tts_adapter.voices.process_frames import READY, UNUSABLE, Frame, FrameDecoder

_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "PYTHONUTF8": "1",
}


class ProcessChild(asyncio.SubprocessProtocol):
    """One process, from start to end.

    Args:
        receive: called with every frame about an utterance.
        died: called once, after the last frame, with one line that says why.
    """

    def __init__(self, receive: Callable[[Frame], None], died: Callable[["ProcessChild", str], None]) -> None:
        loop = asyncio.get_running_loop()
        self._receive = receive
        self._died = died
        self._decoder = FrameDecoder()
        self._reason: str | None = None
        self.ready: asyncio.Future[int] = loop.create_future()
        """The sample rate in Hz, once the model is loaded and has spoken."""
        self.heard_at = loop.time()
        """When the process last said something."""
        self._gone = asyncio.Event()

    @classmethod
    async def spawn(
        cls,
        module: str,
        options: str,
        receive: Callable[[Frame], None],
        died: Callable[["ProcessChild", str], None],
    ) -> "ProcessChild":
        """Run `python -m module options`; it takes frames at once and answers them when it has loaded."""
        _, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(receive, died),
            sys.executable,
            "-m",
            module,
            options,
            stderr=None,
            env=_ENVIRONMENT,
        )
        return child

    @property
    def process_id(self) -> int:
        """As the operating system names it."""
        return self._transport.get_pid()

    def send(self, frame: Frame) -> None:
        """Write a frame. Lost if the process has died, which `died` then reports."""
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        if not pipe.is_closing():
            pipe.write(frame.encode())

    def kill(self, reason: str) -> None:
        """End it at once; `reason` is what `died` reports."""
        self._reason = self._reason or reason
        if self._transport.get_returncode() is None:
            self._transport.kill()

    async def end(self, limit_s: float) -> None:
        """Let it end by itself, or kill it after `limit_s` seconds."""
        cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0)).close()
        try:
            async with asyncio.timeout(limit_s):
                await self._gone.wait()
        except TimeoutError:
            self.kill("stopped")
            await self._gone.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As in asyncio."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """As in asyncio."""
        self.heard_at = asyncio.get_running_loop().time()
        try:
            for frame in self._decoder.feed(data):
                self._take(frame)
        except ValueError:
            self.kill("the process sent something that is not a frame")

    def connection_lost(self, exc: Exception | None) -> None:
        """As in asyncio: the process has ended and everything it wrote was received."""
        reason = self._reason or f"the process died (exit code {self._transport.get_returncode()})"
        self._transport.close()
        self._gone.set()
        if not self.ready.done():
            self.ready.set_exception(VoiceError(reason))
            self.ready.exception()  # Marks it as seen: a restart has nobody waiting for it.
        self._died(self, reason)

    def _take(self, frame: Frame) -> None:
        if frame.kind == READY:
            self.ready.set_result(int(frame.payload))
        elif frame.kind == UNUSABLE:
            self._reason = frame.payload.decode("utf-8", "replace")
        else:
            self._receive(frame)
