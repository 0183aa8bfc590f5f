"""Named sets of settings for machines we know. Any single setting still wins over the profile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LLAMA_3_8B = "meta-llama/Meta-Llama-3-8B-Instruct"
LLAMA_3_70B = "meta-llama/Meta-Llama-3-70B-Instruct"
# Where the objective can be met at all, a call is taken only while it still will be.
_OBJECTIVE = {"objective_ratio": 0.99, "max_predicted_gap_ms": 20.0}


@dataclass(frozen=True, slots=True)
class Profile:
    """Attributes:
    description: one line, for a list.
    settings: a part of the settings tree, section by section.
    planned: what `engine.plan.start_line` is asked at start, where the machine is known.
    """

    description: str
    settings: Mapping[str, Mapping[str, Any]]
    planned: Mapping[str, Any] | None = None


PROFILES: Mapping[str, Profile] = {
    "cpu-demo": Profile(
        "The embedded 135M model with draft trees on two CPU cores: a real call with no GPU, no account and no model hub.",
        {
            "engine": {
                "model": "embedded",
                "speculation": "auto",
                "max_model_len": 2048,
                "max_num_seqs": 8,
                # A long prompt of one call delays the steps of all others by the time of one chunk.
                "max_num_batched_tokens": 256,
                "cpu_kv_cache_gib": 1.0,
                "enforce_eager": True,
            }
        },
    ),
    "l4-llama3-8b": Profile(
        "Llama-3-8B in bfloat16 on one NVIDIA L4 (24 GB) with four Medusa heads.",
        {
            "engine": {
                "model": LLAMA_3_8B,
                "dtype": "bfloat16",
                "speculation": "medusa",
                "num_speculative_tokens": 4,
                "heads": "./heads/llama-3-8b-instruct",
                "max_model_len": 4096,
                "max_num_seqs": 16,
                "max_num_batched_tokens": 1024,
                "gpu_memory_utilization": 0.90,
            },
            "server": _OBJECTIVE,
        },
        {"gpu": "L4", "model": "llama-3-8b", "weights": "bf16", "speculation": "medusa", "drafts": 4},
    ),
    "l4-llama3-8b-fp8": Profile(
        "The same in fp8: half the bytes per step, room for more calls. Recommended on an L4.",
        {
            "engine": {
                "model": LLAMA_3_8B,
                "dtype": "bfloat16",
                "quantization": "fp8",
                "speculation": "medusa",
                "num_speculative_tokens": 4,
                "heads": "./heads/llama-3-8b-instruct",
                "max_model_len": 4096,
                "max_num_seqs": 32,
                "max_num_batched_tokens": 1024,
                "gpu_memory_utilization": 0.90,
            },
            "server": _OBJECTIVE,
        },
        {"gpu": "L4", "model": "llama-3-8b", "weights": "fp8", "speculation": "medusa", "drafts": 4},
    ),
    "h100-llama3-70b-draft": Profile(
        "Llama-3-70B over four H100 with Llama-3-8B drafting five tokens a step.",
        {
            "engine": {
                "model": LLAMA_3_70B,
                "dtype": "bfloat16",
                "speculation": "draft_model",
                "num_speculative_tokens": 5,
                "draft_model": LLAMA_3_8B,
                "tensor_parallel_size": 4,
                "max_model_len": 8192,
                "max_num_seqs": 64,
                "max_num_batched_tokens": 2048,
                "gpu_memory_utilization": 0.90,
            },
            "server": _OBJECTIVE,
        },
    ),
}
