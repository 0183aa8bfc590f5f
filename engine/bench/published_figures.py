"""From what was read off the engine to the figures of `voicepace bench published`. Pure.

Engine TIT: a step gap divided by the tokens of the step, once for each of them. The first burst of a reply comes from
reading the prompt; it counts for TTFT, not for TIT, and not for tokens per step.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class ReplyTrace:
    """One reply as it came.

    Attributes:
        prompt: name of the prompt.
        ttft_s: from the request to the first tokens, on our clock; None without a token.
        bursts: (engine core time in seconds, tokens) per step.
        draft_steps: (drafted, accepted) of each step that checked drafts.
        text: the reply's text.
        prompt_tokens: length of the prompt.
        cached_tokens: of those, served from the prefix cache.
    """

    prompt: str
    ttft_s: float | None
    bursts: tuple[tuple[float, int], ...]
    draft_steps: tuple[tuple[int, int], ...]
    text: str
    prompt_tokens: int
    cached_tokens: int

    @property
    def gaps(self) -> list[tuple[float, int]]:
        """(step gap in seconds, tokens of the step), the first step left out."""
        return [(after - before, tokens) for (before, _), (after, tokens) in pairwise(self.bursts)]


@dataclass(frozen=True, slots=True)
class Block:
    """All prompts of one kind, sent to one arm without a pause.

    Attributes:
        arm: the strategy.
        kind: of the prompts.
        concurrency: replies at a time.
        pair: number of the plain block and the arm's block that were run next to each other; -1 where none was.
        group: the arm in whose company this block was run: plain blocks are compared with those alone.
        wall_s: from the first request to the end of the last reply.
        replies: in the order in which they ended.
    """

    arm: str
    kind: str
    concurrency: int
    pair: int
    group: str
    wall_s: float
    replies: tuple[ReplyTrace, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """One arm on one kind of prompt at one concurrency. None: there was nothing to take it from.

    Attributes:
        blocks: how many; each holds all prompts once.
        replies: of all blocks.
        differing: replies whose text is not plain decoding's.
        tokens: generated, in all blocks together.
        prompt_tokens: read.
        cached_tokens: of those, from the prefix cache.
        time_s: of all blocks together.
        ttft_ms: mean.
        ttft_p99_ms: 99th percentile.
        tit_ms: mean engine TIT.
        tit_p99_ms: 99th percentile.
        step_ms: mean step gap.
        tokens_per_second: tokens by `time_s`, prompts' time included.
        tokens_per_step: bonus token included.
        draft_steps: steps that checked drafts.
        acceptance_by_depth: at index d - 1 the share of steps with d or more drafts that kept d or more.
    """

    blocks: int
    replies: int
    differing: int
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    time_s: float
    ttft_ms: float | None
    ttft_p99_ms: float | None
    tit_ms: float | None
    tit_p99_ms: float | None
    step_ms: float | None
    tokens_per_second: float | None
    tokens_per_step: float | None
    draft_steps: int
    acceptance_by_depth: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times an arm is as quick as plain decoding, with a 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def figures(blocks: Sequence[Block], references: Mapping[str, str]) -> Figures:
    """Figures over `blocks`, all of one arm, kind and concurrency.

    Args:
        blocks: at least one.
        references: plain decoding's text by prompt, as `reference_texts` gives it.
    """
    replies = [reply for block in blocks for reply in block.replies]
    gaps = [gap for reply in replies for gap in reply.gaps]
    samples = [seconds / tokens for seconds, tokens in gaps for _ in range(tokens)]
    ttfts = [reply.ttft_s for reply in replies if reply.ttft_s is not None]
    drafts = [step for reply in replies for step in reply.draft_steps]
    tokens = sum(count for reply in replies for _, count in reply.bursts)
    time_s = sum(block.wall_s for block in blocks)
    return Figures(
        blocks=len(blocks),
        replies=len(replies),
        differing=sum(reply.text != references.get(reply.prompt, reply.text) for reply in replies),
        tokens=tokens,
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        time_s=time_s,
        ttft_ms=_mean_ms(ttfts),
        ttft_p99_ms=_p99_ms(ttfts),
        tit_ms=_mean_ms(samples),
        tit_p99_ms=_p99_ms(samples),
        step_ms=_mean_ms([seconds for seconds, _ in gaps]),
        tokens_per_second=tokens / time_s if time_s > 0 else None,
        tokens_per_step=len(samples) / len(gaps) if gaps else None,
        draft_steps=len(drafts),
        acceptance_by_depth=acceptance_by_depth(drafts),
    )


def acceptance_by_depth(steps: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    """For d = 1, 2, …: of the steps that drafted d tokens or more, the share that kept d or more."""
    deepest = max((drafted for drafted, _ in steps), default=0)
    shares = []
    for depth in range(1, deepest + 1):
        kept = [accepted >= depth for drafted, accepted in steps if drafted >= depth]
        shares.append(sum(kept) / len(kept))
    return tuple(shares)


def reference_texts(blocks: Iterable[Block], plain: str) -> dict[str, str]:
    """Plain decoding's text by prompt: that of its first reply at the lowest concurrency."""
    texts: dict[str, str] = {}
    for block in sorted((block for block in blocks if block.arm == plain), key=lambda block: block.concurrency):
        for reply in block.replies:
            texts.setdefault(reply.prompt, reply.text)
    return texts


def tit_ratio(plain: Sequence[Block], arm: Sequence[Block], seed: int, resamples: int = RESAMPLES) -> Ratio | None:
    """Mean TIT of plain decoding over that of the arm: above 1 the arm is quicker.

    The interval is a two-level block bootstrap: pairs of neighbouring blocks are drawn, and within each the prompts,
    plain and arm always together. Replies that run at a time share their steps, so that at a higher concurrency it is
    rather too narrow. None where either has no step gap.
    """
    pairs = _paired(plain, arm)
    value = _ratio([unit for units in pairs for unit in units])
    if value is None:
        return None
    draw = random.Random(seed)
    values = []
    for _ in range(resamples):
        chosen = [draw.choices(units, k=len(units)) for units in draw.choices(pairs, k=len(pairs))]
        drawn = _ratio([unit for units in chosen for unit in units])
        if drawn is not None:
            values.append(drawn)
    values.sort()
    return Ratio(value, *_percentiles(values, (0.025, 0.975))) if values else None


_Unit = tuple[float, int, float, int]
"""Of one prompt in one pair of blocks: plain's gaps (seconds) and tokens, the arm's gaps and tokens."""


def _paired(plain: Sequence[Block], arm: Sequence[Block]) -> list[list[_Unit]]:
    pairs = []
    for block in arm:
        partner = next((other for other in plain if other.pair == block.pair), None)
        if partner is not None and (own := _sums(block)) and (theirs := _sums(partner)):
            pairs.append([(*theirs[name], *own[name]) for name in own if name in theirs])
    return [units for units in pairs if units]


def _sums(block: Block) -> dict[str, tuple[float, int]]:
    return {
        reply.prompt: (sum(gap for gap, _ in reply.gaps), sum(tokens for _, tokens in reply.gaps))
        for reply in block.replies
    }


def _ratio(units: Sequence[_Unit]) -> float | None:
    plain_s, plain_tokens, arm_s, arm_tokens = (
        (sum(column) for column in zip(*units, strict=True)) if units else [0] * 4
    )
    if not plain_tokens or not arm_tokens or arm_s <= 0:
        return None
    return float(plain_s / plain_tokens / (arm_s / arm_tokens))


def _percentiles(ordered: Sequence[float], shares: Iterable[float]) -> list[float]:
    """Nearest rank."""
    return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]


def _mean_ms(seconds: Sequence[float]) -> float | None:
    return 1e3 * sum(seconds) / len(seconds) if seconds else None


def _p99_ms(seconds: Sequence[float]) -> float | None:
    return 1e3 * _percentiles(sorted(seconds), (0.99,))[0] if seconds else None
