"""Drives the engines of `voicepace bench speculation`: all resident, one working at a time.

Every cell (kind, temperature, concurrency) is run in rounds of blocks A B C … C B A, so that a steady drift of the
machine falls on all arms alike; each half of a round is a set of neighbours that ratios are taken from.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from engine.api import Engine, EngineError, GenerateRequest, Sampling
from engine.bench.published_figures import Block, ReplyTrace
from engine.bench.published_host import Host
from engine.bench.published_prompts import DIALOGUES, Dialogue
from engine.bench.published_run import ask_dialogues
from engine.options import EngineOptions


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of what is varied.

    Attributes:
        kind: of the prompts.
        temperature: 0: greedy; else every prompt has a seed, the same in every arm.
        concurrency: replies at a time.
    """

    kind: str
    temperature: float
    concurrency: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run.

    Attributes:
        kinds: of prompts.
        temperatures: of sampling.
        concurrency: replies at a time; each is run.
        prompts: dialogues of each kind.
        reply_tokens: most tokens of a reply.
        rounds: of every cell.
        seed: of the order of prompts, of sampling and of the bootstrap.
    """

    kinds: tuple[str, ...] = tuple(DIALOGUES)
    temperatures: tuple[float, ...] = (0.0, 0.7)
    concurrency: tuple[int, ...] = (1, 2, 4, 8)
    prompts: int = 8
    reply_tokens: int = 64
    rounds: int = 1
    seed: int = 0

    def cells(self) -> Iterator[Cell]:
        """Every combination."""
        for kind in self.kinds:
            for temperature in self.temperatures:
                for concurrency in self.concurrency:
                    yield Cell(kind, temperature, concurrency)


@dataclass(frozen=True, slots=True)
class Measured:
    """One block.

    Attributes:
        cell: what was run.
        block: the replies; `pair` numbers the half round.
        tally: what the trees of this block gave, by name; empty without trees.
    """

    cell: Cell
    block: Block
    tally: Mapping[str, float]


@dataclass(slots=True)
class Outcome:
    """What a run yielded.

    Attributes:
        measured: in the order in which it was run.
        not_run: reason by arm.
    """

    measured: list[Measured] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)


class Run:
    """One run of the benchmark.

    Args:
        host: makes the engines.
        workload: what to run.
        progress: takes a line for every step.

    Attributes:
        outcome: what there is so far.
    """

    def __init__(self, host: Host, workload: Workload, progress: Callable[[str], None] = lambda line: None) -> None:
        self._host = host
        self._work = workload
        self._progress = progress
        self._numbers = 0
        self.outcome = Outcome()

    async def measure(self, arms: Mapping[str, EngineOptions]) -> Outcome:
        """Start every engine, run every cell, stop them; an arm that cannot start is left out.

        Raises:
            EngineError: an engine fails while it is measured.
        """
        async with AsyncExitStack() as stack:
            engines: dict[str, Engine] = {}
            for name, options in arms.items():
                try:
                    engines[name] = await stack.enter_async_context(self._started(name, options))
                except EngineError as error:
                    self.outcome.not_run[name] = str(error)
            for cell in self._work.cells():
                for half in range(2 * self._work.rounds):
                    order = list(engines) if half % 2 == 0 else list(reversed(engines))
                    for name in order:
                        await self._block(name, engines[name], cell, half)
        return self.outcome

    @asynccontextmanager
    async def _started(self, name: str, options: EngineOptions) -> AsyncIterator[Engine]:
        self._progress(f"starting: {name}")
        engine = self._host.make(options)
        try:
            await engine.start()
            most = max(self._work.concurrency)
            warm_up = Cell(self._work.kinds[0], 0.0, most)
            await self._replies(engine, warm_up, DIALOGUES[self._work.kinds[0]][:most], 8)
            yield engine
        finally:
            await engine.stop()

    async def _block(self, name: str, engine: Engine, cell: Cell, half: int) -> None:
        """All prompts of a cell, in an order that all arms of a half round share."""
        self._progress(f"{len(self.outcome.measured) + 1}: {cell.kind}, {cell.concurrency} at a time, {name}")
        await self._host.forget(engine)
        dialogues = list(DIALOGUES[cell.kind][: self._work.prompts])
        random.Random(f"{self._work.seed} {cell} {half}").shuffle(dialogues)
        clock = asyncio.get_running_loop().time
        before, begun = tally_of(engine), clock()
        replies = await self._replies(engine, cell, dialogues, self._work.reply_tokens)
        block = Block(name, cell.kind, cell.concurrency, half, name, clock() - begun, tuple(replies))
        after = tally_of(engine)
        self.outcome.measured.append(
            Measured(cell, block, {key: value - before.get(key, 0.0) for key, value in after.items()})
        )

    async def _replies(
        self, engine: Engine, cell: Cell, dialogues: Sequence[Dialogue], tokens: int
    ) -> list[ReplyTrace]:
        def request(prompt: str, ids: tuple[int, ...]) -> GenerateRequest:
            seed = random.Random(f"{self._work.seed} {prompt}").getrandbits(31)
            sampling = Sampling(tokens, cell.temperature, seed=seed if cell.temperature else None)
            self._numbers += 1
            return GenerateRequest(f"speculation-{self._numbers}", ids, sampling)

        return await ask_dialogues(engine, dialogues, cell.concurrency, request)


def tally_of(engine: Engine) -> dict[str, float]:
    """What the engine's trees gave so far; empty for an engine without."""
    read_tally = getattr(engine, "tree_tally", None)
    found: dict[str, float] | None = read_tally() if read_tally is not None else None
    return found or {}
