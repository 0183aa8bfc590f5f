"""OpenTelemetry traces, where a setting asks for them: one span per turn, the stages to its first sound as its children.

Spans are made when a turn is over, from the times its reply has kept, so that a turn under way costs nothing. Attributes
are counts and words of ours: nothing said, no number, no id of a call (a bridge may have put a number into it).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from service.protocols.events import Dialect
from service.reply import Reply
from service.settings import SettingsError, TracesOptions


class Traces:
    """Where spans go.

    Args:
        processor: an OpenTelemetry `SpanProcessor`; None: nothing is traced.
    """

    def __init__(self, processor: Any = None) -> None:
        self._provider: Any = None
        if processor is not None:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider

            self._provider = TracerProvider(
                resource=Resource.create({"service.name": "voicepace"}), shutdown_on_exit=False
            )
            self._provider.add_span_processor(processor)
            self._tracer = self._provider.get_tracer("voicepace")

    async def follow(self, run: Callable[[], Awaitable[None]], reply: Reply, dialect: Dialect) -> None:
        """Run a turn to its end, whatever that is, and make its spans."""
        cut = False
        try:
            await run()
        except asyncio.CancelledError:
            cut = True
            raise
        finally:
            if self._provider is not None:
                outcome = "interrupted" if cut else reply.finish_reason or "error"
                self._make_spans(reply, dialect, outcome, asyncio.get_running_loop().time())

    def close(self) -> None:
        """Send what is left; blocks until that is done or given up."""
        if self._provider is not None:
            self._provider.shutdown()

    def _make_spans(self, reply: Reply, dialect: Dialect, outcome: str, now: float) -> None:
        from opentelemetry.trace import set_span_in_context

        # Spans carry dates, replies the loop's own time.
        began_s = time.time() - now

        def date_ns(at: float) -> int:
            return int((began_s + at) * 1e9)

        attributes = {
            "voicepace.surface": dialect.surface,
            "voicepace.dialect": dialect.name,
            "voicepace.turn_id": reply.turn_id,
            "voicepace.outcome": outcome,
            "voicepace.tokens": len(reply.token_ids),
            "voicepace.steps": reply.bursts,
            "voicepace.prompt_tokens": reply.prompt_tokens,
            "voicepace.cached_tokens": reply.cached_tokens,
        }
        turn = self._tracer.start_span("turn", attributes=attributes, start_time=date_ns(reply.asked_at))
        within = set_span_in_context(turn)
        for name, begin, end in reply.stages():
            stage = self._tracer.start_span(name, within, start_time=date_ns(begin))
            stage.end(date_ns(end))
        if reply.first_token_at is not None:
            turn.add_event("first token", timestamp=date_ns(reply.first_token_at))
        turn.end(date_ns(now))


def make_traces(options: TracesOptions) -> Traces:
    """What the settings ask for. Spans leave in batches, on a thread of their own; beyond 2,048 waiting they are dropped.

    Raises:
        SettingsError: the extra is not installed.
    """
    if options.endpoint is None:
        return Traces()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError("traces.endpoint: install the extra: pip install 'voicepace[otel]'") from None
    return Traces(BatchSpanProcessor(OTLPSpanExporter(options.endpoint, timeout=5), max_queue_size=2048))
