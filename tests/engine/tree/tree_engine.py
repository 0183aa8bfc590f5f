"""What tests of trees in the real engine share: a tiny random model, requests, and replies with what they counted."""

import asyncio
import itertools
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY

from engine.options import EngineOptions
from engine.vllm_engine import VllmEngine
from tests.real_engine import cpu_demo

_numbers = itertools.count()
_TINY = {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 192}
_TINY_HEADS = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32}


def make_tiny_model(folder: Path, like: Path) -> Path:
    """A random Llama with the vocabulary and the tokenizer of the model in `like`; a step takes a few milliseconds."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(like / name, folder)
    config = json.loads((like / "config.json").read_text()) | _TINY | _TINY_HEADS
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(0)

    def weights(*shape: int, scale: float) -> Any:
        return torch.randn(*shape, generator=generator) * scale

    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries, keys = 6 * 32, 2 * 32
    tensors = {
        "model.embed_tokens.weight": weights(config["vocab_size"], hidden, scale=1.0),
        "model.norm.weight": torch.ones(hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        for name, shape in {
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = weights(*shape, scale=0.25)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = torch.ones(hidden)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def tree_options(oracle: Path, **changes: object) -> EngineOptions:
    """Trees from the oracle, prompts in chunks of at most 160 tokens, and room for eight short requests."""
    settings = {
        "speculation": "medusa_tree",
        "heads": f"oracle:{oracle}",
        "tree_follows_load": False,
        "tree_lookup": False,
    }
    settings |= {"max_model_len": 512}
    return cpu_demo(**settings | {"max_num_batched_tokens": 160, "dtype": "float32", "cpu_threads": 1} | changes)


@dataclass(slots=True)
class Answer:
    """One reply.

    Attributes:
        prompt: token ids.
        token_ids: of the reply.
        text: of the reply.
        logprobs: by token: those asked for, by token id.
        cached: prompt tokens from the prefix cache.
    """

    prompt: list[int]
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[dict[int, float]] = field(default_factory=list)
    cached: int = 0


@dataclass(slots=True)
class TreeLab:
    """An engine with an oracle, asked once without its knowledge and once with it."""

    engine: VllmEngine
    oracle: Path

    def know(self, answers: Sequence[Answer], **more: object) -> None:
        """From now on the oracle drafts towards these replies; without any it drafts nothing."""
        replies = [answer.prompt + answer.token_ids for answer in answers]
        self.oracle.write_text(json.dumps({"replies": replies, **more}))

    async def ask(self, prompt: Sequence[int], **sampling: Any) -> Answer:
        """One reply; `sampling` as vLLM's own parameters."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        answer = Answer(list(prompt))
        parameters = SamplingParams(output_kind=RequestOutputKind.DELTA, **({"max_tokens": 40} | sampling))
        name = f"lab-{next(_numbers)}"
        async for output in self.engine.client.generate({"prompt_token_ids": answer.prompt}, parameters, name):
            (part,) = output.outputs
            answer.token_ids += part.token_ids
            answer.text += part.text
            answer.cached = output.num_cached_tokens or 0
            answer.logprobs += [{key: entry.logprob for key, entry in at.items()} for at in part.logprobs or ()]
        return answer

    async def ask_all(self, prompts: Sequence[Sequence[int]], samplings: Sequence[dict[str, Any]]) -> list[Answer]:
        """Replies that are generated at the same time."""
        pairs = zip(prompts, samplings, strict=True)
        return list(await asyncio.gather(*(self.ask(prompt, **sampling) for prompt, sampling in pairs)))

    async def forget(self) -> None:
        """Empty the prefix cache."""
        async with asyncio.timeout(30):
            while not await self.engine.client.reset_prefix_cache():
                pass

    def tally(self) -> dict[str, float]:
        """See `engine.tree.tally`."""
        tally = self.engine.tree_tally()
        assert tally is not None
        return tally

    def preemptions(self) -> float:
        """So far, as vLLM counts them."""
        name = "vllm:num_preemptions"
        return sum(
            sample.value
            for metric in REGISTRY.collect()
            if metric.name == name
            for sample in metric.samples
            if sample.name == f"{name}_total"
        )
