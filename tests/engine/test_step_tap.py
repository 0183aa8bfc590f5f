from types import SimpleNamespace
from typing import Any

from engine.step_log import Step, StepLog
from engine.step_tap import tap


class Processor:
    """Behaves like vLLM's in what the tap relies on: drops states of ended requests and trims tokens in place."""

    def __init__(self) -> None:
        self.request_states: dict[str, Any] = {}

    def process_outputs(self, outputs: list[Any], timestamp: float, stats: object = None) -> str:
        for output in outputs:
            if self.request_states.get(output.request_id) and output.finished:
                del self.request_states[output.request_id]
                del output.new_token_ids[1:]
        return "processed"


def output(request_id: str, n_tokens: int, finished: bool = False) -> Any:
    return SimpleNamespace(request_id=request_id, new_token_ids=[7] * n_tokens, finished=finished)


def tapped() -> tuple[Processor, StepLog]:
    processor, log = Processor(), StepLog()
    for internal, external, index in (("a-1", "a", 0), ("0_b-2", "b", 0), ("1_b-2", "b", 1)):
        processor.request_states[internal] = SimpleNamespace(external_req_id=external, request_index=index)
    tap(processor, log)
    return processor, log


def test_steps_are_recorded_under_the_caller_s_id_and_choice() -> None:
    processor, log = tapped()
    result = processor.process_outputs([output("a-1", 2), output("1_b-2", 1), output("0_b-2", 3)], 5.0, None)
    assert result == "processed"
    assert log.take("a", 2) == (Step(5.0, 2),)
    assert log.take("b", 3, index=0) == (Step(5.0, 3),)
    assert log.take("b", 1, index=1) == (Step(5.0, 1),)


def test_the_last_step_counts_only_tokens_that_vllm_keeps() -> None:
    processor, log = tapped()
    processor.process_outputs([output("a-1", 4, finished=True)], 6.0)
    assert log.take("a", 1) == (Step(6.0, 1),)
    assert log.take("a", 1) == (Step(6.0, 1),)


def test_an_aborted_request_leaves_no_record() -> None:
    processor, log = tapped()
    del processor.request_states["a-1"]
    processor.process_outputs([output("a-1", 4)], 6.0)
    assert len(log) == 0
