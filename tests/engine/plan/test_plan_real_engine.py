import asyncio
from pathlib import Path

import pytest

from engine.bench.step_time import Workload, measure_step_time
from engine.plan.calibration import Measured, fit_line, measured_from_json
from tests.real_engine import cpu_demo

pytestmark = [pytest.mark.engine, pytest.mark.prove]

# Few rows take as long as the weights' bytes. The compiled loops take six rows at a time, so that on cores the line
# bends there; a measurement that is to predict has to have seen the bend.
FITTED_ON = (1, 6, 8)
PREDICTED = (2, 4)
TOLERANCE = 0.2
WORKLOAD = Workload(batches=(1, 2, 4, 6, 8), reply_tokens=48, steps=96)


async def measured_on_this_machine() -> Measured:
    from engine.vllm_engine import VllmEngine

    engine = VllmEngine(cpu_demo(), Path("~/.cache/voicepace"))
    await engine.start()
    try:
        return measured_from_json(await measure_step_time(engine, WORKLOAD))
    finally:
        await engine.stop()


def test_step_times_at_batch_1_6_and_8_predict_those_between() -> None:
    measured = asyncio.run(measured_on_this_machine())
    line = fit_line({batch: measured.step_s[batch] for batch in FITTED_ON})
    errors = {batch: line.at(batch) / measured.step_s[batch] - 1 for batch in PREDICTED}
    print({batch: f"{1000 * step_s:.1f} ms" for batch, step_s in measured.step_s.items()}, errors)
    assert measured.tokens_per_step == 1
    assert line.per_call_s > 0
    assert all(abs(error) <= TOLERANCE for error in errors.values()), errors
