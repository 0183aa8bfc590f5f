"""Step time against batch: N requests generate at once, and the time between two bursts of one of them is taken.

Only gaps between the last first burst and the first last burst of a round count, so that all N run in every counted
step and none of them reads a prompt. Times are the engine core's own; batch sizes take turns, forwards and backwards,
so that a slow drift of the machine does not fall on one of them.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise

from engine.api import Engine, GenerateRequest, Sampling

_TOPICS = (
    "a lighthouse keeper and the storm of the century",
    "how bread is made, from the field to the table",
    "a train journey through the mountains in winter",
    "the history of the telephone, told to a child",
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run.

    Attributes:
        batches: numbers of requests at once.
        reply_tokens: most tokens of a reply.
        steps: steps to time for every batch size; each is seen by all requests of the batch, and counts once.
        most_rounds: rounds after which a batch size is left with fewer.
    """

    batches: tuple[int, ...] = (1, 2, 4, 8)
    reply_tokens: int = 48
    steps: int = 150
    most_rounds: int = 12

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1 or len(set(self.batches)) < len(self.batches):
            raise ValueError(f"batches must be different numbers of at least 1, got {self.batches}")
        if min(self.reply_tokens, self.steps, self.most_rounds) < 1:
            raise ValueError("reply_tokens, steps and most_rounds must be at least 1")


@dataclass(slots=True)
class _Reply:
    """Bursts of one request: (engine core time in seconds, tokens), and when the first one reached us."""

    bursts: list[tuple[float, int]] = field(default_factory=list)
    ttft_s: float | None = None


@dataclass(slots=True)
class _Samples:
    """What was collected for one batch size."""

    rounds: int = 0
    gaps_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ttfts_s: list[float] = field(default_factory=list)

    def add(self, replies: Sequence[_Reply]) -> None:
        """Takes one round in."""
        self.rounds += 1
        heard = [reply for reply in replies if reply.bursts and reply.ttft_s is not None]
        self.ttfts_s += [reply.ttft_s for reply in heard if reply.ttft_s is not None]
        if len(heard) < len(replies):
            return
        begin = max(reply.bursts[0][0] for reply in heard)
        end = min(reply.bursts[-1][0] for reply in heard)
        for reply in heard:
            for (earlier_s, _), (later_s, tokens) in pairwise(reply.bursts):
                if begin <= earlier_s and later_s <= end:
                    self.gaps_s.append(later_s - earlier_s)
                    self.tokens.append(tokens)


async def measure_step_time(engine: Engine, workload: Workload | None = None) -> dict[str, object]:
    """Drives a started engine and returns the document that `engine.plan.calibration` reads.

    Returns:
        `kind` "step_time", `model`, and per batch size: `step_ms` (mean), `step_p50_ms`, `step_p99_ms`, `ttft_ms`
        (mean; the prompts of a round arrive together), `tokens_per_step`, `steps` timed, `rounds`.

    Raises:
        RuntimeError: a batch size yielded no gap: replies were too short to overlap.
        EngineError: as the engine raises it.
    """
    work = workload or Workload()
    samples = {batch: _Samples() for batch in work.batches}
    number = await _warm_up(engine, max(work.batches))
    for turn in range(work.most_rounds):
        for batch in work.batches if turn % 2 == 0 else reversed(work.batches):
            if len(samples[batch].gaps_s) < work.steps * batch:
                samples[batch].add(await _round(engine, batch, number, work.reply_tokens))
                number += batch
    return {
        "kind": "step_time",
        "model": engine.model_name,
        "reply_tokens": work.reply_tokens,
        "batches": [_row(batch, collected) for batch, collected in sorted(samples.items())],
    }


async def _warm_up(engine: Engine, batch: int) -> int:
    """One short round that is thrown away; returns the next request's number."""
    await _round(engine, batch, 0, 4)
    return batch


async def _round(engine: Engine, batch: int, number: int, tokens: int) -> list[_Reply]:
    replies = [_Reply() for _ in range(batch)]
    async with asyncio.TaskGroup() as group:
        for offset, reply in enumerate(replies):
            request = _request(engine, number + offset, tokens)
            group.create_task(_read(engine, request, reply), name=f"read {request.request_id}")
    return replies


def _request(engine: Engine, number: int, tokens: int) -> GenerateRequest:
    """A prompt of its own, so that no reply comes from the prefix cache of another."""
    topic = _TOPICS[number % len(_TOPICS)]
    message = {"role": "user", "content": f"Story {number}. Tell me a long and detailed story about {topic}."}
    prompt = engine.tokenizer.encode(engine.tokenizer.render([message], add_generation_prompt=True))
    return GenerateRequest(f"step-time-{number}", tuple(prompt), Sampling(max_tokens=tokens, temperature=0.0))


async def _read(engine: Engine, request: GenerateRequest, reply: _Reply) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with aclosing(engine.generate(request)) as bursts:
        async for burst in bursts:
            if burst.token_ids:
                if reply.ttft_s is None:
                    reply.ttft_s = clock() - begun
                reply.bursts.append((burst.core_time_s, len(burst.token_ids)))


def _row(batch: int, samples: _Samples) -> Mapping[str, object]:
    if not samples.gaps_s:
        raise RuntimeError(f"batch {batch}: no step in which all requests ran; take longer replies")
    gaps = sorted(samples.gaps_s)
    return {
        "batch": batch,
        "step_ms": 1000 * statistics.fmean(gaps),
        "step_p50_ms": 1000 * statistics.median(gaps),
        "step_p99_ms": 1000 * gaps[int(0.99 * (len(gaps) - 1))],
        "ttft_ms": 1000 * statistics.fmean(samples.ttfts_s),
        "tokens_per_step": statistics.fmean(samples.tokens),
        "steps": len(gaps) // batch,
        "rounds": samples.rounds,
    }
