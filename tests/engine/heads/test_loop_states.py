"""States by the compiled loops are those of the target itself, up to what rounding to fewer bits takes."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.heads import loop_states
from engine.heads.loop_states import loop_source
from engine.heads.replies import Reply
from engine.heads.states import hidden_states
from engine.native.library import Kept

SIZES = {
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
FARTHEST: dict[Kept, float] = {"float16": 2e-3, "int8": 5e-2}


def llama(**changes: object) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=90, **SIZES | changes)
    return LlamaForCausalLM(config).eval().requires_grad_(False)


class Scaled(torch.nn.Linear):
    """Stands for layers whose weights are not what they multiply with."""


def replies(opening: int) -> list[Reply]:
    """Of several lengths, behind prompts whose first `opening` tokens are the same."""
    shared = tuple(at * 7 % 90 for at in range(opening))
    return [
        Reply(
            (*shared, 1 + at, *(at * 3 % 80 + step for step in range(at))), tuple(range(at, at + 1 + 9 * at)), 0.0, "t"
        )
        for at in range(8)
    ]


@pytest.mark.parametrize("opening", [0, 40, 64])
def test_states_are_those_of_the_target(kept: Kept, opening: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_states, "_PASS_ROWS", 150)
    model, batch = llama(), replies(opening)
    loops = loop_source(model, kept, 200)
    assert loops is not None
    for own, theirs in zip(loops.run(batch), hidden_states(model, batch), strict=True):
        assert own.shape == theirs.shape
        assert (own - theirs).norm() / theirs.norm() < FARTHEST[kept]


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": True},
        {"hidden_act": "gelu"},
        {"hidden_size": 120, "head_dim": 30},
        {"hidden_size": 192, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 16},
        {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 512},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_models_are_left_to_transformers(kept: Kept, changes: dict[str, object]) -> None:
    assert loop_source(llama(**changes), kept, 200) is None


def test_models_whose_layers_are_replaced_are_left_to_transformers(kept: Kept) -> None:
    model = llama()
    model.model.layers[1].mlp.up_proj = Scaled(128, 192, bias=False)
    assert loop_source(model, kept, 200) is None


def test_texts_may_be_longer_than_the_model_was_trained_for(kept: Kept) -> None:
    model = llama(max_position_embeddings=64)
    loops = loop_source(model, kept, 90)
    assert loops is not None
    batch = [Reply((1, 2, 3), tuple(range(80)), 0.0, "t")]
    for own, theirs in zip(loops.run(batch), hidden_states(model, batch), strict=True):
        assert (own - theirs).norm() / theirs.norm() < FARTHEST[kept]
