"""Scripted engines for the tests of `voicepace bench published`, and the flags of a small run."""

import argparse
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

from engine.api import Engine, EngineStartError, GenerateRequest, TokenBurst
from engine.bench import published
from engine.fake import Script, ScriptedEngine
from engine.options import EngineOptions

WORDS = " ".join(["word"] * 400)
MEBIBYTE = 2**20

# Plain: 1 token every 40 ms. N-gram, replies of 11 tokens: four gaps of 50 ms for 10 tokens, 20 ms a token.
SCRIPTS = {
    "none": Script(first_token_s=0.08, step_time_s=0.040),
    "ngram": Script(trace=((0.1, 1), (0.05, 2), (0.05, 4), (0.05, 3), (0.05, 1))),
    "draft_model": Script(first_token_s=0.2, step_time_s=0.080, burst_sizes=(2,)),
    "medusa": Script(first_token_s=0.1, step_time_s=0.050, burst_sizes=(2,)),
    "medusa_tree": Script(first_token_s=0.1, step_time_s=0.060, burst_sizes=(3,)),
}
DRAFT_STEPS = ((3, 1), (3, 3), (3, 2))


class DraftingEngine(ScriptedEngine):
    """Reports draft steps with its last burst, and insists that no other engine of the host is driven."""

    def __init__(self, host: "ScriptedHost", name: str) -> None:
        super().__init__(
            lambda request: host.reply(name, self.tokenizer.decode(request.prompt_token_ids)), host.scripts[name]
        )
        self.host = host
        self.name = name
        self.requests: list[GenerateRequest] = []
        self.most_running = 0

    async def start(self) -> None:
        if self.name in self.host.broken:
            raise EngineStartError(f"engine: no {self.name} here")
        self.host.started.append(self)
        self.host.most_resident = max(self.host.most_resident, len(self.host.started))
        await super().start()

    async def stop(self) -> None:
        if self in self.host.started:
            self.host.started.remove(self)
        await super().stop()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        assert not any(other.running for other in self.host.started if other is not self), "two engines driven at once"
        self.requests.append(request)
        async with aclosing(super().generate(request)) as bursts:
            async for burst in bursts:
                self.most_running = max(self.most_running, self.running)
                last = burst.finish_reason is not None and self.name != "none"
                if self.name in self.host.broken_off and burst.finish_reason is not None:
                    burst = replace(burst, finish_reason="error")
                yield replace(burst, draft_steps=DRAFT_STEPS) if last else burst


class ScriptedHost:
    """Implements `engine.bench.published_host.Host`."""

    def __init__(
        self,
        scripts: Mapping[str, Script] = SCRIPTS,
        broken: frozenset[str] = frozenset(),
        reply: Callable[[str, str], str] = lambda name, prompt: WORDS,
    ) -> None:
        self.scripts = scripts
        self.broken = broken
        self.reply = reply
        self.started: list[DraftingEngine] = []
        self.made: dict[str, DraftingEngine] = {}
        self.forgotten: list[str] = []
        self.broken_off: frozenset[str] = frozenset()
        self.most_resident = 0

    def make(self, options: EngineOptions) -> Engine:
        self.made[options.speculation] = DraftingEngine(self, options.speculation)
        return self.made[options.speculation]

    async def forget(self, engine: Engine) -> None:
        assert isinstance(engine, DraftingEngine)
        assert not engine.running
        self.forgotten.append(engine.name)

    def memory_bytes(self, engine: Engine) -> int | None:
        assert isinstance(engine, DraftingEngine)
        fresh = {"none": 500 * MEBIBYTE, "ngram": 520 * MEBIBYTE}.get(engine.name)
        # It grows with what the engine has done.
        return None if fresh is None else fresh + MEBIBYTE * len(engine.requests)


def flags(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    published.add_arguments(parser)
    return parser.parse_args(argv)
