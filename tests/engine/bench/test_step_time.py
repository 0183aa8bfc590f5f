import asyncio
from collections.abc import AsyncGenerator

import pytest

from engine.api import EngineDead, GenerateRequest, TokenBurst
from engine.bench.step_time import Workload, measure_step_time
from engine.fake import Script, ScriptedEngine
from engine.plan.calibration import measured_from_json
from engine.plan.timing import Calibrated
from tests.virtual_time import run_virtual

WORDS = " ".join(["word"] * 400)


class BatchedEngine(ScriptedEngine):
    """All running requests share a step, whose time grows with their number; a prompt costs a step of its own."""

    def __init__(self, base_s: float, per_call_s: float, prompt_s: float, tokens: int = 1) -> None:
        super().__init__(WORDS)
        self.times = (base_s, per_call_s, prompt_s)
        self.tokens = tokens
        self.requests: list[GenerateRequest] = []
        self.most_running = 0
        self._active = 0

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        base_s, per_call_s, prompt_s = self.times
        loop = asyncio.get_running_loop()
        self.requests.append(request)
        self._active += 1
        self.most_running = max(self.most_running, self._active)
        try:
            await asyncio.sleep(prompt_s * self._active)
            left = request.sampling.max_tokens
            yield TokenBurst((1,), ("a",), loop.time())
            left -= 1
            while left > 0:
                await asyncio.sleep(base_s + per_call_s * self._active)
                count = min(self.tokens, left)
                left -= count
                yield TokenBurst((1,) * count, ("a",) * count, loop.time(), finish_reason=None if left else "length")
        finally:
            self._active -= 1


def measure(engine: ScriptedEngine, workload: Workload) -> dict[str, object]:
    async def main() -> dict[str, object]:
        await engine.start()
        return await measure_step_time(engine, workload)

    return run_virtual(main())


def rows(document: dict[str, object]) -> dict[int, dict[str, float]]:
    return {row["batch"]: row for row in document["batches"]}


def test_step_time_is_taken_while_all_requests_run() -> None:
    engine = BatchedEngine(0.030, 0.002, 0.005)
    measured = rows(measure(engine, Workload((1, 2, 4), reply_tokens=40, steps=100)))
    for batch in (1, 2, 4):
        assert measured[batch]["step_ms"] == pytest.approx(30 + 2 * batch, rel=0.01)
        assert measured[batch]["step_p50_ms"] == pytest.approx(30 + 2 * batch)
        assert measured[batch]["steps"] >= 100
        assert measured[batch]["tokens_per_step"] == 1
    assert measured[1]["ttft_ms"] == pytest.approx(5)
    assert engine.most_running == 4


def test_a_line_through_batch_1_and_4_predicts_2_and_8() -> None:
    engine = BatchedEngine(0.030, 0.002, 0.005)
    fitted = Calibrated(measured_from_json(measure(engine, Workload((1, 4), reply_tokens=40, steps=60))))
    others = rows(measure(engine, Workload((2, 8), reply_tokens=40, steps=60)))
    for batch in (2, 8):
        assert 1000 * fitted.step_s(batch) == pytest.approx(others[batch]["step_ms"], rel=0.02)


def test_tokens_per_step_are_counted() -> None:
    measured = rows(measure(BatchedEngine(0.030, 0.0, 0.005, tokens=3), Workload((1, 2), 49, 30)))
    assert measured[2]["tokens_per_step"] == pytest.approx(3, abs=0.1)
    assert measured[2]["step_ms"] == pytest.approx(30)


def test_every_request_has_a_prompt_of_its_own() -> None:
    engine = BatchedEngine(0.030, 0.002, 0.005)
    measure(engine, Workload((1, 3), reply_tokens=10, steps=30))
    assert len({request.request_id for request in engine.requests}) == len(engine.requests)
    assert len({request.prompt_token_ids for request in engine.requests}) == len(engine.requests)


def test_the_scripted_engine_is_measured_as_scripted() -> None:
    script = Script(first_token_s=0.08, step_time_s=0.030, burst_sizes=(2, 3))
    measured = rows(measure(ScriptedEngine(WORDS, script), Workload((1, 4), reply_tokens=60, steps=40)))
    assert measured[1]["step_ms"] == pytest.approx(30)
    assert measured[4]["step_ms"] == pytest.approx(30)
    assert measured[4]["ttft_ms"] == pytest.approx(80)
    assert 2.1 < measured[1]["tokens_per_step"] < 2.9


def test_rounds_end_where_replies_stay_short() -> None:
    engine = ScriptedEngine("one two three", Script(step_time_s=0.030))
    measured = rows(measure(engine, Workload((2,), reply_tokens=40, steps=1000, most_rounds=3)))
    assert measured[2]["rounds"] == 3
    assert 0 < measured[2]["steps"] < 1000


def test_replies_without_a_second_step_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="batch 1"):
        measure(ScriptedEngine(WORDS), Workload((1,), reply_tokens=1, steps=10, most_rounds=2))


def test_a_dying_engine_is_not_swallowed() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        measure(ScriptedEngine(WORDS, Script(die_after_bursts=3)), Workload((2,), reply_tokens=20, steps=10))
    assert raised.group_contains(EngineDead)


@pytest.mark.parametrize("bad", [{"batches": ()}, {"batches": (0,)}, {"batches": (1, 1)}, {"steps": 0}])
def test_a_senseless_workload_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Workload(**bad)


def test_every_batch_size_times_as_many_steps() -> None:
    measured = rows(measure(BatchedEngine(0.030, 0.002, 0.005), Workload((1, 8), reply_tokens=21, steps=55)))
    # Of eight staggered replies a little less overlaps, which one more round makes up for.
    assert measured[1]["steps"] == 60
    assert 55 <= measured[8]["steps"] <= 80
    assert (measured[1]["rounds"], measured[8]["rounds"]) == (3, 4)
