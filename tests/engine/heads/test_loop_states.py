"""States by the compiled loops are those of the target itself, up to what rounding to fewer bits takes."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.heads import loop_states
from engine.heads.loop_states import loop_target
from engine.heads.replies import Reply
from engine.heads.states import hidden_states
from engine.native.library import Kept

SIZES = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "max_position_embeddings": 256}
FARTHEST: dict[Kept, float] = {"float16": 2e-3, "int8": 5e-2}


def llama(**changes: object) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=90, num_attention_heads=4, num_key_value_heads=2, **SIZES | changes)
    return LlamaForCausalLM(config).eval().requires_grad_(False)


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
    loops = loop_target(model, kept)
    assert loops is not None
    for own, theirs in zip(loops(batch), hidden_states(model, batch), strict=True):
        assert own.shape == theirs.shape
        assert (own - theirs).norm() / theirs.norm() < FARTHEST[kept]


@pytest.mark.parametrize("changes", [{"attention_bias": True}, {"hidden_size": 120, "head_dim": 30}])
def test_other_models_are_left_to_transformers(kept: Kept, changes: dict[str, object]) -> None:
    assert loop_target(llama(**changes), kept) is None
