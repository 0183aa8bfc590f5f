"""Proofs against an engine of vLLM's own, on the embedded model, and what runs where trees cannot."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import embedded_model
from engine.vllm_engine import VllmEngine
from tests.engine.tree.test_exact import GREEDY, SUBJECTS
from tests.engine.tree.tree_engine import Answer, TreeLab, make_tiny_model, tree_options
from tests.real_engine import cpu_demo

pytestmark = [pytest.mark.engine, pytest.mark.prove, pytest.mark.anyio, pytest.mark.timeout(3000)]

TOPICS = ("a train to the coast", "the price of bread", "how bees find flowers")
SAMPLINGS: list[dict[str, Any]] = [
    GREEDY,
    {"temperature": 1.0, "seed": 5},
    {"temperature": 0.7, "top_p": 0.9, "seed": 6},
]


@asynccontextmanager
async def running(options: Any, cache: Path, oracle: Path) -> AsyncIterator[TreeLab]:
    lab = TreeLab(VllmEngine(options, cache), oracle)
    await lab.engine.start()
    try:
        yield lab
    finally:
        await lab.engine.stop()


async def replies(lab: TreeLab, batch: int, sampling: dict[str, Any]) -> list[Answer]:
    """24 prompts of different lengths, `batch` at a time."""
    texts = [
        f"{subject} {topic}. " * (1 + 3 * (index % 5))
        for index, (subject, topic) in enumerate(itertools.product(SUBJECTS, TOPICS))
    ]
    prompts = [lab.engine.tokenizer.encode(text) for text in texts]
    answers: list[Answer] = []
    for begin in range(0, len(prompts), batch):
        part = prompts[begin : begin + batch]
        answers += await lab.ask_all(part, [sampling] * len(part))
    return answers


@pytest.mark.filterwarnings("ignore")
async def test_24_prompts_are_answered_as_by_plain_vllm(model_cache_dir: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dtype": "float32", "max_model_len": 512, "max_num_batched_tokens": 160}
    async with running(cpu_demo(**settings), model_cache_dir, tmp_path / "unused") as plain:
        expected = {
            (batch, index): await replies(plain, batch, sampling)
            for batch in (1, 8)
            for index, sampling in enumerate(SAMPLINGS)
        }
    oracle = tmp_path / "oracle.json"
    oracle.write_text(json.dumps({"replies": []}))
    options = tree_options(oracle, cpu_threads=None)
    async with running(options, model_cache_dir, oracle) as lab:
        for (batch, index), answers in expected.items():
            lab.know(answers)
            before = lab.tally()
            got = await replies(lab, batch, SAMPLINGS[index])
            differ = [
                number
                for number, (one, other) in enumerate(zip(answers, got, strict=True))
                if one.token_ids != other.token_ids
            ]
            assert differ == []
            after = lab.tally()
            assert after["side_paths"] > before["side_paths"] + 24
            if batch == 8:
                assert after["mixed_steps"] > before["mixed_steps"]


@pytest.mark.filterwarnings("ignore")
async def test_in_bfloat16_replies_differ_only_where_two_tokens_are_nearly_as_likely(
    model_cache_dir: Path, tmp_path: Path
) -> None:
    oracle = tmp_path / "oracle.json"
    oracle.write_text(json.dumps({"replies": []}))
    sampling = GREEDY | {"logprobs": 2, "max_tokens": 32}
    async with running(tree_options(oracle, dtype="bfloat16"), model_cache_dir, oracle) as lab:
        alone, together = await replies(lab, 1, sampling), await replies(lab, 8, sampling)
        lab.know(alone)
        trees = await replies(lab, 8, sampling)
    plain_rate = sum(one.token_ids != other.token_ids for one, other in zip(alone, together, strict=True))
    tree_rate = 0
    for one, other in zip(alone, trees, strict=True):
        pairs = enumerate(zip(one.token_ids, other.token_ids, strict=False))
        first = next((at for at, (a, b) in pairs if a != b), None)
        if first is not None:
            tree_rate += 1
            best, second = sorted(one.logprobs[first].values(), reverse=True)[:2]
            assert best - second < 0.5
    print(f"of 24 replies in bfloat16 {plain_rate} differ between batches of 1 and 8, {tree_rate} with trees")


@pytest.mark.filterwarnings("ignore")
async def test_a_model_that_trees_cannot_do_runs_without_them(
    model_cache_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_tiny_model(tmp_path / "model", embedded_model.ready(model_cache_dir, lambda line: None))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 64}
    (folder / "config.json").write_text(json.dumps(config))
    oracle = tmp_path / "oracle.json"
    oracle.write_text(json.dumps({"replies": []}))
    async with running(tree_options(oracle, model=str(folder)), model_cache_dir, oracle) as lab:
        fallback = lab.engine.fallback
        assert fallback is not None
        assert fallback.instead == "none"
        assert "trees can do" in fallback.reason
        assert lab.engine.tree_tally() is None
        answer = await lab.ask([5, 6, 7], **GREEDY | {"max_tokens": 4})
        assert len(answer.token_ids) == 4
    assert any(record.levelname == "ERROR" and fallback.reason in record.message for record in caplog.records)
