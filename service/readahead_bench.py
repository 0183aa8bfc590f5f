"""`voicepace bench readahead`: what reading partial words ahead gains over prefix caching alone, on the real engine.

One turn is measured at a time. The history is in the prefix cache, as it is in a call; the turn before was answered, and
heard either to its end or to the middle (a barge-in). Then the caller says so many words, in one of three ways:

- `off`: the engine sees the final words alone.
- `ahead`: it was given half of them, and all but the last two, and had the time to read them.
- `racing`: the same, but the final words come at once, while the last partial is still being read.

TTFT is from the final words to the first token. `read_s` is the engine time that reading ahead took from others.
"""

import argparse
import asyncio
import copy
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from engine.api import Engine, EngineError, GenerateRequest, Sampling
from service.conversation import Conversation
from service.prewarm import Prewarm
from service.settings import SettingsError, load_settings

HISTORIES = (300, 1000, 2000)
WORDS = (5, 10, 20, 40, 80)
WAYS = ("off", "ahead", "racing")
REPLY_TOKENS = 8
RACING_S = 0.01
ROOM = 512  # tokens beyond the history: the utterance and the replies
_TEXT = (
    "the order was meant for tomorrow but nobody told us whether our table by the window is still free after eight "
    "and could you please ask him again about the bread that my sister liked so much when we came in spring"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: tokens of history, a barge-in or not, words of the utterance, and how they come."""

    history: int
    barge_in: bool
    words: int
    way: str


@dataclass(slots=True)
class Samples:
    """What was measured in one cell."""

    ttft_s: list[float]
    read_s: list[float]
    cached: list[int]
    prompt: list[int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How much, and on what."""
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--rounds", type=int, default=3, help="measurements per cell (default: %(default)s)")
    parser.add_argument("--histories", type=int, nargs="+", default=HISTORIES, help="tokens (default: %(default)s)")
    parser.add_argument("--words", type=int, nargs="+", default=WORDS, help="of an utterance (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the words")


def run(arguments: argparse.Namespace) -> int:
    """A table, and one JSON document as the last line; the exit code."""
    try:
        settings = load_settings({"engine.max_model_len": str(max(arguments.histories) + ROOM)}, arguments.config)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from engine.vllm_engine import VllmEngine

    engine = VllmEngine(settings.engine, settings.cache_dir.expanduser(), _progress)
    try:
        document = asyncio.run(_started(engine, arguments))
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(document))
    print(json.dumps(document))
    return 0


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _started(engine: Engine, arguments: argparse.Namespace) -> dict[str, Any]:
    try:
        await engine.start()
        return await measure(
            engine, tuple(arguments.histories), tuple(arguments.words), arguments.rounds, arguments.seed, _progress
        )
    finally:
        await engine.stop()


async def measure(
    engine: Engine,
    histories: tuple[int, ...],
    words: tuple[int, ...],
    rounds: int,
    seed: int,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure every cell on a started engine, the ways in turn within each round. Returns the document."""
    bench = _Bench(engine, Random(seed))
    cells: dict[Cell, Samples] = {}
    for history in histories:
        base = await bench.history(history)
        for _, barge_in, count in product(range(rounds), (False, True), words):
            for way in WAYS:
                cell = Cell(history, barge_in, count, way)
                samples = cells.setdefault(cell, Samples([], [], [], []))
                await bench.turn(base, cell, samples)
                progress(f"{cell}: {samples.ttft_s[-1] * 1e3:.0f} ms, {samples.cached[-1]} tokens cached")
    rows = [_row(cell, samples) for cell, samples in cells.items()]
    return {"kind": "readahead", "model": engine.model_name, "rounds": rounds, "cells": rows, **summary(rows)}


class _Bench:
    def __init__(self, engine: Engine, random: Random) -> None:
        self._engine = engine
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._count = 0

    def _said(self, words: int) -> str:
        return " ".join(self._random.choices(_TEXT.split(), k=words))

    async def history(self, tokens: int) -> Conversation:
        """A conversation whose next prompt has about so many tokens before the new words, in the prefix cache."""
        room = self._engine.max_model_len
        # Each history begins differently, so that none finds another's blocks.
        conversation = Conversation(self._engine.tokenizer, f"You are agent {tokens}. Be brief.", room)
        length = len(conversation.ask(self._said(6)))
        while length < tokens - 40:
            words = min(40, tokens - 40 - length)
            reply = self._engine.tokenizer.encode(" " + self._said(words))
            conversation.answered(reply)
            length = len(conversation.ask(self._said(6)))
        prompt = conversation.ask(self._said(2))
        conversation.answered(await self._reply(prompt, 2))
        return conversation

    async def turn(self, base: Conversation, cell: Cell, samples: Samples) -> None:
        """One answered turn, then the measured one."""
        conversation = copy.deepcopy(base)
        prompt = conversation.ask(self._said(6))
        reply = await self._reply(prompt, REPLY_TOKENS)
        heard = reply[: len(reply) // 2] if cell.barge_in else reply
        said = self._said(cell.words).split()
        read_s = 0.0
        async with asyncio.TaskGroup() as tasks:
            ahead = Prewarm(self._engine, tasks, f"bench-{self._count}")
            if cell.way != "off":
                began = self._loop.time()
                if cell.words > 3:
                    ahead.read(conversation.preview(" ".join(said[: cell.words // 2]), heard))
                    await ahead.done()
                ahead.read(conversation.preview(" ".join(said[:-2]), heard))
                if cell.way == "ahead":
                    await ahead.done()
                else:
                    await asyncio.sleep(RACING_S)
                read_s = self._loop.time() - began
            asked = self._loop.time()
            await ahead.stop()
            conversation.answered(heard)
            request = self._request(conversation.ask(" ".join(said)), 2)
            async with aclosing(self._engine.generate(request)) as bursts:
                async for burst in bursts:
                    samples.ttft_s.append(self._loop.time() - asked)
                    samples.cached.append(burst.cached_tokens)
                    samples.prompt.append(burst.prompt_tokens)
                    break
        samples.read_s.append(read_s)

    async def _reply(self, prompt: tuple[int, ...], tokens: int) -> list[int]:
        async with aclosing(self._engine.generate(self._request(prompt, tokens))) as bursts:
            return [token_id async for burst in bursts for token_id in burst.token_ids]

    def _request(self, prompt: tuple[int, ...], tokens: int) -> GenerateRequest:
        self._count += 1
        return GenerateRequest(f"bench-turn-{self._count}", prompt, Sampling(max_tokens=tokens, temperature=0.0))


def _row(cell: Cell, samples: Samples) -> dict[str, Any]:
    return {
        "history": cell.history,
        "barge_in": cell.barge_in,
        "words": cell.words,
        "way": cell.way,
        "ttft_ms": round(statistics.median(samples.ttft_s) * 1e3, 1),
        "read_ms": round(statistics.median(samples.read_s) * 1e3, 1),
        "cached_tokens": statistics.median_low(samples.cached),
        "prompt_tokens": statistics.median_low(samples.prompt),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What each way gains on `off`, over all situations: mean of the cells' gains, and the share of cells that gain."""
    off = {_situation(row): row["ttft_ms"] for row in rows if row["way"] == "off"}
    gains = {
        way: [off[_situation(row)] - row["ttft_ms"] for row in rows if row["way"] == way]
        for way in WAYS
        if way != "off"
    }
    return {
        "mean_gain_ms": {way: round(statistics.mean(gained), 1) for way, gained in gains.items()},
        "share_of_cells_faster": {
            way: round(sum(gain > 0 for gain in gained) / len(gained), 3) for way, gained in gains.items()
        },
        "mean_off_ms": round(statistics.mean(off.values()), 1),
    }


def _situation(row: dict[str, Any]) -> tuple[int, bool, int]:
    return row["history"], row["barge_in"], row["words"]


def table(document: dict[str, Any]) -> str:
    """The cells for people: TTFT of the three ways side by side."""
    return "\n".join(_lines(document["cells"]))


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{'history':>7} {'turn':>9} {'words':>5} {'off ms':>8} {'ahead ms':>9} {'racing ms':>10} {'cached off→ahead':>18}"
    by_situation: dict[tuple[int, bool, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_situation.setdefault(_situation(row), {})[row["way"]] = row
    for (history, barge_in, words), ways in by_situation.items():
        cached = f"{ways['off']['cached_tokens']}→{ways['ahead']['cached_tokens']}"
        times = " ".join(f"{ways[way]['ttft_ms']:>{width}.1f}" for way, width in zip(WAYS, (8, 9, 10), strict=True))
        yield f"{history:>7} {'barge-in' if barge_in else 'normal':>9} {words:>5} {times} {cached:>18}"
