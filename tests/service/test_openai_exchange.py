"""One HTTP request: what is timed, and that nothing of it outlives it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from service.metrics import Metrics
from service.openai_exchange import OUTPUT_QUEUE_SIZE, choices_with_text, current_exchange, open_exchange, read


class Notes:
    """A recorder that remembers."""

    def __init__(self) -> None:
        self.recorded: list[Any] = []
        self.closed = False

    def record(self, output: Any) -> None:
        self.recorded.append(output)

    def close(self) -> None:
        self.closed = True


def sample(metrics: Metrics, name: str, surface: str = "openai") -> float | None:
    labels = {"surface": surface, "dialect": "chat", "model": "m"}
    return metrics.registry.get_sample_value(f"voicepace_{name}", labels)


@pytest.mark.parametrize(
    ("body", "indices"),
    [
        (b'data: {"choices":[{"index":2,"text":"a"}]}\n\n', [2]),
        (b'data: {"choices":[{"index":0,"text":""}]}\n\n', []),
        (b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n', []),
        (b'data: {"choices":[{"index":1,"delta":{"content":"a"}}]}\n\n', [1]),
        (b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}\n\n', [0]),
        (b'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n', []),
        (b'data: {"error":{"message":"x"}}\n\n', []),
        (b"data: [DONE]\n\n", []),
        (b": keep-alive\n\n", []),
    ],
)
def test_only_text_counts_as_a_token(body: bytes, indices: list[int]) -> None:
    assert choices_with_text(body) == indices


@pytest.mark.parametrize(("hold_ms", "violations"), [(None, 0), (120.0, 1)])
def test_gaps_are_those_between_returned_sends(hold_ms: float | None, violations: int) -> None:
    metrics = Metrics("m")

    async def run() -> None:
        async with open_exchange(metrics.stream("openai", "chat"), hold_ms) as exchange:
            token = b'data: {"choices":[{"index":0,"text":"a"}]}\n\n'
            start = exchange.arrival_s
            exchange.sent(b'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n', start + 0.1)
            exchange.sent(token, start + 0.25)
            exchange.sent(token, start + 0.26)
            exchange.sent(token, start + 0.36)

    asyncio.run(run())
    assert sample(metrics, "ttft_seconds_sum") == pytest.approx(0.25)
    assert sample(metrics, "delivered_gap_seconds_count") == 2
    assert sample(metrics, "delivered_gap_seconds_sum") == pytest.approx(0.11)
    assert sample(metrics, "slo_violations_total") == violations


def test_leaving_early_closes_what_still_runs() -> None:
    notes = Notes()
    ended: list[str] = []

    async def endless() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    async def run() -> None:
        metrics = Metrics("m").stream("openai", "chat")
        async with open_exchange(metrics, None) as exchange:
            outputs = exchange.pump(endless(), notes)
            assert await outputs.get() == 1
        assert ended == ["closed"], "the request is aborted before the exchange is left"

    asyncio.run(run())
    assert (notes.recorded, notes.closed) == ([1], True)


def test_a_slow_reader_holds_the_pump_and_loses_nothing() -> None:
    notes = Notes()

    async def many() -> AsyncGenerator[int, None]:
        for number in range(3 * OUTPUT_QUEUE_SIZE):
            yield number

    async def run() -> list[int]:
        async with open_exchange(Metrics("m").stream("openai", "chat"), None) as exchange:
            outputs = exchange.pump(many(), notes)
            while not outputs.full():
                await asyncio.sleep(0)
            assert len(notes.recorded) <= OUTPUT_QUEUE_SIZE + 1
            return [output async for output in read(outputs)]

    assert asyncio.run(run()) == list(range(3 * OUTPUT_QUEUE_SIZE))


def test_an_error_reaches_the_reader_after_what_came_before() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("broken")

    async def run() -> list[int]:
        async with open_exchange(Metrics("m").stream("openai", "chat"), None) as exchange:
            assert current_exchange() is exchange
            outputs = read(exchange.pump(failing(), Notes()))
            seen = [await anext(outputs)]
            with pytest.raises(ValueError, match="broken"):
                await anext(outputs)
        return seen

    assert asyncio.run(run()) == [1]
    with pytest.raises(LookupError):
        current_exchange()
