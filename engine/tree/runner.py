"""vLLM's model runner with trees: a handful of overrides around its own methods.

To vLLM a tree is a chain of drafts. After vLLM has prepared a step, its trees are noted and their rows get positions by
depth; attention is told of them; the sampler walks; and the keys and values of the path taken are moved to where a
chain's would be, in the same step, because the next step may already share that block with another request.
"""

from functools import lru_cache
from typing import Any

import torch

from engine.cpu_worker import SeedSafeCPUModelRunner
from engine.tree.attention import StepTrees, View, metadata_of
from engine.tree.drafter import Candidate, TreeDrafter
from engine.tree.mirror import Mirrors
from engine.tree.pages import Pages
from engine.tree.sampler import TreeSampler
from engine.tree.step import Step, Tree, describe
from engine.tree.stopwatch import now_s, timed
from engine.tree.topology import Topology


@lru_cache(maxsize=64)
def depths_of(topology: Topology) -> torch.Tensor:
    """[nodes] distance of each node from the root."""
    return torch.tensor(topology.depths)


class TreeCPUModelRunner(SeedSafeCPUModelRunner):
    """The runner of `engine.tree.worker.TreeCPUWorker`."""

    drafter: TreeDrafter

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rejection_sampler = TreeSampler(self.sampler, self.speculative_config, self.device)
        self._step: Step | None = None
        self._trees: StepTrees | None = None
        self._begin_s = 0.0
        self._drafted: dict[str, Topology] = {}

    def initialize_kv_cache(self, kv_cache_config: Any, *args: Any, **kwargs: Any) -> None:
        """As vLLM's; then the layers of the cache are known."""
        super().initialize_kv_cache(kv_cache_config, *args, **kwargs)
        (group,) = kv_cache_config.kv_cache_groups
        self.tree_layers = [self.compilation_config.static_forward_context[name] for name in group.layer_names]
        for index, layer in enumerate(self.tree_layers):
            layer.impl.layer_index = index
        self._query_heads = self.tree_layers[0].impl.num_heads
        self._pages = Pages([layer.kv_cache for layer in self.tree_layers])
        self._mirrors = Mirrors(self._pages)

    def expect(self, request_id: str, tree: Topology) -> None:
        """Say of which tree a request's next drafts are the first nodes."""
        self._drafted[request_id] = tree

    def execute_model(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM's; the step is timed from here until its drafts are made."""
        self._begin_s = now_s()
        return super().execute_model(*args, **kwargs)

    def _update_states(self, scheduler_output: Any) -> Any:
        # What is not in this step has ended or may lose its pages; what has lost them comes back as resumed.
        self._mirrors.keep(scheduler_output.num_scheduled_tokens)
        self._mirrors.drop(scheduler_output.scheduled_cached_reqs.resumed_req_ids)
        self.drafter.tally.set("mirrors", len(self._mirrors))
        return super()._update_states(scheduler_output)

    def _prepare_inputs(self, scheduler_output: Any, num_scheduled_tokens: Any) -> Any:
        # vLLM gives every token a cache slot by its place in the row, which is what a tree needs: one for every node.
        prepared = super()._prepare_inputs(scheduler_output, num_scheduled_tokens)
        batch, count = self.input_batch, self.input_batch.num_reqs
        self._step = step = describe(
            batch.req_ids,
            self.query_start_loc.np[: count + 1].tolist(),
            batch.num_computed_tokens_cpu[:count].tolist(),
            prepared[1].num_draft_tokens,
            # Drafts that vLLM makes up, to pad a step, are no tree of ours; they are never accepted.
            lambda request_id: self._drafted.get(request_id, self.drafter.topology),
        )
        for tree in step.trees.values():
            nodes = slice(tree.begin + 1, tree.end)
            torch.add(depths_of(tree.topology), tree.context, out=self.positions[nodes])
        return prepared

    def _build_attention_metadata(self, *args: Any, **kwargs: Any) -> Any:
        built = super()._build_attention_metadata(*args, **kwargs)
        if self._step is None or not self._step.trees:
            return built
        (metadata,) = {id(layer): layer for layer in built[0].values()}.values()
        self._trees = metadata.trees = self._build_trees(self._step, built[1])
        return built

    def _build_trees(self, step: Step, common: Any) -> StepTrees:
        views = []
        for tree in step.trees.values():
            mirror = self._mirrors.of(tree.request_id)
            mirror.fill(tree.context, self._blocks(tree.row), tree.rows)
            views.append(View(tree, mirror, self._query_heads, self.max_model_len))
        others = step.others()
        builder = self.attn_groups[0][0].get_metadata_builder(0)
        return StepTrees(views, metadata_of(builder, common, others) if others else None)

    def _blocks(self, row: int) -> Any:
        return self.input_batch.block_table[0].block_table.np[row]

    def _model_forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._trees is None:
            return super()._model_forward(*args, **kwargs)
        with timed(self.drafter.tally, "forward_s"):
            output = super()._model_forward(*args, **kwargs)
        self.drafter.tally.add("attention_s", self._trees.seconds)
        self._trees = None
        return output

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        step, tally = self._step, self.drafter.tally
        self.rejection_sampler.step = step
        if step is None or not step.trees:
            return super()._sample(logits, spec_decode_metadata)
        tally.add("tree_steps")
        tally.add("mixed_steps", bool(step.others()))
        with timed(tally, "walk_s"):
            output = super()._sample(logits, spec_decode_metadata)
        with timed(tally, "commit_s"):
            for row, path in self.rejection_sampler.paths.items():
                self._commit(step.trees[row], path)
        return output

    def _commit(self, tree: Tree, path: list[int]) -> None:
        tally, mirror = self.drafter.tally, self._mirrors.of(tree.request_id)
        moved = mirror.commit(path)
        if moved is not None:
            self._pages.write(mirror.store, *moved, self._pages.slots(self._blocks(tree.row), *moved))
        if self.drafter.policy is not None:
            self.drafter.policy.saw_tree(tree.topology, path)
        tally.add("moves", moved is not None)
        tally.count_tree(tree.topology.nodes, len(path), bool(path) and path[-1] > tree.topology.principal)

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        """Always: vLLM would stop drafting for all once one request nears the limit; the scheduler cuts per request."""
        return common_attn_metadata is not None

    def propose_draft_token_ids(
        self, scheduler_output: Any, sampled_token_ids: Any, sampling_metadata: Any, hidden_states: Any, *args: Any
    ) -> list[list[int]]:
        """Drafts for the next step, by row of the batch; an empty list for a request that gets none."""
        step, self._step = self._step, None
        candidates = [] if step is None else self._candidates(step, sampled_token_ids)
        drafts = self.drafter.drafts(candidates, hidden_states, len(sampled_token_ids))
        self._drafted = {name: tree for name, tree in self._drafted.items() if name in self.requests}
        for candidate in candidates:
            self.expect(self.input_batch.req_ids[candidate.row], self.drafter.chosen)
        if step is not None:
            self._note_time(step, now_s() - self._begin_s)
        return drafts

    def _note_time(self, step: Step, seconds: float) -> None:
        if step.trees:
            self.drafter.tally.add("step_s", seconds)
        if self.drafter.policy is not None and (nodes := step.even_nodes) is not None:
            self.drafter.policy.saw_step(len(step.logit_rows), nodes, seconds)

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
            candidates.append(Candidate(row, place, sampled[-1], known))
        return candidates


def _ends(params: Any, output: list[int], sampled: list[int]) -> bool:
    """Whether the scheduler is going to end a request with these tokens, as far as that is plain to see."""
    if params.max_tokens is not None and len(output) >= params.max_tokens:
        return True
    return not params.all_stop_token_ids.isdisjoint(sampled) and len(output) > params.min_tokens
