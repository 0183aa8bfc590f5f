"""`EngineOptions` as the exact arguments of vLLM's `AsyncEngineArgs`: profiles can be shown and compared.

Reads the file of a tree where the settings name one; else pure.
"""

from typing import Any

from engine.hardware import CpuFacts
from engine.options import NEEDS_HEADS, EngineOptions
from engine.tree.choice import chosen, known_shares, shares_of

# vLLM's own inter-token histogram gets an exact edge at the 20 ms objective.
INTER_TOKEN_EDGES_S = (
    *(0.0025, 0.005, 0.01, 0.015, 0.018, 0.02, 0.022, 0.025, 0.03, 0.04, 0.05),
    *(0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 10.0),
)

# What vLLM picks for a CPU is 128: a call's next turn would reuse only whole blocks of that size.
_CPU_BLOCK_TOKENS = 32


def vllm_arguments(options: EngineOptions, cpu: CpuFacts | None, model: str | None = None) -> dict[str, Any]:
    """Keyword arguments for `AsyncEngineArgs`; what is not named keeps vLLM's default.

    Args:
        options: the settings.
        cpu: None for a GPU.
        model: folder to load instead of `options.model`, as for the embedded one.

    Raises:
        ValueError: the tree does not fit.
    """
    arguments: dict[str, Any] = {
        "model": model or options.model,
        "tokenizer": options.tokenizer,
        "revision": options.revision,
        "trust_remote_code": options.trust_remote_code,
        "served_model_name": list(options.names),
        "dtype": options.dtype,
        "quantization": None if options.int8_copy else options.quantization,
        "max_model_len": options.max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "max_num_batched_tokens": options.max_num_batched_tokens,
        "block_size": options.block_size,
        "enable_prefix_caching": options.enable_prefix_caching,
        "tensor_parallel_size": options.tensor_parallel_size,
        "distributed_executor_backend": options.distributed_executor_backend,
        "enforce_eager": options.enforce_eager,
        "seed": options.seed,
        "async_scheduling": None if options.async_scheduling else False,
        "speculative_config": speculative_config(options),
        "custom_histogram_buckets": {"inter_token_latency": list(INTER_TOKEN_EDGES_S)},
        "enable_log_requests": False,
        "use_tqdm_on_load": False,
    }
    if options.speculation != "none":
        arguments["per_request_spec_decode_metrics"] = "detailed"
    if cpu is None:
        arguments["gpu_memory_utilization"] = options.gpu_memory_utilization
    else:
        arguments |= _cpu_arguments(options, cpu)
    if options.speculation == "medusa":
        arguments["worker_extension_cls"] = "engine.medusa_loading.Extension"
    if options.speculation == "medusa_tree":
        tree = _tree_arguments(options, cpu)
        arguments |= tree | {"additional_config": arguments.get("additional_config", {}) | tree["additional_config"]}
    return {name: value for name, value in arguments.items() if value is not None}


def speculative_config(options: EngineOptions) -> dict[str, Any] | None:
    """vLLM's `speculative_config`, None without speculation."""
    method = options.speculation
    if method == "none":
        return None
    if method == "medusa_tree":
        # To vLLM a tree is a chain of as many drafts as it has nodes, made by a class of ours.
        return {
            "method": "custom_class",
            "model": "engine.tree.drafter.TreeDrafter",
            "num_speculative_tokens": chosen(options.tree, known_shares(options.heads_name)).nodes,
        }
    default_tokens = 1 if method == "mtp" else 4
    config: dict[str, Any] = {
        "method": method,
        "num_speculative_tokens": options.num_speculative_tokens or default_tokens,
    }
    if method == "ngram":
        config |= {"prompt_lookup_max": options.prompt_lookup_max, "prompt_lookup_min": options.prompt_lookup_min}
    elif method == "draft_model":
        config |= {"model": options.draft_model}
        if options.draft_tensor_parallel_size is not None:
            config["draft_tensor_parallel_size"] = options.draft_tensor_parallel_size
    elif method in NEEDS_HEADS:
        config["model"] = options.heads_name
    return config


def _tree_arguments(options: EngineOptions, cpu: CpuFacts | None) -> dict[str, Any]:
    known = known_shares(options.heads_name)
    topology = chosen(options.tree, known)
    shares = shares_of(topology, known)
    rows = options.max_num_seqs * (1 + topology.nodes)
    budget = options.max_num_batched_tokens
    if budget is not None and budget <= rows:
        raise ValueError(
            f"max_num_batched_tokens {budget} leaves no room for prompts beside {options.max_num_seqs} trees of "
            f"{topology.nodes} nodes; set more than {rows}"
        )
    device: dict[str, Any] = {"worker_cls": "engine.tree.worker.TreeCPUWorker"}
    if cpu is None:
        # A whole step as one CUDA graph would hold attention without trees.
        device = {
            "worker_cls": "engine.tree.gpu.worker.TreeGPUWorker",
            "attention_config": {"backend": "TRITON_ATTN"},
            "compilation_config": {"cudagraph_mode": "PIECEWISE"},
        }
    return device | {
        "additional_config": {
            "tree": {
                "paths": topology.paths,
                "shares": [(entry.path, entry.share) for entry in shares],
                "heads": options.heads_name,
                "follow_load": options.tree_follows_load,
                "lookup": options.tree_lookup,
            }
        },
    }


def cpu_dtype(options: EngineOptions, cpu: CpuFacts) -> str:
    """The type that a CPU computes in."""
    if options.dtype != "auto":
        return options.dtype
    return "float32" if options.cpu_weights != "auto" or _in_8_bits(options, cpu) else cpu.dtype


def _cpu_arguments(options: EngineOptions, cpu: CpuFacts) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "dtype": cpu_dtype(options, cpu),
        "additional_config": {"weights": cpu_weights(options, cpu)},
        "kv_cache_memory_bytes": int(options.cpu_kv_cache_gib * 2**30),
        "block_size": options.block_size or _CPU_BLOCK_TOKENS,
        "worker_cls": "engine.cpu_worker.VoicepaceCPUWorker",
    }
    if options.tensor_parallel_size == 1:
        # vLLM would start a third process for the one worker, which imports everything once more and takes part in
        # every step over a queue. See `engine.cpu_executor`.
        arguments["distributed_executor_backend"] = "engine.cpu_executor.InCoreExecutor"
    return arguments


def cpu_weights(options: EngineOptions, cpu: CpuFacts) -> str:
    """As `engine.kept_weights.wanted` takes it.

    Raises:
        ValueError: int8, where there are no products with it.
    """
    if options.cpu_weights == "int8" and not cpu.int8_weights:
        raise ValueError("cpu_weights int8 needs a processor with VNNI, and a C compiler when voicepace is installed")
    if options.cpu_weights != "auto":
        return options.cpu_weights
    if _in_8_bits(options, cpu):
        return "int8 or auto"
    return "auto" if cpu.float16_weights else "float32"


def _in_8_bits(options: EngineOptions, cpu: CpuFacts) -> bool:
    """Whether `auto` keeps weights in 8 bits."""
    embedded = options.embedded and options.quantization is None and options.enforce_eager
    return embedded and cpu.int8_weights and options.dtype in ("auto", "float32")
