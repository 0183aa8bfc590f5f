"""One HTTP request to the OpenAI endpoints: the engine requests it started, and when its tokens left.

An exchange owns a task group. Each engine request has one pump task in it that does nothing but read, because the
engine merges outputs when its reader lags; when the HTTP request ends, for whatever reason, the pumps are cancelled and
awaited, and that aborts what still runs in the engine.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from starlette.types import Message, Send

from service.metrics import StreamMetrics

OUTPUT_QUEUE_SIZE = 64
"""Outputs waiting for a slow client. When full the pump waits, and the engine merges what comes meanwhile into one
output that never exceeds the reply."""

_current: ContextVar["Exchange"] = ContextVar("voicepace_openai_exchange")


class Recorder(Protocol):
    """Takes note of every output of one engine request as it is read."""

    def record(self, output: Any) -> None:
        """One `RequestOutput`."""

    def close(self) -> None:
        """The request has ended."""


class Exchange:
    """See the module; made by `open_exchange`.

    Args:
        pumps: the task group of this request.
        metrics: where its timing is recorded.
        paced_hold_ms: longest hold of the first token (ms), None for a stream that is not paced.
        arrival_s: loop time at which the request came in.
    """

    def __init__(
        self, pumps: asyncio.TaskGroup, metrics: StreamMetrics, paced_hold_ms: float | None, arrival_s: float
    ) -> None:
        self._pumps = pumps
        self._running: list[asyncio.Task[None]] = []
        self._last_sent_s: dict[int, float] = {}
        self.metrics = metrics
        self.paced_hold_ms = paced_hold_ms
        self.arrival_s = arrival_s

    def pump(self, source: AsyncGenerator[Any, None], recorder: Recorder) -> "asyncio.Queue[Any]":
        """Start reading `source`.

        Returns:
            its outputs; then None at its end, or the exception that ended it.
        """
        outputs: asyncio.Queue[Any] = asyncio.Queue(OUTPUT_QUEUE_SIZE)
        self._running.append(self._pumps.create_task(_pump(source, recorder, outputs), name="openai-pump"))
        return outputs

    def timed(self, send: Send) -> Send:
        """`send`, with every chunk of an event stream taken note of when its send has returned."""
        loop = asyncio.get_running_loop()

        async def timed_send(message: Message) -> None:
            await send(message)
            if message.get("more_body"):
                self.sent(message["body"], loop.time())

        return timed_send

    def sent(self, body: bytes, now: float) -> None:
        """A chunk of the event stream has left at `now` (loop time)."""
        for index in choices_with_text(body):
            previous_s = self._last_sent_s.get(index)
            if previous_s is not None:
                self.metrics.delivered(now - previous_s, objective=self.paced_hold_ms is not None)
            elif not self._last_sent_s:
                self.metrics.ttft(now - self.arrival_s)
            self._last_sent_s[index] = now

    def cancel(self) -> None:
        """Abort what still runs; leaving `open_exchange` waits for it."""
        for task in self._running:
            task.cancel()


@asynccontextmanager
async def open_exchange(metrics: StreamMetrics, paced_hold_ms: float | None) -> AsyncIterator[Exchange]:
    """The exchange of one HTTP request, found by `current_exchange` in everything that runs inside."""
    async with asyncio.TaskGroup() as pumps:
        exchange = Exchange(pumps, metrics, paced_hold_ms, asyncio.get_running_loop().time())
        token = _current.set(exchange)
        try:
            yield exchange
        finally:
            _current.reset(token)
            exchange.cancel()


def current_exchange() -> Exchange:
    """The exchange that the running code belongs to.

    Raises:
        LookupError: outside of `open_exchange`.
    """
    return _current.get()


def choices_with_text(body: bytes) -> list[int]:
    """Indices of the choices that a chunk of a completion or chat event stream brings new text for."""
    indices: list[int] = []
    for line in body.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("text") or delta.get("content") or delta.get("reasoning") or delta.get("tool_calls"):
                indices.append(choice["index"])
    return indices


async def read(outputs: "asyncio.Queue[Any]") -> AsyncIterator[Any]:
    """What `Exchange.pump` put into its queue; an exception in it is raised."""
    while (output := await outputs.get()) is not None:
        if isinstance(output, Exception):
            raise output
        yield output


async def _pump(source: AsyncGenerator[Any, None], recorder: Recorder, outputs: "asyncio.Queue[Any]") -> None:
    end: Exception | None = None
    try:
        async with aclosing(source):
            async for output in source:
                recorder.record(output)
                await outputs.put(output)
    except Exception as error:  # Handed over: whoever reads `outputs` raises it.
        end = error
    finally:
        recorder.close()
    await outputs.put(end)
