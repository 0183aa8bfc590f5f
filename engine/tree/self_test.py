"""Looks at the engine that was built, before it serves: is it put together as trees need it, and are trees exact in it?

The last check runs the loaded model: a few tokens plainly, then the same tokens as a tree on a path that is not the
principal one, and once more behind it, on the keys and values that were moved. It compares logits, which no near-tie of
two tokens can upset.
"""

from dataclasses import dataclass
from typing import Any

import torch

from engine.tree.hooks import TreeUnfit
from engine.tree.sampler import TreeSampler
from engine.tree.selection import Chosen
from engine.tree.topology import Topology

# Largest difference of two logits that rounding can explain, by type.
_TOLERANCE = {torch.float32: 0.02, torch.float16: 0.5, torch.bfloat16: 2.0}
_PROMPT_TOKENS = 41


def run(runner: Any) -> None:
    """Check a runner whose model and cache are there and which has no request.

    Raises:
        TreeUnfit: naming the check that failed.
    """
    _check_parts(runner)
    if not runner.layout_is_known():
        raise TreeUnfit("cache layout", "what vLLM writes is not read back")
    _check_exactness(runner)


def _check_parts(runner: Any) -> None:
    layers = runner.tree_layers
    groups = runner.kv_cache_config.kv_cache_groups
    parallel = runner.parallel_config
    for what, right in {
        "model runner": not runner.vllm_config.use_v2_model_runner,
        "scheduling": not runner.use_async_scheduling,
        "sampler": type(runner.rejection_sampler) is TreeSampler,
        **runner.built_parts(),
        "cache groups": len(groups) == 1 and type(groups[0].kv_cache_spec).__name__ == "FullAttentionSpec",
        "cache type": runner.cache_config.cache_dtype in ("auto", str(runner.dtype).removeprefix("torch.")),
        "parallel engines": parallel.world_size == 1,
        "positions": not runner.uses_mrope,
        "adapters": not runner.lora_config,
        "score changes": all(_plain_scores(layer.impl) for layer in layers),
    }.items():
        if not right:
            raise TreeUnfit(what, "this model or these settings are not among what trees can do")


def _plain_scores(impl: Any) -> bool:
    """Whether attention is softmax over the scaled scores and nothing else."""
    return (
        impl.sliding_window in (-1, (-1, -1))
        and impl.alibi_slopes is None
        and not impl.logits_soft_cap
        and impl.sinks is None
    )


@dataclass(slots=True)
class _Request:
    """A request driven by hand: greedy, alone in the batch, in blocks of its own."""

    runner: Any
    name: str
    blocks: list[int]
    prompt: list[int]
    computed: int = 0
    given: int = 0

    def begin(self) -> torch.Tensor:
        """Read the prompt; returns the logits after it."""
        from vllm import SamplingParams
        from vllm.v1.core.sched.output import NewRequestData

        new = NewRequestData(
            req_id=self.name,
            prompt_token_ids=self.prompt,
            mm_features=[],
            sampling_params=SamplingParams(temperature=0.0),
            pooling_params=None,
            block_ids=(self.blocks,),
            num_computed_tokens=0,
            lora_request=None,
        )
        return self._run(len(self.prompt), [], new)

    def go_on(self, drafts: list[int]) -> torch.Tensor:
        """One step with these drafts, nodes of the whole tree; returns [1 + drafts, vocabulary] logits."""
        self.runner.expect(self.name, Chosen(self.runner.drafter.topology))
        return self._run(1 + len(drafts), drafts, None)

    def end(self) -> None:
        """Leave the batch."""
        from vllm.v1.core.sched.output import SchedulerOutput

        output = SchedulerOutput.make_empty()
        output.finished_req_ids = {self.name}
        self.runner.execute_model(output)

    def _run(self, tokens: int, drafts: list[int], new: Any) -> torch.Tensor:
        from vllm.v1.core.sched.output import SchedulerOutput

        output = SchedulerOutput.make_empty()
        output.num_scheduled_tokens = {self.name: tokens}
        output.total_num_scheduled_tokens = tokens
        if new is not None:
            output.scheduled_new_reqs = [new]
        else:
            cached = output.scheduled_cached_reqs
            cached.req_ids, cached.new_token_ids, cached.new_block_ids = [self.name], [], [None]
            cached.num_computed_tokens, cached.num_output_tokens = [self.computed], [self.given]
        if drafts:
            output.scheduled_spec_decode_tokens = {self.name: drafts}
        self.runner.execute_model(output)
        logits: torch.Tensor = self.runner.execute_model_state.logits.float().clone()
        given = len(self.runner.sample_tokens(None).sampled_token_ids[0])
        self.computed += tokens - len(drafts) + given - 1
        self.given += given
        return logits


def _check_exactness(runner: Any) -> None:
    topology: Topology = runner.drafter.topology
    path = max(topology.lineages, key=lambda rows: (len(rows), rows))[1:]
    block = runner.cache_config.block_size
    count = -(-(_PROMPT_TOKENS + 2 * topology.nodes + 4) // block)
    size = runner.model_config.get_vocab_size()
    prompt = [(7 * index * index + 11) % (size - 1) + 1 for index in range(_PROMPT_TOKENS)]
    plain = _Request(runner, "self-test-plain", list(range(1, count + 1)), prompt)
    tree = _Request(runner, "self-test-tree", list(range(count + 1, 2 * count + 1)), prompt)
    # Plainly: one token after the other.
    after = [plain.begin()[-1]]
    for _ in range(2 * len(path) + 1):
        after.append(plain.go_on([])[0])
    plain.end()
    truth = [int(logits.argmax()) for logits in after]
    # The same as trees: the true tokens on one path, other tokens everywhere else.
    tolerance = _TOLERANCE.get(runner.dtype, 0.0)
    _compare(tree.begin()[-1], after[0], tolerance)
    step = 1
    while step + len(path) < len(truth):
        drafts = [(truth[step] + row) % (size - 1) + 1 for row in range(1, topology.nodes + 1)]
        for depth, row in enumerate(path):
            drafts[row - 1] = truth[step + depth]
        before = tree.computed
        logits = tree.go_on(drafts)
        for depth, row in enumerate((0, *path)):
            _compare(logits[row], after[step + depth], tolerance)
        if tree.computed - before != len(path) + 1:
            # Two tokens too near to tell apart in a coarse type; what was compared so far is right.
            if runner.dtype is torch.float32:
                raise TreeUnfit("exactness", "a path of the model's own tokens was not accepted")
            break
        step += len(path) + 1
    tree.end()


def _compare(logits: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    difference = float((logits - expected).abs().max())
    if not difference <= tolerance:
        raise TreeUnfit("exactness", f"logits in a tree differ from plain ones by {difference:.3g}")
