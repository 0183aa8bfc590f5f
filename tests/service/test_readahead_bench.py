"""The benchmark of reading ahead, on an engine that caches as the real one does: in whole blocks, prompt by prompt."""

import asyncio
from collections.abc import AsyncGenerator

from engine.api import GenerateRequest, TokenBurst
from engine.fake_tokenizer import WordTokenizer
from service.readahead_bench import WAYS, measure, table
from tests.virtual_time import run_virtual

BLOCK = 16
STEP_S = 0.04
TOKEN_S = 0.002


class CachingEngine:
    """Reads a prompt's uncached tokens at a set rate, then says the same word over and over."""

    model_name = "caching"
    max_model_len = 4096
    running = 0
    dead = False

    def __init__(self) -> None:
        self.tokenizer = WordTokenizer()
        self._blocks: set[tuple[int, ...]] = set()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        prompt = request.prompt_token_ids
        ends = range(BLOCK, len(prompt) + 1, BLOCK)
        cached = max((end for end in ends if prompt[:end] in self._blocks and end < len(prompt)), default=0)
        await asyncio.sleep((len(prompt) - cached) * TOKEN_S)
        self._blocks.update(prompt[:end] for end in ends)
        word = self.tokenizer.encode(" yes")[0]
        for _ in range(request.sampling.max_tokens):
            yield TokenBurst((word,), (" yes",), 0.0, prompt_tokens=len(prompt), cached_tokens=cached)
            await asyncio.sleep(STEP_S)


def test_what_was_read_ahead_is_found_cached_and_costs_engine_time() -> None:
    document = run_virtual(measure(CachingEngine(), (200,), (5, 40), rounds=1, seed=1))  # type: ignore[arg-type]
    cells = {(row["barge_in"], row["words"], row["way"]): row for row in document["cells"]}
    assert len(cells) == 2 * 2 * len(WAYS)
    for barge_in in (False, True):
        off, ahead = cells[barge_in, 40, "off"], cells[barge_in, 40, "ahead"]
        assert off["prompt_tokens"] == ahead["prompt_tokens"]
        assert ahead["cached_tokens"] >= off["cached_tokens"] + 32
        assert ahead["ttft_ms"] <= off["ttft_ms"] - 32 * TOKEN_S * 1e3 + 0.1
        assert off["read_ms"] == 0.0
        assert ahead["read_ms"] > 0.0
    assert document["mean_gain_ms"]["ahead"] > 0
    assert document["mean_off_ms"] > 0
    assert len(table(document).splitlines()) == 5
