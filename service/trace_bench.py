"""`voicepace bench record`: engine traces for `voicepace bench pacing`, from the real engine under a few calls at a time.

For each number of concurrent calls one file: when each step's tokens came by the engine core's own clock, reply by reply.
Calls speak back to back, so that this many replies are always under way.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing
from itertools import cycle
from pathlib import Path
from typing import Any

from engine.api import Engine, EngineError, GenerateRequest, Sampling
from engine.bench.published_prompts import DIALOGUES, Message
from engine.provenance import provenance
from engine.request_group import request_group
from service.settings import Settings, SettingsError, load_settings
from tts_adapter.bench.traces import RECORDED, Burst, load, record

KINDS = ("conversational", "multi_turn")
TOKENS = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is recorded, and of which engine."""
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the engine")
    parser.add_argument("--name", help="of the traces: NAME-CALLS.json (default: the kind of speculation, or plain)")
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 4, 8], help="at a time (default: %(default)s)")
    parser.add_argument("--replies", type=int, default=3, help="of each call (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a reply at most (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RECORDED, help="folder (default: the traces of this package)")


def run(arguments: argparse.Namespace) -> int:
    """Record; the exit code."""
    try:
        settings = load_settings(_flags(arguments), arguments.config)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from engine.vllm_engine import VllmEngine

    engine = VllmEngine(settings.engine, settings.cache_dir.expanduser(), _progress)
    try:
        asyncio.run(_started(engine, settings, arguments))
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _flags(arguments: argparse.Namespace) -> dict[str, str]:
    flags = {"engine.max_num_seqs": str(max(arguments.calls))}
    for assignment in arguments.set:
        key, found, value = assignment.partition("=")
        if not found:
            raise SettingsError(f"--set {assignment}: write KEY=VALUE")
        flags[key] = value
    return flags


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _started(engine: Engine, settings: Settings, arguments: argparse.Namespace) -> None:
    made: dict[str, Any] = provenance(sys.argv[1:])
    speculation = settings.engine.speculation
    name = arguments.name or ("plain" if speculation == "none" else speculation)
    try:
        await engine.start()
        for calls in arguments.calls:
            replies = await replies_of(engine, calls, max(arguments.replies, 8 // calls), arguments.tokens)
            how = "plain decoding" if speculation == "none" else f"{speculation} speculation"
            text = f"{engine.model_name}, {how}, {calls} concurrent call{'s' if calls > 1 else ''}"
            path = arguments.out / f"{name}-{calls}.json"
            record(path, replies, text, {**made, "max_tokens": arguments.tokens, "temperature": 0.0})
            trace = load(path)
            print(f"{path}: {trace.step_s * 1000:.1f} ms, {trace.tokens_per_step:.2f} tokens a step", flush=True)
    finally:
        await engine.stop()


async def replies_of(engine: Engine, calls: int, replies: int, tokens: int) -> list[list[Burst]]:
    """The bursts of `calls` x `replies` replies, `calls` at a time; those of a single burst are left out."""
    found: list[list[Burst]] = []
    questions = cycle(_questions())

    async def call(number: int) -> None:
        for turn in range(replies):
            text = engine.tokenizer.render(next(questions), add_generation_prompt=True)
            prompt = tuple(engine.tokenizer.encode(text))
            sampling = Sampling(max_tokens=tokens, temperature=0.0)
            request = GenerateRequest(f"record-{number}-{turn}", prompt, sampling)
            bursts: list[Burst] = []
            async with aclosing(engine.generate(request)) as steps:
                async for step in steps:
                    if step.token_ids:
                        bursts.append((step.core_time_s, len(step.token_ids)))
            if len(bursts) > 1:
                found.append(bursts)

    async with request_group() as tasks:
        for number in range(calls):
            tasks.create_task(call(number), name=f"call-{number}")
    return found


def _questions() -> Iterator[tuple[Message, ...]]:
    for kind in KINDS:
        for dialogue in DIALOGUES[kind]:
            yield dialogue.turns[-1]
