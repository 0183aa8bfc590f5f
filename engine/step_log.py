"""When each engine step happened and how many tokens it gave, kept apart from the outputs themselves.

vLLM merges the outputs of several steps into one when their reader lags, and the timestamps it passes along belong to
the last of them. This log is filled the moment the engine core's message is read and gives the steps back by token
count, so a blocked event loop delays bursts but changes neither their number nor their timestamps.

Pure: no vLLM, no clock. Bounded: see `StepLog`.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """`n_tokens` tokens that the engine core finished at `core_time_s` (its own monotonic clock, seconds)."""

    core_time_s: float
    n_tokens: int


@dataclass(slots=True)
class _Reply:
    last_core_time_s: float
    steps: deque[Step] = field(default_factory=deque)


class StepLog:
    """Steps not yet taken, by request (and by choice where a request has several).

    Args:
        max_requests: when a new request would exceed this, the one least recently recorded is forgotten.
        max_steps: per request; when exceeded, the two oldest steps are merged, so that token counts stay right.
    """

    def __init__(self, max_requests: int = 4096, max_steps: int = 65536) -> None:
        self._max_requests = max_requests
        self._max_steps = max_steps
        self._replies: OrderedDict[tuple[str, int], _Reply] = OrderedDict()

    def __len__(self) -> int:
        """Requests (choices) with a record."""
        return len(self._replies)

    def record(self, request_id: str, core_time_s: float, n_tokens: int, index: int = 0) -> None:
        """One step of choice `index` of a request. A step without tokens is not recorded."""
        if n_tokens <= 0:
            return
        key = (request_id, index)
        reply = self._replies.get(key)
        if reply is None:
            reply = self._replies[key] = _Reply(core_time_s)
            if len(self._replies) > self._max_requests:
                self._replies.popitem(last=False)
        self._replies.move_to_end(key)
        reply.last_core_time_s = core_time_s
        reply.steps.append(Step(core_time_s, n_tokens))
        if len(reply.steps) > self._max_steps:
            oldest, second = reply.steps.popleft(), reply.steps.popleft()
            reply.steps.appendleft(Step(second.core_time_s, oldest.n_tokens + second.n_tokens))

    def take(self, request_id: str, n_tokens: int, index: int = 0) -> tuple[Step, ...]:
        """The oldest steps that cover exactly `n_tokens`, removed from the log.

        A step larger than what is asked is cut and its rest stays. Tokens beyond what was recorded are counted to the
        last step known; a request without any record gives ().
        """
        reply = self._replies.get((request_id, index))
        if reply is None or n_tokens <= 0:
            return ()
        taken: list[Step] = []
        missing = n_tokens
        while missing and reply.steps:
            step = reply.steps.popleft()
            if step.n_tokens > missing:
                reply.steps.appendleft(Step(step.core_time_s, step.n_tokens - missing))
                step = Step(step.core_time_s, missing)
            taken.append(step)
            missing -= step.n_tokens
        if missing:
            tokens_in_last = taken.pop().n_tokens if taken else 0
            taken.append(Step(reply.last_core_time_s, tokens_in_last + missing))
        return tuple(taken)

    def forget(self, request_id: str) -> None:
        """Drop what is left of a request, all its choices. Safe to call for an unknown one."""
        for key in [key for key in self._replies if key[0] == request_id]:
            del self._replies[key]
