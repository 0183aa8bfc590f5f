"""vLLM's CPU worker with trees: our attention backend in its registry, our model runner."""

from typing import Any

import torch
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from engine.cpu_worker import VoicepaceCPUWorker
from engine.tree import row_costs, self_test
from engine.tree.cpu_runner import TreeCPUModelRunner
from engine.tree.hooks import CPU_HOOKS, check_hooks
from engine.tree.stopwatch import now_s

# On the CPU vLLM ignores the setting for another backend, but looks its own one up here.
register_backend(AttentionBackendEnum.CPU_ATTN, "engine.tree.attention.TreeAttentionBackend")

# Tokens behind which steps are measured: a caller's first turns.
_CONTEXT = 256


class TreeCPUWorker(VoicepaceCPUWorker):
    """`worker_cls` of `engine.speculation = medusa_tree`."""

    runner = TreeCPUModelRunner

    def init_device(self) -> None:
        """As vLLM's, once vLLM has been found to be what trees were written for."""
        check_hooks(CPU_HOOKS)
        super().init_device()

    def compile_or_warm_up_model(self) -> Any:
        """As vLLM's; then trees are tried on the loaded model, everything counted meanwhile is forgotten, and what steps
        cost by their rows is measured."""
        times = super().compile_or_warm_up_model()
        self_test.run(self.model_runner)
        drafter, limits = self.model_runner.drafter, self.scheduler_config
        rows = min(limits.max_num_seqs * (1 + drafter.topology.nodes), limits.max_num_batched_tokens)
        drafter.restart(row_costs.measured(self._step, rows, now_s) if drafter.policy else {})
        return times

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _step(self, rows: int) -> None:
        """A step of trees behind a usual context; without attention where vLLM attends."""
        runner = self.model_runner
        whole = 1 + runner.drafter.topology.nodes
        context = max(0, min(_CONTEXT, self.model_config.max_model_len - whole))
        hidden = None if runner.loops is None else runner.loops.rehearse(rows, whole, context)
        if hidden is None:
            hidden, _ = runner._dummy_run(rows)
        runner.model.compute_logits(hidden[:rows])
