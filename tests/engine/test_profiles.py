"""The arguments of every profile are held by files under golden/; a change there is a change for users."""

import json
from pathlib import Path

import pytest

from engine.arguments import vllm_arguments
from engine.hardware import CpuFacts
from engine.options import EngineOptions
from engine.profiles import PROFILES

GOLDEN = Path(__file__).parent / "golden"
AVX2 = CpuFacts(cores=(0, 1), native_bfloat16=False, float16_weights=True)
AMX = CpuFacts(cores=(0, 1), native_bfloat16=True)
VNNI = CpuFacts(cores=(0, 1), native_bfloat16=True, float16_weights=True, int8_weights=True)


def arguments(name: str, cpu: CpuFacts | None) -> dict[str, object]:
    return vllm_arguments(EngineOptions.model_validate(PROFILES[name].settings["engine"]), cpu)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_gives_exactly_these_engine_arguments(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    got = json.loads(json.dumps(arguments(name, AVX2 if name.startswith("cpu") else None)))
    if tree := got.get("additional_config", {}).get("tree"):
        # The heads', not the profile's.
        assert len(tree.pop("paths")) == len(tree.pop("shares")) == got["speculative_config"]["num_speculative_tokens"]
    assert got == golden


def test_every_golden_file_belongs_to_a_profile() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(PROFILES)


def test_the_reference_target_is_what_the_published_figures_were_made_with() -> None:
    got = arguments("l4-llama3-8b", None)
    assert got["gpu_memory_utilization"] == 0.90
    assert got["max_model_len"] == 4096
    assert got["speculative_config"] == {
        "method": "medusa",
        "num_speculative_tokens": 4,
        "model": "./heads/llama-3-8b-instruct",
    }


def test_a_cpu_computes_in_bfloat16_only_where_it_does_so_natively() -> None:
    assert arguments("cpu-demo", AVX2)["dtype"] == "float32"
    assert arguments("cpu-demo", AMX)["dtype"] == "bfloat16"
    chosen = EngineOptions(dtype="bfloat16")
    assert vllm_arguments(chosen, AVX2)["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("weights", "cpu", "given"),
    [
        ("auto", AVX2, "auto"),
        ("auto", CpuFacts(cores=(0,), native_bfloat16=False), "float32"),
        ("float16", CpuFacts(cores=(0,), native_bfloat16=False), "float16"),
        ("float32", AVX2, "float32"),
    ],
)
def test_weights_stay_in_float32_where_the_cores_read_no_others(weights: str, cpu: CpuFacts, given: str) -> None:
    got = vllm_arguments(EngineOptions.model_validate({"cpu_weights": weights}), cpu)
    assert got["additional_config"] == {"weights": given}


@pytest.mark.parametrize(
    ("changes", "weights", "dtype"),
    [
        ({}, "int8 or auto", "float32"),
        ({"dtype": "float32"}, "int8 or auto", "float32"),
        ({"dtype": "bfloat16"}, "auto", "bfloat16"),
        ({"model": "somebody/else", "speculation": "none"}, "auto", "bfloat16"),
        ({"quantization": "int8"}, "auto", "bfloat16"),
        ({"enforce_eager": False}, "auto", "bfloat16"),
        ({"cpu_weights": "float16"}, "float16", "float32"),
        ({"cpu_weights": "int8", "model": "somebody/else", "speculation": "none"}, "int8", "float32"),
    ],
)
def test_the_embedded_model_is_kept_in_8_bits_where_the_cores_multiply_them(
    changes: dict[str, object], weights: str, dtype: str
) -> None:
    settings = {**PROFILES["cpu-demo"].settings["engine"], **changes}
    if settings["speculation"] == "auto":
        settings["speculation"] = "medusa_tree"
    got = vllm_arguments(EngineOptions.model_validate(settings), VNNI)
    assert (got["additional_config"]["weights"], got["dtype"]) == (weights, dtype)


def test_8_bits_that_the_cores_do_not_multiply_are_refused() -> None:
    with pytest.raises(ValueError, match="cpu_weights int8 needs a processor with VNNI, and a C compiler"):
        vllm_arguments(EngineOptions.model_validate({"cpu_weights": "int8"}), AVX2)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_inter_token_histogram_has_an_edge_at_the_objective(name: str) -> None:
    edges = arguments(name, None)["custom_histogram_buckets"]["inter_token_latency"]  # type: ignore[index]
    assert 0.020 in edges
    assert edges == sorted(set(edges))


def test_a_step_has_room_for_every_draft_and_part_of_a_prompt() -> None:
    for name, profile in PROFILES.items():
        options = EngineOptions.model_validate(profile.settings["engine"])
        drafts = options.max_num_seqs * (1 + (options.num_speculative_tokens or 0))
        assert options.max_num_batched_tokens is not None, name
        assert options.max_num_batched_tokens >= drafts + 128, name
