from hypothesis import given
from hypothesis import strategies as st

from engine.step_log import Step, StepLog


def test_steps_come_back_in_order_and_by_token_count() -> None:
    log = StepLog()
    for core_time_s, n_tokens in [(1.0, 1), (1.1, 3), (1.2, 2)]:
        log.record("a", core_time_s, n_tokens)
    assert log.take("a", 4) == (Step(1.0, 1), Step(1.1, 3))
    assert log.take("a", 2) == (Step(1.2, 2),)


def test_requests_and_choices_are_kept_apart() -> None:
    log = StepLog()
    log.record("a", 1.0, 2)
    log.record("a", 1.0, 5, index=1)
    log.record("b", 2.0, 1)
    assert log.take("a", 5, index=1) == (Step(1.0, 5),)
    log.forget("a")
    assert log.take("a", 2) == ()
    assert log.take("b", 1) == (Step(2.0, 1),)
    log.forget("never seen")


def test_a_step_is_cut_where_fewer_tokens_are_asked_for() -> None:
    log = StepLog()
    log.record("a", 1.0, 5)
    assert log.take("a", 2) == (Step(1.0, 2),)
    assert log.take("a", 3) == (Step(1.0, 3),)


def test_tokens_nobody_recorded_count_to_the_last_step_known() -> None:
    log = StepLog()
    log.record("a", 1.0, 1)
    log.record("a", 2.0, 1)
    assert log.take("a", 4) == (Step(1.0, 1), Step(2.0, 3))
    assert log.take("a", 1) == (Step(2.0, 1),)


def test_a_step_without_tokens_leaves_no_record() -> None:
    log = StepLog()
    log.record("a", 1.0, 0)
    assert len(log) == 0


def test_the_request_least_recently_recorded_is_forgotten_first() -> None:
    log = StepLog(max_requests=2)
    log.record("a", 1.0, 1)
    log.record("b", 1.0, 1)
    log.record("a", 2.0, 1)
    log.record("c", 3.0, 1)
    assert len(log) == 2
    assert log.take("b", 1) == ()
    assert log.take("a", 2) == (Step(1.0, 1), Step(2.0, 1))


def test_a_reply_nobody_reads_merges_its_oldest_steps_and_keeps_the_count() -> None:
    log = StepLog(max_steps=2)
    for step in range(5):
        log.record("a", float(step), 1)
    assert log.take("a", 5) == (Step(3.0, 4), Step(4.0, 1))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.lists(st.integers(1, 9), max_size=60))
def test_any_way_of_reading_gives_every_token_once_and_never_goes_back_in_time(
    steps: list[int], reads: list[int]
) -> None:
    log = StepLog()
    for position, n_tokens in enumerate(steps):
        log.record("a", float(position), n_tokens)
    left = sum(steps)
    seen: list[Step] = []
    for wanted in [*reads, left]:
        wanted = min(wanted, left)
        taken = log.take("a", wanted)
        assert sum(step.n_tokens for step in taken) == wanted
        seen += taken
        left -= wanted
    times = [step.core_time_s for step in seen]
    assert times == sorted(times)
    assert sum(step.n_tokens for step in seen) == sum(steps) - left
