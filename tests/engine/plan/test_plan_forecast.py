from dataclasses import replace

import pytest

from engine.plan.calibration import Measured
from engine.plan.capacity import Objective
from engine.plan.delivery import unpaced
from engine.plan.devices import DEVICES, Device, find_device
from engine.plan.drafts import Draft, usual_draft
from engine.plan.errors import PlanError
from engine.plan.forecast import Forecast, Question, forecast, forecast_measured
from engine.plan.models import find_model
from engine.plan.report import as_json, as_text
from engine.plan.roofline import Setup
from engine.plan.sentence import sentence
from engine.plan.start_line import start_line, verdict
from engine.plan.timing import Calibrated

LLAMA = find_model("llama-3-8b")
# Judged on the mean alone, so that the curve does not matter.
EASY = Objective(share=0.01)


def plan(gpu: str | Device = "L4", question: Question | None = None, **changes: object) -> Forecast:
    device = find_device(gpu) if isinstance(gpu, str) else gpu
    return forecast(Setup(device, LLAMA, **changes), question or Question(), lambda: unpaced)


def test_the_sentence_changes_with_the_gpu() -> None:
    sentences = [sentence(plan(device.name)) for device in DEVICES]
    assert len(set(sentences)) == len(DEVICES)
    assert "One L4 does not meet 20 ms" in sentences[0]
    assert "One H100 meets 20 ms" in sentence(plan("H100"))


def test_what_the_sentence_advises_works() -> None:
    missed = plan("L4", Question(objective=EASY), draft=usual_draft("medusa"))
    assert not missed.meets
    # Reading the matrix once is not enough, fp8 is.
    assert [change.what for change in missed.changes] == [
        "use fp8 weights on the L4 (--weights fp8)",
        "take one A10 (--gpu A10)",
    ]
    for change, better in zip(
        missed.changes,
        [
            plan("L4", Question(objective=EASY), draft=usual_draft("medusa"), weights="fp8"),
            plan("A10", Question(objective=EASY), draft=usual_draft("medusa")),
        ],
        strict=True,
    ):
        assert better.meets
        assert better.tit_s == change.tit_s
        assert change.what[1:] in sentence(missed)


def test_the_sentence_names_reading_once_where_that_is_enough() -> None:
    draft = usual_draft("medusa", tokens_per_step=3.2)
    missed = plan("L4", Question(objective=EASY), draft=draft)
    assert "Read the vocabulary matrix once" in sentence(missed)
    assert plan("L4", Question(objective=EASY), draft=replace(draft, read="stacked")).meets


def test_the_sentence_names_the_acceptance_that_would_do() -> None:
    missed = plan("L4")
    assert missed.needed_tokens_per_step == pytest.approx(missed.step_s / 0.020)
    assert f"speculate with {missed.needed_tokens_per_step:.1f} tokens per step" in sentence(missed)


def test_a_mean_within_the_objective_is_not_enough() -> None:
    uneven = plan("L4", weights="fp8", draft=usual_draft("medusa_tree"))
    assert uneven.meets_mean
    assert not uneven.meets
    assert "of gaps reach the listener in time (99% asked)" in sentence(uneven)


def test_too_many_calls_are_told_how_many_fit() -> None:
    crowded = plan("H100", Question(calls=200, objective=EASY), context_tokens=2048)
    assert 0 < crowded.fit.calls < 200
    assert f"dmit at most {crowded.fit.calls} calls" in sentence(crowded)
    # Of some changes the other half of the advice may be missing, but these calls then do fit.
    fewer = plan("H100", Question(calls=crowded.fit.calls, objective=EASY), context_tokens=2048)
    assert fewer.meets


def test_a_model_that_does_not_fit_is_said_not_to() -> None:
    big = forecast(Setup(find_device("L4"), find_model("llama-3-70b")), Question(objective=EASY), lambda: unpaced)
    assert not big.fits_memory
    assert big.fit.calls == 0
    text = sentence(big)
    assert "cannot hold 1 call of llama-3-70b" in text
    assert "141.1 GB" in text
    assert "H200" in text


def test_nothing_is_promised_where_no_gpu_is_enough() -> None:
    hopeless = plan("B200", Question(objective=Objective(gap_s=0.0001)))
    assert not hopeless.changes
    assert "No GPU known here meets the objective with this model: take a smaller one." in sentence(hopeless)
    crowd = plan("B200", Question(calls=50, objective=Objective(gap_s=0.0001)))
    assert "share the calls among more replicas" in sentence(crowd)


def test_cost_is_shared_by_calls_and_counts_every_gpu() -> None:
    question = Question(calls=10, price_per_hour=6.0)
    assert plan("H100", question).cost_per_call_minute(10) == pytest.approx(6.0 / 60 / 10)
    assert plan("H100", question, tensor_parallel=2).cost_per_call_minute(10) == pytest.approx(12.0 / 60 / 10)
    assert plan("H100").cost_per_call_minute(10) is None
    assert plan("H100", question).cost_per_call_minute(0) is None


def test_json_holds_the_figures_of_the_plan() -> None:
    good = plan("H100", Question(calls=2, price_per_hour=3.0))
    document = as_json(good)
    assert document["tit_ms"] == pytest.approx(1000 * good.tit_s, rel=1e-5)
    assert document["step_ms"] == pytest.approx(1000 * good.step_s, rel=1e-5)
    assert document["ttft_ms"] == pytest.approx(1000 * good.ttft_s, rel=1e-5)
    assert document["kv_room_tokens"] == good.room_tokens
    assert document["calls_that_fit"] == good.fit.calls
    assert document["cost_per_call_minute"] == pytest.approx(3.0 / 60 / 2)
    assert document["meets_objective"] is True
    assert document["sentence"] == sentence(good)


def test_the_table_ends_with_the_sentence_and_shows_notes() -> None:
    good = plan("A100", Question(price_per_hour=2.0))
    text = as_text(good, ["something to know"])
    assert text.endswith(sentence(good))
    assert "note: something to know" in text
    for name in ("GPU", "TIT", "TTFT", "room", "calls that fit", "cost"):
        assert f"\n{name}" in f"\n{text}"


def test_a_measured_machine_has_a_plan_without_a_gpu() -> None:
    measured = Measured("smol", {1: 0.0161, 4: 0.0191}, {1: 0.07, 4: 0.16}, 1.0)
    known = forecast_measured(Calibrated(measured), Draft(), Question(calls=2), lambda: unpaced)
    assert known.step_s == pytest.approx(0.0171)
    assert known.ttft_s == pytest.approx(0.100)
    assert known.fit.by_step_time == 4
    assert known.room_tokens is None
    assert sentence(known).startswith("This machine meets 20 ms for 2 calls: a step takes 17.1 ms for 1 token")
    assert as_json(known)["gpu"] is None
    assert "not known" in as_text(known)


def test_a_profiles_line_says_whether_it_meets_the_objective() -> None:
    name = "meta-llama/Meta-Llama-3-8B-Instruct"
    assert start_line("L4", name) == "by plan, TIT 57.1 ms: does not meet 20 ms"
    assert "does not meet 20 ms" in start_line("L4", name, speculation="medusa", drafts=4)
    assert ": meets 20 ms (2.4 tokens per step assumed)" in start_line(
        "L4", name, weights="fp8", speculation="medusa", drafts=4, draft_vocabulary=32_000
    )
    measured = start_line("L4", name, weights="fp8", speculation="medusa", tokens_per_step=1.3)
    assert measured.endswith("does not meet 20 ms")
    paired = start_line(
        "H100", "llama-3-70b", speculation="draft_model", draft_model=name, tensor_parallel=4, tokens_per_step=3.0
    )
    assert paired.endswith(": meets 20 ms")


def test_the_line_turns_exactly_at_the_objective() -> None:
    fast = Setup(Device("fast", 1e18, 1e21, None, 1e12), LLAMA, overhead_s=0.020)
    assert "does not meet" in verdict(fast)
    assert "does not" not in verdict(replace(fast, overhead_s=0.01999))


@pytest.mark.parametrize("change", [{"calls": 0}, {"prompt_tokens": 0}, {"price_per_hour": -1.0}])
def test_a_bad_question_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(PlanError):
        Question(**change)


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(PlanError, match="prompt-tokens"):
        plan("L4", Question(prompt_tokens=2000))
