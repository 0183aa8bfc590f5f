from typing import Any

import pytest
from pydantic import ValidationError

from engine.arguments import speculative_config, vllm_arguments
from engine.hardware import CpuFacts
from engine.options import EngineOptions

AVX2 = CpuFacts(cores=(0, 1), native_bfloat16=False)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"speculation": "medusa", "model": "x"}, "speculation medusa: set heads to the folder"),
        ({"speculation": "eagle"}, "speculation eagle: set heads"),
        ({"speculation": "eagle3"}, "speculation eagle3: set heads"),
        ({"speculation": "draft_model"}, "speculation draft_model: set draft_model"),
        ({"speculation": "suffix"}, "needs the package arctic-inference"),
        ({"speculation": "medusa_tree", "model": "x"}, "speculation medusa_tree: set heads to a file or folder"),
        ({"speculation": "medusa_tree", "num_speculative_tokens": 4}, "medusa_tree: the tree says how many"),
        ({"speculation": "medusa_tree", "tensor_parallel_size": 2}, "medusa_tree: runs on one device"),
        ({"speculation": "ngram", "tree": "8"}, "tree is set but not used"),
        ({"speculation": "ngram", "draft_model": "x"}, "draft_model is set but not used"),
        ({"speculation": "none", "heads": "x"}, "heads are set but not used"),
        ({"speculation": "beam"}, "Input should be 'none', 'ngram'"),
        ({"prompt_lookup_min": 5}, "prompt_lookup_min must not exceed"),
        ({"num_speculative_tokens": 0}, "greater than or equal to 1"),
        ({"gpu_memory_utilization": 1.5}, "less than or equal to 1"),
        ({"block_size": 33}, "block_size"),
        ({"cpu_weights": "int8", "dtype": "bfloat16"}, "cpu_weights int8 are multiplied in float32; dtype is bfloat16"),
        ({"modle": "x"}, "modle"),
    ],
)
def test_what_does_not_fit_is_named(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        EngineOptions(**settings)


@pytest.mark.parametrize(
    ("settings", "speculation"),
    [
        ({}, "medusa_tree"),
        ({"quantization": "int8", "heads": "mine"}, "medusa_tree"),
        ({"model": "/models/other"}, "none"),
        ({"num_speculative_tokens": 4}, "none"),
        ({"tensor_parallel_size": "2"}, "none"),
    ],
)
def test_auto_speculates_where_heads_are_there_for_it(settings: dict[str, Any], speculation: str) -> None:
    assert EngineOptions(**{"speculation": "auto"} | settings).speculation == speculation


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({}, None),
        (
            {"speculation": "ngram"},
            {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 1},
        ),
        (
            {"speculation": "draft_model", "draft_model": "small", "num_speculative_tokens": 5},
            {"method": "draft_model", "num_speculative_tokens": 5, "model": "small"},
        ),
        (
            {"speculation": "draft_model", "draft_model": "small", "draft_tensor_parallel_size": 1},
            {"method": "draft_model", "num_speculative_tokens": 4, "model": "small", "draft_tensor_parallel_size": 1},
        ),
        ({"speculation": "eagle3", "heads": "h"}, {"method": "eagle3", "num_speculative_tokens": 4, "model": "h"}),
        ({"speculation": "mtp"}, {"method": "mtp", "num_speculative_tokens": 1}),
    ],
)
def test_speculation_becomes_the_engine_s_own_configuration(
    settings: dict[str, Any], config: dict[str, Any] | None
) -> None:
    options = EngineOptions(**settings)
    assert speculative_config(options) == config
    assert ("per_request_spec_decode_metrics" in vllm_arguments(options, None)) == (config is not None)


def test_a_tree_becomes_a_drafter_of_ours_and_needs_room_beside_prompts() -> None:
    options = EngineOptions(speculation="medusa_tree", tree="8", max_num_seqs=4, max_num_batched_tokens=64)
    arguments = vllm_arguments(options, AVX2)
    assert arguments["speculative_config"]["num_speculative_tokens"] == 8
    assert len(arguments["additional_config"]["tree"]["paths"]) == 8
    assert arguments["worker_cls"].startswith("engine.tree.")
    tight = options.model_copy(update={"max_num_batched_tokens": 36})
    with pytest.raises(ValueError, match="max_num_batched_tokens 36 leaves no room .* set more than 36"):
        vllm_arguments(tight, AVX2)


def test_a_tree_on_a_gpu_keeps_attention_out_of_cuda_graphs() -> None:
    options = EngineOptions(model="owner/name", heads="./heads", speculation="medusa_tree", tree="8")
    arguments = vllm_arguments(options, None)
    assert arguments["worker_cls"] == "engine.tree.gpu.worker.TreeGPUWorker"
    assert arguments["attention_config"] == {"backend": "TRITON_ATTN"}
    assert arguments["compilation_config"] == {"cudagraph_mode": "PIECEWISE"}
    assert arguments["additional_config"]["tree"]["heads"] == "./heads"


@pytest.mark.parametrize(
    ("model", "quantization", "copy", "told"),
    [
        ("embedded", "int8", True, None),
        ("embedded", "fp8", False, "fp8"),
        ("embedded", None, False, None),
        ("owner/name", "int8", False, "int8"),
    ],
)
def test_int8_of_the_embedded_model_is_a_copy_and_not_a_method_of_vllm(
    model: str, quantization: str | None, copy: bool, told: str | None
) -> None:
    options = EngineOptions(model=model, quantization=quantization)
    assert options.int8_copy is copy
    assert vllm_arguments(options, AVX2).get("quantization") == told


def test_names_are_text_or_a_list_and_default_to_the_model() -> None:
    assert EngineOptions(served_model_name="a").names == ("a",)  # type: ignore[arg-type]
    assert EngineOptions(served_model_name=["a", "b"]).names == ("a", "b")  # type: ignore[arg-type]
    assert EngineOptions(model="owner/name").names == ("owner/name",)
    assert EngineOptions().names == ("SmolLM2-135M-Instruct",)


def test_every_option_is_described() -> None:
    assert [name for name, field in EngineOptions.model_fields.items() if not field.description] == []
