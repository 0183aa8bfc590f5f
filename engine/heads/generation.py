"""Replies by the target itself, many at a time, through the same engine that serves."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import aclosing

from engine.api import Engine, GenerateRequest, Sampling
from engine.heads.prompts import Prompt, answered, caller_openings
from engine.heads.replies import Reply, spread
from engine.request_group import request_group

Progress = Callable[[int, int], None]

_QUESTION_TOKENS = 64
_QUESTION_TEMPERATURE, _QUESTION_TOP_P = 1.0, 0.95
# The temperature of sampled replies: what a phone agent is usually run at.
SAMPLED_TEMPERATURE = 0.7


async def invented_questions(
    engine: Engine, topics: Sequence[str], count: int, at_once: int, seed: int, progress: Progress
) -> list[Prompt]:
    """Up to `count` prompts with questions that the model made up; the same one is kept once."""
    openings = caller_openings(engine.tokenizer, topics, count)
    sampling = [
        Sampling(_QUESTION_TOKENS, _QUESTION_TEMPERATURE, _QUESTION_TOP_P, seed=seed + at) for at in range(count)
    ]
    found: dict[tuple[int, ...], Prompt] = {}
    for opening, ids in zip(openings, await _texts(engine, openings, sampling, at_once, progress), strict=True):
        prompt = answered(engine.tokenizer, opening.topic, engine.tokenizer.decode(ids))
        if prompt is not None:
            found[prompt.ids] = prompt
    return list(found.values())


async def replies(
    engine: Engine,
    prompts: Sequence[Prompt],
    max_tokens: int,
    greedy_share: float,
    at_once: int,
    seed: int,
    progress: Progress,
) -> list[Reply]:
    """One reply to each prompt, greedy or sampled.

    Args:
        engine: started.
        prompts: to answer.
        max_tokens: of a reply.
        greedy_share: 0 to 1, spread evenly over the prompts.
        at_once: requests in the engine.
        seed: of the sampled ones.
        progress: takes replies done and replies in all.
    """
    temperatures = [0.0 if greedy else SAMPLED_TEMPERATURE for greedy in spread(len(prompts), greedy_share)]
    sampling = [Sampling(max_tokens, temperature, seed=seed + at) for at, temperature in enumerate(temperatures)]
    texts = await _texts(engine, prompts, sampling, at_once, progress)
    return [
        Reply(prompt.ids, ids, temperature, prompt.topic)
        for prompt, ids, temperature in zip(prompts, texts, temperatures, strict=True)
        if ids
    ]


async def _texts(
    engine: Engine, prompts: Sequence[Prompt], sampling: Sequence[Sampling], at_once: int, progress: Progress
) -> list[tuple[int, ...]]:
    """Token ids of what the model goes on with, `at_once` prompts at a time."""
    texts: list[tuple[int, ...]] = [()] * len(prompts)
    waiting = iter(range(len(prompts)))
    done = itertools.count(1)

    async def worker() -> None:
        for at in waiting:
            ids: list[int] = []
            request = GenerateRequest(f"heads-{at}", prompts[at].ids, sampling[at])
            async with aclosing(engine.generate(request)) as bursts:
                async for burst in bursts:
                    ids += burst.token_ids
            texts[at] = tuple(ids)
            progress(next(done), len(prompts))

    async with request_group() as group:
        for number in range(min(at_once, len(prompts))):
            group.create_task(worker(), name=f"replies-{number}")
    return texts
