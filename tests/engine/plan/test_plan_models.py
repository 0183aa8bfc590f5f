import pytest

from engine.plan.devices import DEVICES, Device, faster_devices, find_device
from engine.plan.errors import PlanError
from engine.plan.models import MODELS, find_model, shape_from_config, weight_bytes

# Parameter counts that the checkpoints' own safetensors headers give.
PUBLISHED_PARAMETERS = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen3-8b": 8_190_735_360,
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED_PARAMETERS.items())
def test_a_known_model_has_the_parameters_of_its_checkpoint(name: str, parameters: int) -> None:
    assert MODELS[name].parameters == parameters


def test_a_config_gives_the_shape_of_the_well_known_model() -> None:
    shape = shape_from_config(CONFIG, "smol")
    known = MODELS["smollm2-135m"]
    assert shape.parameters == known.parameters
    assert shape.read_bytes("bf16") == known.read_bytes("bf16")
    assert shape.kv_bytes_per_token("bf16") == known.kv_bytes_per_token("bf16")
    assert shape.head_dim == 64


def test_llama_reads_fifteen_gigabytes_a_step_and_keeps_128_kib_a_token() -> None:
    llama = find_model("llama-3-8b")
    assert llama.read_bytes("bf16") / 1e9 == pytest.approx(15.0, abs=0.05)
    assert llama.kv_bytes_per_token("bf16") == 131_072
    assert llama.kv_bytes_per_token("fp8") == 65_536


def test_quantising_leaves_embedding_and_vocabulary_matrix_in_16_bits() -> None:
    llama = find_model("llama-3-8b")
    saved = llama.read_bytes("bf16") - llama.read_bytes("fp8")
    assert saved == llama.linear_weights
    assert llama.resident_bytes("fp8") - llama.read_bytes("fp8") == 2 * 128_256 * 4096
    assert llama.read_bytes("int4") < llama.read_bytes("fp8")


def test_a_tied_embedding_is_held_once() -> None:
    smol = find_model("smollm2-135m")
    assert smol.resident_bytes("bf16") == smol.read_bytes("bf16")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"),
        ("Llama-3.3-70B", "llama-3.3-70b"),
    ],
)
def test_names_of_repositories_find_the_model(name: str, short: str) -> None:
    assert find_model(name).name == short


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings"])
@pytest.mark.parametrize("value", [None, "4096", 0, -1, True, 2.5])
def test_a_malformed_config_is_refused_by_the_name_of_the_key(key: str, value: object) -> None:
    with pytest.raises(PlanError, match=key):
        shape_from_config({**CONFIG, key: value}, "broken")


@pytest.mark.parametrize(
    "change", [{"model_type": "gpt2"}, {"model_type": None}, {"num_local_experts": 8}, {"num_key_value_heads": 4}]
)
def test_what_the_arithmetic_does_not_cover_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="model"):
        shape_from_config({**CONFIG, **change}, "other")


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match="llama-3-8b"):
        find_model("gpt-17")
    with pytest.raises(PlanError, match="L40S"):
        find_device("Voodoo2")
    with pytest.raises(PlanError, match="weights"):
        weight_bytes("fp3")
    with pytest.raises(PlanError, match="kv"):
        find_model("llama-3-8b").kv_bytes_per_token("int4")


def test_devices_are_in_order_and_named_with_their_source() -> None:
    speeds = [device.bandwidth_bytes_per_s for device in DEVICES]
    assert speeds == sorted(speeds)
    assert {"L4", "A10", "L40S", "A100", "H100", "H200", "B200"} <= {device.name for device in DEVICES}
    assert all("data sheet" in device.source for device in DEVICES)
    assert find_device("nvidia-h100") == find_device("H100")
    assert [device.name for device in faster_devices(find_device("H100"))] == ["H200", "B200"]


@pytest.mark.parametrize("field", range(4))
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_device_without_sound_figures_is_refused(field: int, value: float) -> None:
    figures = [1e12, 1e14, 2e14, 1e10]
    figures[field] = value
    with pytest.raises(PlanError):
        Device("odd", *figures)
