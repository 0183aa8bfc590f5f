"""The model runner with trees on a CPU.

Where the compiled loops run the model, they attend to trees in vLLM's pages. Else trees attend to dense copies of their
contexts.
"""

from functools import lru_cache
from typing import Any

from engine.cpu_worker import SeedSafeCPUModelRunner
from engine.llama_forward import LlamaForward
from engine.llama_loops import LlamaLoops, causal_spans
from engine.native.paged_attention import Span
from engine.tree.attention import StepTrees, TreeAttentionImpl, TreeMetadataBuilder, View, metadata_of
from engine.tree.mirror import Mirrors
from engine.tree.pages import LAYOUT, Pages, probe
from engine.tree.runner import TreeRunner
from engine.tree.step import Step, Tree, rows_in_place
from engine.tree.stopwatch import timed
from engine.tree.topology import Topology


@lru_cache(maxsize=512)
def seen_by(topology: Topology) -> tuple[int, ...]:
    """For each row of a tree, bit n: node n + 1 is on its path."""
    return tuple(sum(1 << row - 1 for row in lineage if row) for lineage in topology.lineages)


class TreeCPUModelRunner(TreeRunner, SeedSafeCPUModelRunner):
    """The runner of `engine.tree.worker.TreeCPUWorker`."""

    _trees: StepTrees | None = None
    _in_pages = False

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

    @property
    def loops(self) -> LlamaLoops | None:
        """What runs the model's layers, where it is not vLLM."""
        forward = self.get_model().model.forward
        return forward.loops if isinstance(forward, LlamaForward) else None

    def _build_attention_metadata(self, *args: Any, **kwargs: Any) -> Any:
        built = super()._build_attention_metadata(*args, **kwargs)
        if self._step is None or not self._step.trees:
            return built
        (metadata,) = {id(layer): layer for layer in built[0].values()}.values()
        loops = self.loops
        self._in_pages = loops is not None and loops.caches is not None
        if self._in_pages:
            trees = {
                row: Span(row, tree.begin, tree.context + 1, seen_by(tree.topology))
                for row, tree in self._step.trees.items()
            }
            metadata.spans = causal_spans(metadata, trees)
        else:
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
        if self._step is None or not self._step.trees:
            return super()._model_forward(*args, **kwargs)
        with timed(self.drafter.tally, "forward_s"):
            output = super()._model_forward(*args, **kwargs)
        if self._trees is not None:
            self.drafter.tally.add("attention_s", self._trees.seconds)
        elif self.loops is not None:
            self.drafter.tally.add("attention_s", self.loops.attention_s)
        self._trees = None
        return output

    def keep_paths(self, step: Step, paths: dict[int, list[int]]) -> int:
        """Within the pages; or within the copies, and from there into the pages."""
        move = self._move_in_pages if self._in_pages else self._move_copy
        return sum(move(step.trees[row], path) for row, path in paths.items())

    def _move_in_pages(self, tree: Tree, path: list[int]) -> bool:
        stay = rows_in_place(path)
        if stay == len(path):
            return False
        caches = None if self.loops is None else self.loops.caches
        assert caches is not None
        slots = self._pages.slots(self._blocks(tree.row), tree.context, tree.context + tree.rows).tolist()
        # In this order: a row moves towards the root, to where nothing that has yet to move stands.
        caches.move([slots[row] for row in path[stay:]], slots[stay + 1 : len(path) + 1])
        return True

    def _move_copy(self, tree: Tree, path: list[int]) -> bool:
        mirror = self._mirrors.of(tree.request_id)
        moved = mirror.commit(path)
        if moved is None:
            return False
        self._pages.write(mirror.store, *moved, self._pages.slots(self._blocks(tree.row), *moved))
        return True
