"""vLLM's outputs of one request as bursts: one per step of the core, text cut per token. Pure."""

from collections.abc import Iterator
from typing import Any, get_args

from engine.api import FinishReason, TokenBurst
from engine.pieces import Pieces
from engine.step_log import Step, StepLog

_FINISH_REASONS = get_args(FinishReason)


class Reply:
    """State of one reply.

    Args:
        request_id: as given to vLLM.
        log: filled by `engine.step_tap`.
        pieces: fresh.
        prompt_tokens: length of the prompt.
        speculating: whether steps check drafts at all.
    """

    def __init__(self, request_id: str, log: StepLog, pieces: Pieces, *, prompt_tokens: int, speculating: bool) -> None:
        self._request_id = request_id
        self._log = log
        self._pieces = pieces
        self._prompt_tokens = prompt_tokens
        self._drafted = None if speculating else 0
        self._last_core_time_s = 0.0

    def bursts(self, output: Any) -> Iterator[TokenBurst]:
        """Bursts of one `RequestOutput` in delta mode, which may hold several steps.

        The text of an output is cut once, over all its tokens, and then dealt out: vLLM gives no text per step.
        """
        completion = output.outputs[0]
        token_ids = tuple(completion.token_ids)
        pieces = self._pieces.split(token_ids, completion.text)
        reason = _finish_reason(completion.finish_reason)
        steps = self._steps(len(token_ids))
        begin = 0
        for position, step in enumerate(steps):
            end = begin + step.n_tokens
            last = position == len(steps) - 1
            yield TokenBurst(
                token_ids=token_ids[begin:end],
                pieces=pieces[begin:] if last else pieces[begin:end],
                core_time_s=step.core_time_s,
                drafted=self._drafted,
                finish_reason=reason if last else None,
                prompt_tokens=self._prompt_tokens,
                cached_tokens=output.num_cached_tokens or 0,
                draft_steps=_draft_steps(completion) if last else (),
                queued_s=_queued_s(output),
            )
            begin = end

    def _steps(self, n_tokens: int) -> tuple[Step, ...]:
        """The steps that gave these tokens; an output without tokens still makes one burst, for its reason."""
        steps = self._log.take(self._request_id, n_tokens) or (Step(self._last_core_time_s, n_tokens),)
        self._last_core_time_s = steps[-1].core_time_s
        return steps


def _finish_reason(reason: str | None) -> FinishReason | None:
    """vLLM's reasons that are not ours ("repetition") ended the reply against the caller's wish."""
    if reason is None:
        return None
    return reason if reason in _FINISH_REASONS else "error"  # type: ignore[return-value]


def _queued_s(output: Any) -> float | None:
    """From vLLM's own marks of the request, both on the core's clock."""
    marks = getattr(output, "metrics", None)
    if marks is None or not marks.queued_ts or not marks.scheduled_ts:
        return None
    return max(0.0, float(marks.scheduled_ts - marks.queued_ts))


def _draft_steps(completion: Any) -> tuple[tuple[int, int], ...]:
    metrics = getattr(completion, "spec_decode_metrics", None)
    if metrics is None:
        return ()
    return tuple(zip(metrics.per_step_drafted, metrics.per_step_accepted, strict=False))
