"""Fills a `StepLog` from the engine core's messages, before vLLM merges anything."""

from typing import Any

from engine.step_log import StepLog


def tap(output_processor: Any, log: StepLog) -> None:
    """Have every step that `output_processor` reads recorded in `log`.

    Requests are recorded under the id their caller gave, choices of one request under their index. Tokens that vLLM
    drops behind a stop string are not counted.

    Args:
        output_processor: that of an `AsyncLLM`; its `process_outputs` is replaced on the instance.
        log: filled on the event loop, in the order of the steps.
    """
    original = output_processor.process_outputs

    def process_outputs(core_outputs: Any, core_time_s: float | None = None, *args: Any, **kwargs: Any) -> Any:
        states = output_processor.request_states
        # A request that ends is gone from `states` afterwards, and one that was aborted is gone already.
        known = [(output, states[output.request_id]) for output in core_outputs if output.request_id in states]
        result = original(core_outputs, core_time_s, *args, **kwargs)
        for output, state in known:
            log.record(state.external_req_id, core_time_s or 0.0, len(output.new_token_ids), state.request_index)
        return result

    output_processor.process_outputs = process_outputs
