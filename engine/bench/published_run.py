"""Drives the engines of `voicepace bench published`, one at a time.

By default plain decoding and one arm are resident together and take turns in blocks A B B A, so that a slow drift of
the machine falls on both alike. With one engine resident at a time nothing can take turns, and the result says so.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from engine.api import Engine, EngineDead, EngineError, EngineStartError, GenerateRequest, Sampling
from engine.bench.published_arms import PLAIN, Arm
from engine.bench.published_figures import Block, ReplyTrace
from engine.bench.published_host import Host
from engine.bench.published_prompts import DIALOGUES, Dialogue
from engine.options import EngineOptions
from engine.request_group import request_group


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run.

    Attributes:
        kinds: of prompts.
        concurrency: replies at a time; each of them is run.
        prompts: dialogues of each kind.
        reply_tokens: most tokens of a reply.
        rounds: A B B A blocks for every kind and concurrency.
        seed: of the order of the prompts and of the bootstrap.
        resident_pairs: whether plain decoding and an arm are resident together and take turns.
    """

    kinds: tuple[str, ...] = tuple(DIALOGUES)
    concurrency: tuple[int, ...] = (1, 2, 4, 8)
    prompts: int = 8
    reply_tokens: int = 64
    rounds: int = 1
    seed: int = 0
    resident_pairs: bool = True

    def __post_init__(self) -> None:
        if unknown := set(self.kinds) - set(DIALOGUES):
            raise ValueError(f"kinds: there is no {sorted(unknown)[0]}; there are {', '.join(DIALOGUES)}")
        if not self.kinds or not self.concurrency:
            raise ValueError("kinds and concurrency must name at least one each")
        if len(set(self.concurrency)) < len(self.concurrency) or min(self.concurrency) < 1:
            raise ValueError(f"concurrency must be different numbers of at least 1, got {self.concurrency}")
        most = min(len(DIALOGUES[kind]) for kind in self.kinds)
        if not max(self.concurrency) <= self.prompts <= most:
            raise ValueError(f"prompts must be at least the highest concurrency and at most {most}, got {self.prompts}")
        if min(self.reply_tokens, self.rounds) < 1:
            raise ValueError("reply_tokens and rounds must be at least 1")


@dataclass(slots=True)
class Outcome:
    """What a run yielded.

    Attributes:
        blocks: in the order in which they were run.
        memory_bytes: of each arm's core processes after equally many blocks: memory is taken up as the KV cache is
            gone through, and plain decoding goes on for all arms.
        not_run: reason by arm, for arms that were not run or not to the end.
    """

    blocks: list[Block] = field(default_factory=list)
    memory_bytes: dict[str, int] = field(default_factory=dict)
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
        self.outcome = Outcome()
        self._numbers = 0

    async def measure(self, arms: Sequence[Arm]) -> Outcome:
        """Runs plain decoding and every arm that can be run; an arm that fails does not end the others.

        Args:
            arms: plain decoding among them.

        Raises:
            EngineError: plain decoding fails: there is nothing to compare with.
        """
        plain = next(arm.options for arm in arms if arm.name == PLAIN)
        if plain is None:
            raise EngineStartError("the engine options for plain decoding are refused")
        others = [(arm.name, arm.options) for arm in arms if arm.name != PLAIN and arm.options is not None]
        self.outcome.not_run |= {arm.name: arm.reason for arm in arms if arm.options is None}
        self._announce(len(others))
        async with self._started(plain) as engine:
            if self._work.resident_pairs:
                await self._pairs(others, engine)
            if not any(block.arm == PLAIN for block in self.outcome.blocks):
                await self._alone(PLAIN, engine)
        if not self._work.resident_pairs:
            for name, options in others:
                with self._noted(name):
                    async with self._started(options) as other:
                        await self._alone(name, other)
        return self.outcome

    async def _pairs(self, others: Sequence[tuple[str, EngineOptions]], plain: Engine) -> None:
        for name, options in others:
            with self._noted(name):
                async with self._started(options) as other:
                    await self._in_turns(name, other, plain)
            if plain.dead:
                raise EngineDead(f"plain decoding: {self.outcome.not_run.get(name, 'the engine has gone')}")

    def interrupted(self, arms: Sequence[Arm]) -> Outcome:
        """What there is of a run that did not end by itself; arms without all their blocks are named."""
        for arm in arms:
            blocks = sum(block.arm == arm.name for block in self.outcome.blocks)
            if arm.name != PLAIN and blocks < 2 * self._work.rounds * len(list(self._cells())):
                self.outcome.not_run.setdefault(arm.name, "interrupted")
        return self.outcome

    def _announce(self, others: int) -> None:
        engines = 2 * others if others and self._work.resident_pairs else 1 + others
        cells = len(self._work.kinds) * len(self._work.concurrency)
        self._progress(f"{engines * cells * 2 * self._work.rounds} blocks of {self._work.prompts} dialogues")

    @asynccontextmanager
    async def _started(self, options: EngineOptions) -> AsyncIterator[Engine]:
        self._progress(f"starting: {options.speculation}")
        engine = self._host.make(options)
        try:
            await engine.start()
            await self._warm_up(engine)
            yield engine
        finally:
            await engine.stop()

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """What an arm's engine raises is its reason, and the next arm goes on."""
        try:
            yield
        except EngineError as error:
            self.outcome.not_run[name] = str(error)

    async def _warm_up(self, engine: Engine) -> None:
        """As many requests at a time as there will be, not counted."""
        most = max(self._work.concurrency)
        await self._replies(engine, DIALOGUES[self._work.kinds[0]][:most], most, 4)

    async def _alone(self, name: str, engine: Engine) -> None:
        for kind, concurrency in self._cells():
            for pair in range(2 * self._work.rounds):
                await self._block(name, engine, kind, concurrency, pair, PLAIN)
        self._remember_memory(name, engine)

    async def _in_turns(self, name: str, other: Engine, plain: Engine) -> None:
        for kind, concurrency in self._cells():
            for pair in range(2 * self._work.rounds):
                order = [(PLAIN, plain), (name, other)]
                for arm, engine in order if pair % 2 == 0 else reversed(order):
                    await self._block(arm, engine, kind, concurrency, pair, name)
        self._remember_memory(name, other)
        if PLAIN not in self.outcome.memory_bytes:
            self._remember_memory(PLAIN, plain)

    def _cells(self) -> Iterator[tuple[str, int]]:
        for kind in self._work.kinds:
            for concurrency in self._work.concurrency:
                yield kind, concurrency

    def _remember_memory(self, name: str, engine: Engine) -> None:
        used = self._host.memory_bytes(engine)
        if used is not None:
            self.outcome.memory_bytes[name] = used

    async def _block(self, arm: str, engine: Engine, kind: str, concurrency: int, pair: int, group: str) -> None:
        """All prompts of a kind, `concurrency` dialogues at a time, in an order that both arms of a pair share."""
        self._progress(f"block {len(self.outcome.blocks) + 1}: {kind}, {concurrency} at a time, {arm}")
        await self._host.forget(engine)
        dialogues = list(DIALOGUES[kind][: self._work.prompts])
        random.Random(f"{self._work.seed} {kind} {concurrency} {pair}").shuffle(dialogues)
        clock = asyncio.get_running_loop().time
        begun = clock()
        replies = await self._replies(engine, dialogues, concurrency, self._work.reply_tokens)
        wall_s = clock() - begun
        self.outcome.blocks.append(Block(arm, kind, concurrency, pair, group, wall_s, tuple(replies)))

    async def _replies(
        self, engine: Engine, dialogues: Sequence[Dialogue], concurrency: int, tokens: int
    ) -> list[ReplyTrace]:
        def request(prompt: str, ids: tuple[int, ...]) -> GenerateRequest:
            self._numbers += 1
            return GenerateRequest(f"published-{self._numbers}", ids, Sampling(max_tokens=tokens, temperature=0.0))

        return await ask_dialogues(engine, dialogues, concurrency, request)


async def ask_dialogues(
    engine: Engine,
    dialogues: Sequence[Dialogue],
    concurrency: int,
    request: Callable[[str, tuple[int, ...]], GenerateRequest],
) -> list[ReplyTrace]:
    """`concurrency` callers share the dialogues: each takes the next one when it has finished the last.

    Args:
        engine: started.
        dialogues: each turn of each is asked once.
        concurrency: replies at a time.
        request: what to send for the name and the token ids of a prompt.

    Raises:
        EngineError: as the engine raises it, or a reply was broken off.
    """
    waiting, replies = iter(dialogues), list[ReplyTrace]()

    async def caller() -> None:
        for dialogue in waiting:
            for turn, messages in enumerate(dialogue.turns, start=1):
                name = f"{dialogue.name}.{turn}"
                ids = engine.tokenizer.encode(engine.tokenizer.render(messages, add_generation_prompt=True))
                replies.append(await read(engine, request(name, tuple(ids)), name))

    async with request_group() as group:
        for number in range(concurrency):
            group.create_task(caller(), name=f"caller {number}")
    return replies


async def read(engine: Engine, request: GenerateRequest, prompt: str) -> ReplyTrace:
    """One reply to its end.

    Raises:
        EngineError: as the engine raises it, or the reply was broken off.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    ttft_s: float | None = None
    bursts, pieces = list[tuple[float, int]](), list[str]()
    drafts: tuple[tuple[int, int], ...] = ()
    cached = 0
    async with aclosing(engine.generate(request)) as stream:
        async for burst in stream:
            pieces += burst.pieces
            drafts = burst.draft_steps or drafts
            cached = max(cached, burst.cached_tokens)
            if burst.finish_reason in ("abort", "error"):
                raise EngineError(f"a reply was broken off ({burst.finish_reason})")
            if burst.token_ids:
                ttft_s = clock() - begun if ttft_s is None else ttft_s
                bursts.append((burst.core_time_s, len(burst.token_ids)))
    return ReplyTrace(prompt, ttft_s, tuple(bursts), drafts, "".join(pieces), len(request.prompt_token_ids), cached)
