"""Step time by the roofline: max(bytes ÷ bandwidth, FLOPs ÷ peak) + overhead (Williams et al., CACM 52(4), 2009).

Decoding reads every weight once per step whatever the batch, so at small batches bytes decide; verified rows
(batch × (1 + nodes)) only cost FLOPs.
"""

from dataclasses import dataclass
from typing import Literal

from engine.plan.devices import Device
from engine.plan.drafts import Draft
from engine.plan.errors import PlanError, require_positive
from engine.plan.models import ModelShape


@dataclass(frozen=True, slots=True)
class Setup:
    """A model on a GPU, served one way.

    Attributes:
        weights, kv: precision of the linear layers, and of keys and values.
        tensor_parallel: GPUs that share the model.
        context_tokens: tokens each call holds while it generates.
        bandwidth_efficiency, flops_efficiency: share of the peak that kernels reach; 1 is the floor. The default of
            0.9 for streaming weights and 0.6 for small matrix products are assumptions to be calibrated.
        overhead_s: per step, whatever the batch: scheduling, sampling, kernel launches (assumed 1 ms).
        memory_utilization: share of the device memory the engine may use, as vLLM's option of that name.
        reserve_bytes: activations and CUDA graphs, per GPU.
    """

    device: Device
    model: ModelShape
    draft: Draft = Draft()
    weights: str = "bf16"
    kv: str = "bf16"
    tensor_parallel: int = 1
    context_tokens: int = 1024
    bandwidth_efficiency: float = 0.9
    flops_efficiency: float = 0.6
    overhead_s: float = 0.001
    memory_utilization: float = 0.9
    reserve_bytes: float = 1.5e9

    def __post_init__(self) -> None:
        self.model.read_bytes(self.weights)
        self.model.kv_bytes_per_token(self.kv)
        for name in ("bandwidth_efficiency", "flops_efficiency", "memory_utilization"):
            if not 0 < getattr(self, name) <= 1:
                raise PlanError(name.replace("_", "-"), f"must be above 0 and at most 1, got {getattr(self, name):g}")
        for name, value in (("overhead", self.overhead_s), ("reserve", self.reserve_bytes)):
            if not 0 <= value < float("inf"):
                raise PlanError(name, f"must be finite and not negative, got {value:g}")
        if self.tensor_parallel < 1 or self.model.heads % self.tensor_parallel:
            reason = f"{self.model.heads} attention heads cannot be shared by {self.tensor_parallel} GPUs"
            raise PlanError("tensor-parallel", reason)
        if not 1 <= self.context_tokens <= self.model.max_context:
            raise PlanError("context", f"must be between 1 and the model's {self.model.max_context}")

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token on one GPU; a head that cannot be split is held by several GPUs."""
        split = min(self.tensor_parallel, self.model.kv_heads)
        return self.model.kv_bytes_per_token(self.kv) / split + self.draft.kv_bytes_per_token() / self.tensor_parallel


@dataclass(frozen=True, slots=True)
class StepCost:
    """Where a step's time goes. Bytes are those one GPU reads."""

    weight_bytes: float
    kv_bytes: float
    draft_bytes: float
    memory_s: float
    compute_s: float
    overhead_s: float

    @property
    def step_s(self) -> float:
        """The step's duration."""
        return max(self.memory_s, self.compute_s) + self.overhead_s

    @property
    def bound(self) -> Literal["bandwidth", "compute", "overhead"]:
        """What to buy more of."""
        if self.overhead_s > max(self.memory_s, self.compute_s):
            return "overhead"
        return "bandwidth" if self.memory_s >= self.compute_s else "compute"


def step_cost(setup: Setup, calls: int, prefill_tokens: int = 0) -> StepCost:
    """One engine step for `calls` generating calls, with `prefill_tokens` of a further prompt in the same step.

    Raises:
        PlanError: nothing to do in the step.
    """
    if calls < 0 or prefill_tokens < 0 or calls + prefill_tokens == 0:
        raise PlanError("calls", f"must be at least 1, got {calls}")
    model, draft, gpus = setup.model, setup.draft, setup.tensor_parallel
    weight_bytes = model.read_bytes(setup.weights) / gpus
    kv_bytes = calls * setup.context_tokens * setup.kv_bytes_per_token
    draft_bytes = draft.read_bytes(model) / gpus
    memory_s = (weight_bytes + kv_bytes + draft_bytes) / (
        setup.device.bandwidth_bytes_per_s * setup.bandwidth_efficiency
    )
    return StepCost(
        weight_bytes, kv_bytes, draft_bytes, memory_s, _compute_s(setup, calls, prefill_tokens), _overhead_s(setup)
    )


def _compute_s(setup: Setup, calls: int, prefill_tokens: int) -> float:
    model, device = setup.model, setup.device
    rows = calls * (1 + setup.draft.nodes)
    # Logits are needed for every verified row, and for the last row of a prompt.
    logits = 2.0 * model.vocabulary_weights * (rows + (1 if prefill_tokens else 0))
    attention = (rows + prefill_tokens) * model.attention_flops(setup.context_tokens)
    unquantised = logits + attention + calls * setup.draft.flops(model)
    linear = 2.0 * model.linear_weights * (rows + prefill_tokens)
    # int8 and int4 count at the bf16 rate: their kernels mostly widen the weights before they multiply.
    linear_rate = device.fp8_flops if setup.weights == "fp8" and device.fp8_flops else device.bf16_flops
    seconds = linear / linear_rate + unquantised / device.bf16_flops
    return seconds / (setup.flops_efficiency * setup.tensor_parallel)


def _overhead_s(setup: Setup) -> float:
    """Tensor parallelism adds two small all-reduces per layer, and the draft model's own."""
    if setup.tensor_parallel == 1:
        return setup.overhead_s
    layers = setup.model.layers
    if setup.draft.model is not None:
        layers += setup.draft.depth * setup.draft.model.layers
    return setup.overhead_s + 2 * layers * setup.device.all_reduce_s


def ttft_s(setup: Setup, calls: int, prompt_tokens: int) -> float:
    """Time to first token of a call that joins `calls - 1` others: half a step's wait, then the step with its prefill.

    Raises:
        PlanError: no prompt.
    """
    require_positive("prompt-tokens", prompt_tokens)
    others = calls - 1
    wait_s = step_cost(setup, others).step_s / 2 if others else 0.0
    return wait_s + step_cost(setup, others, prompt_tokens).step_s
