"""vLLM's CPU worker with trees: our attention backend in its registry, our model runner."""

from typing import Any

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from engine.cpu_worker import VoicepaceCPUWorker
from engine.tree import self_test
from engine.tree.cpu_runner import TreeCPUModelRunner
from engine.tree.hooks import CPU_HOOKS, check_hooks

# On the CPU vLLM ignores the setting for another backend, but looks its own one up here.
register_backend(AttentionBackendEnum.CPU_ATTN, "engine.tree.attention.TreeAttentionBackend")


class TreeCPUWorker(VoicepaceCPUWorker):
    """`worker_cls` of `engine.speculation = medusa_tree`."""

    runner = TreeCPUModelRunner

    def init_device(self) -> None:
        """As vLLM's, once vLLM has been found to be what trees were written for."""
        check_hooks(CPU_HOOKS)
        super().init_device()

    def compile_or_warm_up_model(self) -> Any:
        """As vLLM's; then trees are tried on the loaded model, and everything counted meanwhile is forgotten."""
        times = super().compile_or_warm_up_model()
        self_test.run(self.model_runner)
        self.model_runner.drafter.restart()
        return times
