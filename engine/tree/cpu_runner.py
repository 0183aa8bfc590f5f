"""The model runner with trees on a CPU: attention over dense copies of contexts, which also say what has to move."""

from typing import Any

from engine.cpu_worker import SeedSafeCPUModelRunner
from engine.tree.attention import StepTrees, TreeAttentionImpl, TreeMetadataBuilder, View, metadata_of
from engine.tree.mirror import Mirrors
from engine.tree.pages import LAYOUT, Pages, probe
from engine.tree.runner import TreeRunner
from engine.tree.step import Step
from engine.tree.stopwatch import timed


class TreeCPUModelRunner(TreeRunner, SeedSafeCPUModelRunner):
    """The runner of `engine.tree.worker.TreeCPUWorker`."""

    _trees: StepTrees | None = None

    def initialize_kv_cache(self, kv_cache_config: Any, *args: Any, **kwargs: Any) -> None:
        """As vLLM's; then there is a cache to copy from."""
        super().initialize_kv_cache(kv_cache_config, *args, **kwargs)
        for index, layer in enumerate(self.tree_layers):
            layer.impl.layer_index = index
        self._query_heads = self.tree_layers[0].impl.num_heads
        self._pages = Pages([layer.kv_cache for layer in self.tree_layers])
        self._mirrors = Mirrors(self._pages)

    def built_parts(self) -> dict[str, bool]:
        """Attention that knows trees, and the page layout that it reads."""
        builder = self.attn_groups[0][0].get_metadata_builder(0)
        return {
            "attention": all(type(layer.impl) is TreeAttentionImpl for layer in self.tree_layers),
            "metadata builder": type(builder) is TreeMetadataBuilder and len(self.attn_groups[0]) == 1,
            "page layout": all(layer.isa == LAYOUT for layer in self.tree_layers),
        }

    def layout_is_known(self) -> bool:
        """What vLLM writes is read back."""
        return probe(self._pages.like)

    def _update_states(self, scheduler_output: Any) -> Any:
        # What is not in this step has ended or may lose its pages; what has lost them comes back as resumed.
        self._mirrors.keep(scheduler_output.num_scheduled_tokens)
        self._mirrors.drop(scheduler_output.scheduled_cached_reqs.resumed_req_ids)
        self.drafter.tally.set("mirrors", len(self._mirrors))
        return super()._update_states(scheduler_output)

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
            views.append(View(tree, mirror, self._query_heads))
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

    def keep_paths(self, step: Step, paths: dict[int, list[int]]) -> int:
        """Within the copies, and from there into the cache."""
        moves = 0
        for row, path in paths.items():
            tree = step.trees[row]
            mirror = self._mirrors.of(tree.request_id)
            moved = mirror.commit(path)
            if moved is not None:
                self._pages.write(mirror.store, *moved, self._pages.slots(self._blocks(row), *moved))
                moves += 1
        return moves
