"""vLLM's GPU worker with trees: our attention backend in its registry, our model runner. Not yet run on a GPU."""

from typing import Any

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
from vllm.v1.worker.gpu_worker import Worker

from engine.tree import self_test
from engine.tree.gpu.runner import TreeGPUModelRunner
from engine.tree.hooks import GPU_HOOKS, TreeUnfit, check_hooks

register_backend(AttentionBackendEnum.TRITON_ATTN, "engine.tree.gpu.backend.TreeTritonBackend")


class TreeGPUWorker(Worker):  # type: ignore[misc]
    """`worker_cls` of `engine.speculation = medusa_tree` on a GPU."""

    def init_device(self) -> None:
        """As vLLM's, once vLLM has been found to be what trees were written for."""
        check_hooks(GPU_HOOKS)
        super().init_device()

    def _make_model_runner(self) -> Any:
        """Ours, which is of the V1 kind."""
        if self.use_v2_model_runner:
            raise TreeUnfit("model runner", "vLLM has chosen its V2 runner")
        return TreeGPUModelRunner(self.vllm_config, self.device)

    def compile_or_warm_up_model(self) -> Any:
        """As vLLM's; then trees are tried on the loaded model, and everything counted meanwhile is forgotten."""
        times = super().compile_or_warm_up_model()
        self_test.run(self.model_runner)
        self.model_runner.drafter.restart({})
        return times
