"""A stream that asks for pacing, in virtual time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from engine.pieces import Pieces
from service.openai_pacing import grouped, paced
from service.openai_split import ChoiceText, TokenSplitter
from tests.virtual_time import run_virtual
from tts_adapter.options import PacingOptions
from tts_adapter.pacer import Pacer

STEP_S = 0.045
BURST = 3


def output(text: str, token_ids: list[int], finish_reason: str | None = None) -> Any:
    choice = SimpleNamespace(
        index=0, text=text, token_ids=token_ids, logprobs=None, finish_reason=finish_reason, stop_reason=None
    )
    finished = finish_reason is not None
    return SimpleNamespace(outputs=[choice], finished=finished, prompt_token_ids=[], prompt_logprobs=None)


def single(text: str) -> Any:
    return output(text, [1])


def letters(token_id: int) -> str:
    return "" if token_id == 0 else "x"


def stream(
    bursts: list[Any], end: Exception | None = None, hold_ms: float = 120.0
) -> tuple[list[tuple[float, Any]], Any]:
    """When each output left, and the exception that ended the stream."""

    async def run() -> tuple[list[tuple[float, Any]], Any]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Any] = asyncio.Queue(4)
        splitter = TokenSplitter(lambda ids: ChoiceText(Pieces(letters)), by_token=True)
        pacer: Pacer[Any] = Pacer(PacingOptions(max_first_hold_ms=hold_ms))
        left: list[tuple[float, Any]] = []

        async def engine() -> None:
            for burst in bursts:
                await queue.put(burst)
                await asyncio.sleep(STEP_S)
            await queue.put(end)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(engine())
            try:
                async for part in paced(queue, splitter, pacer):
                    left.append((loop.time(), part))
            except ValueError as error:
                return left, error
        return left, None

    return run_virtual(run())


def test_bursts_leave_evenly_and_complete() -> None:
    bursts = [output("x" * BURST, [1] * BURST) for _ in range(20)]
    bursts.append(output("", [0], "stop"))
    left, error = stream(bursts)
    assert error is None
    assert "".join(part.outputs[0].text for _, part in left) == "x" * BURST * 20
    assert [part.outputs[0].finish_reason for _, part in left] == [None] * BURST * 20 + ["stop"]
    times = [time for time, part in left if part.outputs[0].text]
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    late = sum(gap > 0.020 for gap in gaps)
    assert late <= len(gaps) // 20
    assert min(gaps) > 0.004, "no burst leaves at once"


def test_an_error_comes_after_the_text_before_it() -> None:
    left, error = stream([output("xxx", [1, 1, 1])], end=ValueError("broken"))
    assert len(left) == 3
    assert str(error) == "broken"


def test_an_empty_reply_keeps_its_end() -> None:
    left, _ = stream([output("", [0], "stop")])
    assert [part.outputs[0].finish_reason for _, part in left] == ["stop"]


@pytest.mark.parametrize(
    ("texts", "groups", "left_over"),
    [
        (["a", "b"], [["a"], ["b"]], []),
        (["", "a"], [["", "a"]], []),
        (["a", "", "b", ""], [["a"], ["", "b", ""]], []),
        (["", ""], [], ["", ""]),
        ([], [], []),
    ],
)
def test_what_nobody_hears_takes_no_place(texts: list[str], groups: list[list[str]], left_over: list[str]) -> None:
    found, silent = grouped([single(text) for text in texts])
    assert [[part.outputs[0].text for part in group] for group in found] == groups
    assert [part.outputs[0].text for part in silent] == left_over
