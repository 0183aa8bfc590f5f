"""vLLM's model runner with trees: a handful of overrides around its own methods, the same on every device.

To vLLM a tree is a chain of drafts. After vLLM has prepared a step, its trees are noted and their rows get positions by
depth; attention is told of them; the sampler walks; and the keys and values of the path taken are moved to where a
chain's would be, in the same step, because the next step may already share that block with another request. How
attention is told and how keys and values are moved is the device's matter: `engine.tree.cpu_runner`,
`engine.tree.gpu.runner`.
"""

from functools import lru_cache
from typing import Any

import torch
from vllm.sampling_params import SamplingType
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from engine.tree.drafter import TreeDrafter
from engine.tree.sampler import TreeSampler
from engine.tree.selection import Chosen
from engine.tree.source import Candidate
from engine.tree.step import Step, describe
from engine.tree.stopwatch import now_s, timed
from engine.tree.topology import Topology


@lru_cache(maxsize=512)
def depths_of(topology: Topology, device: torch.device) -> torch.Tensor:
    """[nodes] distance of each node from the root."""
    return torch.tensor(topology.depths, dtype=torch.long, device=device)


class TreeRunner(GPUModelRunner):  # type: ignore[misc]
    """What runners with trees share.

    Attributes:
        tree_layers: vLLM's attention layers, in the order of the cache.
    """

    drafter: TreeDrafter
    tree_layers: list[Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rejection_sampler = TreeSampler(self.sampler, self.speculative_config, self.device)
        self._step: Step | None = None
        self._begin_s = 0.0
        self._drafted: dict[str, Chosen] = {}

    def initialize_kv_cache(self, kv_cache_config: Any, *args: Any, **kwargs: Any) -> None:
        """As vLLM's; then the layers of the cache are known."""
        super().initialize_kv_cache(kv_cache_config, *args, **kwargs)
        (group,) = kv_cache_config.kv_cache_groups
        self.tree_layers = [self.compilation_config.static_forward_context[name] for name in group.layer_names]

    def built_parts(self) -> dict[str, bool]:
        """What of the device's own parts must have been built, by name, and whether it was."""
        raise NotImplementedError

    def layout_is_known(self) -> bool:
        """Whether vLLM writes its cache as it is read here."""
        raise NotImplementedError

    def keep_paths(self, step: Step, paths: dict[int, list[int]]) -> int:
        """Put the keys and values of accepted rows, by row of the batch, where a chain's would be; how many had to move."""
        raise NotImplementedError

    def expect(self, request_id: str, chosen: Chosen) -> None:
        """Say of which tree a request's next drafts are the first nodes."""
        self._drafted[request_id] = chosen

    def execute_model(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM's; the step is timed from here until its drafts are made."""
        self._begin_s = now_s()
        return super().execute_model(*args, **kwargs)

    def _prepare_inputs(self, scheduler_output: Any, num_scheduled_tokens: Any) -> Any:
        # What was drafted before a preemption is gone; vLLM pads such a request's step with drafts that it makes up.
        for request_id in scheduler_output.scheduled_cached_reqs.resumed_req_ids:
            self._drafted.pop(request_id, None)
        # vLLM gives every token a cache slot by its place in the row, which is what a tree needs: one for every node.
        prepared = super()._prepare_inputs(scheduler_output, num_scheduled_tokens)
        batch, count = self.input_batch, self.input_batch.num_reqs
        self._step = step = describe(
            batch.req_ids,
            self.query_start_loc.np[: count + 1].tolist(),
            batch.num_computed_tokens_cpu[:count].tolist(),
            prepared[1].num_draft_tokens,
            # Drafts that vLLM makes up, to pad a step, are no tree of ours; they are never accepted.
            lambda request_id: self._chosen(request_id).tree,
        )
        for tree in step.trees.values():
            nodes = slice(tree.begin + 1, tree.end)
            torch.add(depths_of(tree.topology, self.device), tree.context, out=self.positions[nodes])
        return prepared

    def _chosen(self, request_id: str) -> Chosen:
        return self._drafted.get(request_id) or Chosen(self.drafter.topology)

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        step, tally = self._step, self.drafter.tally
        self.rejection_sampler.step = step
        if step is None or not step.trees:
            return super()._sample(logits, spec_decode_metadata)
        tally.add("tree_steps")
        tally.add("mixed_steps", bool(step.others()))
        with timed(tally, "walk_s"):
            output = super()._sample(logits, spec_decode_metadata)
        paths = self.rejection_sampler.paths
        with timed(tally, "commit_s"):
            tally.add("moves", self.keep_paths(step, paths))
        for row, path in paths.items():
            tree = step.trees[row]
            self.drafter.saw_tree(self._chosen(tree.request_id), tree.topology, path)
        return output

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        """Always: vLLM would stop drafting for all once one request nears the limit; the scheduler cuts per request."""
        return common_attn_metadata is not None

    def propose_draft_token_ids(
        self, scheduler_output: Any, sampled_token_ids: Any, sampling_metadata: Any, hidden_states: Any, *args: Any
    ) -> list[list[int]]:
        """Drafts for the next step, by row of the batch; an empty list for a request that gets none."""
        step, self._step = self._step, None
        if step is not None:
            self.drafter.saw_step(step, now_s() - self._begin_s)
        candidates = [] if step is None else self._candidates(step, sampled_token_ids)
        drafts = self.drafter.drafts(candidates, hidden_states, len(sampled_token_ids))
        self._drafted = {name: chosen for name, chosen in self._drafted.items() if name in self.requests}
        for candidate, chosen in zip(candidates, self.drafter.chosen, strict=True):
            self.expect(self.input_batch.req_ids[candidate.row], chosen)
        if step is not None and step.trees:
            self.drafter.tally.add("step_s", now_s() - self._begin_s)
        return drafts

    def _candidates(self, step: Step, sampled_token_ids: list[list[int]]) -> list[Candidate]:
        """The requests that go on and may have trees: a grammar would take a tree for a chain."""
        batch, candidates = self.input_batch, []
        for row, sampled in enumerate(sampled_token_ids):
            state = self.requests[batch.req_ids[row]]
            params = state.sampling_params
            if not sampled or params.structured_outputs is not None or _ends(params, state.output_token_ids, sampled):
                continue
            place = step.starts[row + 1] - 1
            if (tree := step.trees.get(row)) is not None:
                place = tree.begin + [0, *self.rejection_sampler.paths[row]][-1]
            known = batch.token_ids_cpu[row, : batch.num_tokens_no_spec[row]]
            candidates.append(Candidate(row, place, sampled[-1], known, params.sampling_type == SamplingType.GREEDY))
        return candidates


def _ends(params: Any, output: list[int], sampled: list[int]) -> bool:
    """Whether the scheduler is going to end a request with these tokens, as far as that is plain to see."""
    if params.max_tokens is not None and len(output) >= params.max_tokens:
        return True
    return not params.all_stop_token_ids.isdisjoint(sampled) and len(output) > params.min_tokens
