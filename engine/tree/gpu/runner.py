"""The model runner with trees on a GPU: one kernel launch per layer attends for all rows, one moves what has to move."""

from typing import Any

import torch

from engine.tree.gpu.backend import TreeTritonImpl, layout_is_known
from engine.tree.gpu.compaction_kernel import Compaction
from engine.tree.gpu.row_tiles import AttentionShape, RowTiles
from engine.tree.runner import TreeRunner
from engine.tree.step import Step


class TreeGPUModelRunner(TreeRunner):
    """The runner of `engine.tree.gpu.worker.TreeGPUWorker`."""

    def initialize_kv_cache(self, kv_cache_config: Any, *args: Any, **kwargs: Any) -> None:
        """As vLLM's; then there is a cache to attend to and to move in."""
        super().initialize_kv_cache(kv_cache_config, *args, **kwargs)
        caches = [layer.kv_cache for layer in self.tree_layers]
        impl = self.tree_layers[0].impl
        self._shape = AttentionShape(impl.num_heads, impl.num_kv_heads, impl.head_size, caches[0].element_size())
        self._compaction = Compaction(caches)
        self._processors = processors_of(self.device)

    def built_parts(self) -> dict[str, bool]:
        """Attention that knows trees, outside of CUDA graphs: one would replay the plain kernel, or one tree for all."""
        return {
            "attention": all(type(layer.impl) is TreeTritonImpl for layer in self.tree_layers),
            "metadata builder": len(self.attn_groups[0]) == 1,
            "cuda graphs": not self.compilation_config.cudagraph_mode.has_full_cudagraphs(),
        }

    def layout_is_known(self) -> bool:
        """What vLLM writes is found where the kernels look for it."""
        return layout_is_known(self.tree_layers[0])

    def _build_attention_metadata(self, *args: Any, **kwargs: Any) -> Any:
        built = super()._build_attention_metadata(*args, **kwargs)
        if self._step is None or not self._step.trees:
            return built
        (metadata,) = {id(layer): layer for layer in built[0].values()}.values()
        metadata.trees = self._tiles(self._step, metadata.block_table)
        return built

    def _tiles(self, step: Step, tables: torch.Tensor) -> RowTiles:
        counts = [after - before for before, after in zip(step.starts, step.starts[1:], strict=False)]
        contexts = self.input_batch.num_computed_tokens_cpu[: len(counts)].tolist()
        trees = {row: tree.topology for row, tree in step.trees.items()}
        return RowTiles.of(counts, contexts, tables, trees, self._shape, self._processors)

    def keep_paths(self, step: Step, paths: dict[int, list[int]]) -> int:
        """All at once."""
        rows = [row for row, path in paths.items() if path != list(range(1, len(path) + 1))]
        if rows:
            deepest = max(len(paths[row]) for row in rows)
            padded = [paths[row] + [0] * (deepest - len(paths[row])) for row in rows]
            contexts = torch.tensor([step.trees[row].context for row in rows], dtype=torch.int32, device=self.device)
            tables = self.input_batch.block_table[0].get_device_tensor(len(step.logit_rows))
            self._compaction.move(torch.tensor(padded, device=self.device), contexts, tables[rows])
        return len(rows)


def processors_of(device: torch.device) -> int:
    """Of a GPU."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
