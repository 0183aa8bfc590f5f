from types import SimpleNamespace
from typing import Any

import pytest

from engine.pieces import Pieces
from engine.reply import Reply
from engine.step_log import StepLog


def completion(token_ids: list[int], text: str, reason: str | None = None, metrics: Any = None) -> Any:
    inner = SimpleNamespace(token_ids=token_ids, text=text, finish_reason=reason, spec_decode_metrics=metrics)
    return SimpleNamespace(outputs=[inner], num_cached_tokens=32)


def reply(log: StepLog, speculating: bool = True) -> Reply:
    return Reply("r", log, Pieces(chr), prompt_tokens=40, speculating=speculating)


def test_an_output_merged_from_several_steps_is_taken_apart() -> None:
    log = StepLog()
    log.record("r", 1.0, 2)
    log.record("r", 1.5, 1)
    log.record("r", 1.7, 3)
    bursts = list(reply(log).bursts(completion([*b"abcdef"], "abcdef", "length")))
    assert [burst.token_ids for burst in bursts] == [(97, 98), (99,), (100, 101, 102)]
    assert [burst.pieces for burst in bursts] == [("a", "b"), ("c",), ("d", "e", "f")]
    assert [burst.core_time_s for burst in bursts] == [1.0, 1.5, 1.7]
    assert [burst.finish_reason for burst in bursts] == [None, None, "length"]
    assert {(burst.prompt_tokens, burst.cached_tokens) for burst in bursts} == {(40, 32)}


def test_an_end_without_tokens_makes_a_burst_of_its_own() -> None:
    log = StepLog()
    log.record("r", 1.0, 1)
    state = reply(log)
    assert len(list(state.bursts(completion([97], "")))) == 1
    (last,) = state.bursts(completion([], "a", "abort"))
    assert (last.token_ids, last.pieces, last.core_time_s, last.finish_reason) == ((), ("a",), 1.0, "abort")


def test_a_reason_that_is_not_ours_is_an_error() -> None:
    (burst,) = reply(StepLog()).bursts(completion([97], "a", "repetition"))
    assert burst.finish_reason == "error"


def test_drafts_are_reported_with_the_last_burst() -> None:
    metrics = SimpleNamespace(per_step_drafted=[4, 3], per_step_accepted=[2, 0])
    log = StepLog()
    log.record("r", 1.0, 1)
    log.record("r", 2.0, 1)
    bursts = list(reply(log).bursts(completion([97, 98], "ab", "stop", metrics)))
    assert [burst.draft_steps for burst in bursts] == [(), ((4, 2), (3, 0))]
    assert [burst.drafted for burst in bursts] == [None, None]


def test_without_speculation_nothing_was_drafted() -> None:
    (burst,) = reply(StepLog(), speculating=False).bursts(completion([97], "a"))
    assert (burst.drafted, burst.accepted) == (0, 0)


@pytest.mark.parametrize(("queued", "scheduled", "waited"), [(5.0, 5.25, 0.25), (5.0, 0.0, None), (5.0, 4.9, 0.0)])
def test_the_time_in_the_queue_comes_from_the_cores_marks(
    queued: float, scheduled: float, waited: float | None
) -> None:
    output = completion([97], "a")
    output.metrics = SimpleNamespace(queued_ts=queued, scheduled_ts=scheduled)
    (burst,) = reply(StepLog()).bursts(output)
    assert burst.queued_s == waited
