"""`voicepace bench perplexity`: what weights of fewer bits cost, on held-out replies read by the real engine."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from engine.api import EngineError
from engine.bench.perplexity_figures import Score, document, table
from engine.bench.published_arms import base_settings
from engine.heads.names import reply_files
from engine.heads.replies import RepliesError, Reply, read, without_loops
from engine.options import EngineOptions
from engine.provenance import in_words, provenance
from engine.request_group import request_group
from engine.vllm_engine import VllmEngine

_AT_A_TIME = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    parser.add_argument("--profile", default="cpu-demo", help="engine settings to start from (default: cpu-demo)")
    parser.add_argument("--model", help="instead of the profile's")
    parser.add_argument(
        "--cpu-weights",
        nargs="+",
        default=["float32", "auto"],
        metavar="NAME",
        help="as engine.cpu_weights, each in turn; the first is what the others are compared with (default: float32 auto)",
    )
    parser.add_argument(
        "--quantization",
        nargs="*",
        default=["int8"],
        metavar="NAME",
        help="as engine.quantization, each in turn after these (default: int8)",
    )
    parser.add_argument("--dtype", default="auto", help="as engine.dtype (default: auto)")
    parser.add_argument("--replies", type=Path, help="file of replies (default: those kept with the shipped heads)")
    parser.add_argument("--count", type=int, default=200, help="how many, evenly from the file (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.add_argument("--cache-dir", type=Path, default=Path("~/.cache/voicepace"), help="of the embedded model")
    parser.add_argument("--json", action="store_true", help="end with one JSON document, on one line")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit status."""
    about = provenance(sys.argv[1:], args.seed)
    try:
        replies = chosen(args.replies, args.count)
        arms = arms_of(args)
        scores = asyncio.run(_measured(arms, replies, args.cache_dir.expanduser()))
    except (EngineError, RepliesError, OSError, ValueError) as error:
        print(f"voicepace bench perplexity: {error}", file=sys.stderr)
        return 1
    found = document(scores, args.seed) | {"provenance": about}
    print(table(found))
    print(in_words(about["machine"]))
    if args.json:
        print(json.dumps(found, allow_nan=False))
    return 0


def chosen(path: Path | None, count: int) -> list[Reply]:
    """Replies without repetition, evenly from the whole file, so that every topic has its share.

    Raises:
        RepliesError: the file holds none.
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError("--count must be at least 1")
    file = path or reply_files()[0]
    replies = without_loops(read(file))
    if not replies:
        raise RepliesError(f"{file}: holds no reply without repetition")
    count = min(count, len(replies))
    return [replies[index * len(replies) // count] for index in range(count)]


def arms_of(args: argparse.Namespace) -> dict[str, EngineOptions]:
    """Engine options by the name of their weights, in the given order.

    Raises:
        ValueError: the settings do not fit.
    """
    settings = base_settings(args.profile, {"model": args.model})
    own = {"speculation": "none", "dtype": args.dtype}
    arms = {f"weights {name}": {"cpu_weights": name} for name in args.cpu_weights}
    arms |= {f"quantization {name}": {"quantization": name} for name in args.quantization}
    return {name: EngineOptions.model_validate({**settings, **own, **arm}) for name, arm in arms.items()}


async def _measured(
    arms: dict[str, EngineOptions], replies: Sequence[Reply], cache_dir: Path
) -> dict[str, list[Score]]:
    """One engine after the other."""
    scores = {}
    for name, options in arms.items():
        _progress(f"{name}: starting")
        engine = VllmEngine(options, cache_dir, _progress)
        await engine.start()
        try:
            _progress(f"{name}: reading {len(replies)} replies")
            scores[name] = await scored(engine, replies)
        finally:
            await engine.stop()
    return scores


async def scored(engine: VllmEngine, replies: Sequence[Reply]) -> list[Score]:
    """Every reply, read by a started engine as if it were a prompt.

    Raises:
        EngineError: as the engine raises it.
    """
    gate = asyncio.Semaphore(_AT_A_TIME)
    async with request_group() as group:
        tasks = [
            group.create_task(_score(engine, reply, f"perplexity-{number}", gate), name=f"score {number}")
            for number, reply in enumerate(replies)
        ]
    return [task.result() for task in tasks]


async def _score(engine: VllmEngine, reply: Reply, request_id: str, gate: asyncio.Semaphore) -> Score:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    params = SamplingParams(
        max_tokens=1,
        temperature=0.0,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    ids = [*reply.prompt_ids, *reply.ids]
    found: Any = None
    async with gate:
        try:
            prompt = {"prompt_token_ids": ids}
            async with aclosing(engine.client.generate(prompt, params, request_id)) as outputs:
                async for output in outputs:
                    found = output.prompt_logprobs
        finally:
            engine.step_log.forget(request_id)
    own = [place[token] for place, token in zip(found, ids, strict=True) if place][-len(reply.ids) :]
    return Score(
        loss=-sum(entry.logprob for entry in own),
        first=sum(entry.rank == 1 for entry in own),
        tokens=len(own),
        greedy=reply.temperature == 0,
    )


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
