from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plan.devices import DEVICES, Device, find_device
from engine.plan.drafts import Draft, usual_draft
from engine.plan.errors import PlanError
from engine.plan.models import MODELS, find_model
from engine.plan.roofline import Setup, step_cost, ttft_s

LLAMA = find_model("llama-3-8b")
L4 = find_device("L4")

devices = st.sampled_from(DEVICES)
models = st.sampled_from(sorted(MODELS.values(), key=lambda shape: shape.name))
drafts = st.sampled_from(
    [Draft(), usual_draft("medusa"), usual_draft("medusa_tree"), usual_draft("ngram", tokens_per_step=1.5)]
)
setups = st.builds(
    Setup,
    device=devices,
    model=models,
    draft=drafts,
    weights=st.sampled_from(["bf16", "fp8", "int8", "int4"]),
    kv=st.sampled_from(["bf16", "fp8"]),
    context_tokens=st.integers(1, 8192),
    bandwidth_efficiency=st.floats(0.05, 1.0),
    flops_efficiency=st.floats(0.05, 1.0),
    overhead_s=st.floats(0, 0.01),
)


def test_the_step_is_bytes_over_bandwidth_and_the_overhead() -> None:
    setup = Setup(L4, LLAMA, bandwidth_efficiency=1.0, overhead_s=0.002, context_tokens=1000)
    expected = (LLAMA.read_bytes("bf16") + 3 * 1000 * 131_072) / 300e9 + 0.002
    assert step_cost(setup, 3).step_s == pytest.approx(expected)
    assert step_cost(setup, 3).bound == "bandwidth"


def test_many_rows_are_bound_by_flops_of_batch_times_one_plus_nodes() -> None:
    slow = Device("slow", 1e15, 1e12, None, 1e12)
    setup = Setup(slow, LLAMA, Draft("ngram", 2.0, depth=7, nodes=7), flops_efficiency=1.0, overhead_s=0.0)
    cost = step_cost(setup, 4)
    per_row = 2 * (LLAMA.linear_weights + LLAMA.vocabulary_weights) + LLAMA.attention_flops(1024)
    assert cost.bound == "compute"
    assert cost.step_s == pytest.approx(4 * 8 * per_row / 1e12)


def test_fp8_units_are_used_where_there_are_some() -> None:
    with_unit = Device("a", 1e15, 1e12, 2e12, 1e12)
    without = Device("b", 1e15, 1e12, None, 1e12)
    fast, slow = (step_cost(Setup(d, LLAMA, weights="fp8", overhead_s=0.0), 8).compute_s for d in (with_unit, without))
    assert 0.5 * slow < fast < 0.6 * slow


def test_four_heads_that_each_read_the_vocabulary_matrix_add_four_gigabytes() -> None:
    plain = step_cost(Setup(L4, LLAMA), 1)
    per_head = step_cost(Setup(L4, LLAMA, usual_draft("medusa", read="per_head")), 1)
    stacked = step_cost(Setup(L4, LLAMA, usual_draft("medusa", read="stacked")), 1)
    nothing = step_cost(Setup(L4, LLAMA, usual_draft("medusa", read="none")), 1)
    blocks = 4 * 4096**2 * 2
    assert plain.draft_bytes == nothing.draft_bytes == 0
    assert per_head.draft_bytes - blocks == pytest.approx(4.2e9, rel=0.01)
    assert stacked.draft_bytes - blocks == pytest.approx(1.05e9, rel=0.01)
    shortened = usual_draft("medusa", read="per_head", vocabulary=32_000)
    assert step_cost(Setup(L4, LLAMA, shortened), 1).draft_bytes < per_head.draft_bytes / 3


def test_a_draft_model_is_read_once_for_every_token_it_proposes() -> None:
    small = find_model("llama-3.2-1b")
    draft = Draft("draft_model", 3.0, depth=5, nodes=5, model=small)
    setup = Setup(L4, LLAMA, draft)
    assert step_cost(setup, 1).draft_bytes == 5 * small.read_bytes("bf16")
    assert setup.kv_bytes_per_token == LLAMA.kv_bytes_per_token("bf16") + small.kv_bytes_per_token("bf16")


def test_tensor_parallelism_divides_bytes_and_adds_all_reduces() -> None:
    one = step_cost(Setup(find_device("H100"), LLAMA), 1)
    four = step_cost(Setup(find_device("H100"), LLAMA, tensor_parallel=4), 1)
    assert four.weight_bytes == one.weight_bytes / 4
    assert four.kv_bytes == one.kv_bytes / 4
    assert four.overhead_s == pytest.approx(one.overhead_s + 2 * 32 * 10e-6)


def test_a_key_value_head_is_held_by_several_gpus_where_there_are_more_gpus_than_heads() -> None:
    qwen = find_model("qwen2.5-7b")
    four, seven = (Setup(L4, qwen, tensor_parallel=n).kv_bytes_per_token for n in (4, 7))
    assert four == seven == qwen.kv_bytes_per_token("bf16") / 4


@given(setups, st.integers(1, 256), st.floats(1.0, 20.0))
def test_more_bandwidth_is_never_slower(setup: Setup, calls: int, factor: float) -> None:
    faster = replace(setup.device, bandwidth_bytes_per_s=setup.device.bandwidth_bytes_per_s * factor)
    assert step_cost(replace(setup, device=faster), calls).step_s <= step_cost(setup, calls).step_s


@given(setups, st.integers(1, 256), st.integers(1, 256))
def test_more_calls_are_never_faster(setup: Setup, calls: int, more: int) -> None:
    assert step_cost(setup, calls + more).step_s >= step_cost(setup, calls).step_s


@given(setups, st.integers(1, 64))
def test_more_bytes_are_never_faster(setup: Setup, calls: int) -> None:
    read = {w: step_cost(replace(setup, weights=w), calls) for w in ("int4", "fp8", "bf16")}
    assert read["int4"].memory_s < read["fp8"].memory_s < read["bf16"].memory_s
    shorter = replace(setup, context_tokens=max(1, setup.context_tokens // 2))
    assert step_cost(shorter, calls).step_s <= step_cost(setup, calls).step_s
    if setup.draft.is_medusa:
        reads = [
            step_cost(replace(setup, draft=replace(setup.draft, read=read)), calls).step_s
            for read in ("none", "stacked", "per_head")
        ]
        assert reads == sorted(reads)


@given(setups, st.integers(1, 64))
def test_a_wider_tree_and_a_prompt_are_never_free_of_charge(setup: Setup, calls: int) -> None:
    wider = replace(setup, draft=replace(setup.draft, nodes=setup.draft.nodes + 16))
    assert step_cost(wider, calls).compute_s > step_cost(setup, calls).compute_s
    assert step_cost(setup, calls, 512).step_s >= step_cost(setup, calls).step_s


@given(setups, st.integers(2, 64))
def test_the_first_token_waits_for_the_running_step(setup: Setup, calls: int) -> None:
    assert ttft_s(setup, calls, 256) > ttft_s(setup, 1, 256) > 0


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"weights": "fp3"}, "weights"),
        ({"kv": "int2"}, "kv"),
        ({"tensor_parallel": 3}, "tensor-parallel"),
        ({"tensor_parallel": 0}, "tensor-parallel"),
        ({"context_tokens": 0}, "context"),
        ({"context_tokens": 8193}, "context"),
        ({"bandwidth_efficiency": 0.0}, "bandwidth-efficiency"),
        ({"bandwidth_efficiency": 1.1}, "bandwidth-efficiency"),
        ({"flops_efficiency": float("nan")}, "flops-efficiency"),
        ({"memory_utilization": -0.5}, "memory-utilization"),
        ({"overhead_s": float("nan")}, "overhead"),
        ({"reserve_bytes": -1.0}, "reserve"),
    ],
)
def test_a_bad_setup_is_refused_by_name(change: dict[str, object], parameter: str) -> None:
    with pytest.raises(PlanError) as refused:
        Setup(L4, LLAMA, **change)
    assert refused.value.parameter == parameter


def test_a_step_without_work_and_a_turn_without_a_prompt_are_refused() -> None:
    with pytest.raises(PlanError, match="calls"):
        step_cost(Setup(L4, LLAMA), 0)
    with pytest.raises(PlanError, match="prompt"):
        ttft_s(Setup(L4, LLAMA), 1, 0)
