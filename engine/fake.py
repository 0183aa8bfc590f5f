"""A scripted engine: the contract of `engine.api` without a model, for tests and for load tests of the gateway alone.

It says a given text at given times. All waiting is `asyncio` on the running loop's clock, so a loop with virtual time
runs it in no time, and `core_time_s` is the scripted time of the step, not the moment the loop woke.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

from engine.api import EngineDead, FinishReason, GenerateRequest, RequestRefused, TokenBurst
from engine.fake_tokenizer import WordTokenizer
from engine.pieces import Pieces, window_decoder

REPLY = "Sure, I can help you with that. Could you tell me a little more about what you need today?"


@dataclass(frozen=True, slots=True)
class Script:
    """When bursts come and how large they are.

    Attributes:
        trace: (delay_s, n_tokens) per step, in order; after its end `step_time_s` and `burst_sizes` go on. The first
        delay
            counts from the call of `generate`.
        first_token_s: delay of the first step where `trace` does not give it.
        step_time_s: delay of every further step.
        burst_sizes: a step's size is drawn from these with equal chance; (1,) is plain decoding.
        seed: of those draws; every request starts afresh, so that equal requests run equally.
        die_after_bursts: the engine dies when any request has had this many bursts.
        stall_after_bursts: a request hangs for ever after this many bursts.
    """

    trace: tuple[tuple[float, int], ...] = ()
    first_token_s: float = 0.08
    step_time_s: float = 0.045
    burst_sizes: tuple[int, ...] = (1,)
    seed: int = 0
    die_after_bursts: int | None = None
    stall_after_bursts: int | None = None

    def steps(self) -> Iterator[tuple[float, int]]:
        """(delay_s, n_tokens) without end."""
        draw = random.Random(self.seed)
        yield from self.trace
        if not self.trace:
            yield self.first_token_s, draw.choice(self.burst_sizes)
        while True:
            yield self.step_time_s, draw.choice(self.burst_sizes)


class ScriptedEngine:
    """Implements `engine.api.Engine`.

    Args:
        reply: what every request gets, or a function of the request.
        script: the times.
        model_name: as clients see it.
        max_model_len: prompt and reply together.
        drafted: what bursts report as drafted tokens.
    """

    def __init__(
        self,
        reply: str | Callable[[GenerateRequest], str] = REPLY,
        script: Script | None = None,
        *,
        model_name: str = "scripted",
        max_model_len: int = 4096,
        drafted: int | None = None,
    ) -> None:
        self._reply = reply
        self._script = script or Script()
        self._drafted = drafted
        self._tokenizer = WordTokenizer()
        self._running: set[str] = set()
        self._death: asyncio.Event | None = None
        self._model_name = model_name
        self._max_model_len = max_model_len

    @property
    def model_name(self) -> str:
        """The name clients use."""
        return self._model_name

    @property
    def max_model_len(self) -> int:
        """Prompt and reply together."""
        return self._max_model_len

    @property
    def tokenizer(self) -> WordTokenizer:
        """Usable at any time."""
        return self._tokenizer

    @property
    def running(self) -> int:
        """Requests being generated."""
        return len(self._running)

    @property
    def dead(self) -> bool:
        """True after `kill` or a scripted death, until the next `start`."""
        return self._death is not None and self._death.is_set()

    async def start(self) -> None:
        """Be ready; also after death or `stop`."""
        self._death = asyncio.Event()

    async def stop(self) -> None:
        """End every request."""
        self.kill()

    def kill(self) -> None:
        """Die now: every running request raises `EngineDead`."""
        if self._death is not None:
            self._death.set()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        """The scripted reply, one burst a step; closing the iterator ends the request."""
        script = self._script
        death = self._admit(request)
        self._running.add(request.request_id)
        try:
            for count, burst in enumerate(self._bursts(request, asyncio.get_running_loop().time())):
                stalled = script.stall_after_bursts is not None and count >= script.stall_after_bursts
                await _until(None if stalled else burst.core_time_s, death)
                if count == script.die_after_bursts:
                    self.kill()
                    raise EngineDead("the scripted engine has died")
                yield burst
        finally:
            self._running.discard(request.request_id)

    def _admit(self, request: GenerateRequest) -> asyncio.Event:
        if self._death is None or self._death.is_set():
            raise EngineDead("the scripted engine is not running")
        if request.request_id in self._running:
            raise RequestRefused("request_id", "is already running")
        if not request.prompt_token_ids:
            raise RequestRefused("prompt", "is empty")
        if len(request.prompt_token_ids) >= self._max_model_len:
            raise RequestRefused(
                "prompt", f"{len(request.prompt_token_ids)} tokens leave no room in {self._max_model_len}"
            )
        return self._death

    def _bursts(self, request: GenerateRequest, started_s: float) -> Iterator[TokenBurst]:
        """The whole reply; each burst's `core_time_s` is when it is due."""
        ids, finish_reason = self._planned_ids(request)
        pieces = Pieces(window_decoder(self._tokenizer))
        position, due_s, text = 0, started_s, ""
        for delay_s, n_tokens in self._script.steps():
            due_s += delay_s
            chunk = ids[position : position + max(1, n_tokens)]
            position += len(chunk)
            done = position >= len(ids)
            text_before, text = text, self._tokenizer.decode(ids[:position]).rstrip("\ufffd")
            yield TokenBurst(
                token_ids=tuple(chunk),
                pieces=pieces.split(chunk, text[len(text_before) :]),
                core_time_s=due_s,
                drafted=self._drafted,
                finish_reason=finish_reason if done else None,
                prompt_tokens=len(request.prompt_token_ids),
            )
            if done:
                return

    def _planned_ids(self, request: GenerateRequest) -> tuple[list[int], FinishReason]:
        """Ids of the whole reply under `stop` and `max_tokens`, and why it ends."""
        text = self._reply if isinstance(self._reply, str) else self._reply(request)
        ends = [end for end in (text.find(stop) for stop in request.sampling.stop if stop) if end >= 0]
        ids = [*self._tokenizer.encode(text[: min(ends, default=len(text))]), self._tokenizer.end_token_id]
        room = min(request.sampling.max_tokens, self._max_model_len - len(request.prompt_token_ids))
        return (ids, "stop") if len(ids) <= room else (ids[:room], "length")


async def _until(due_s: float | None, death: asyncio.Event) -> None:
    """Return at `due_s` (None: never) or raise `EngineDead` when the engine dies before."""
    try:
        async with asyncio.timeout_at(due_s):
            await death.wait()
    except TimeoutError:
        return
    raise EngineDead("the scripted engine has died")
