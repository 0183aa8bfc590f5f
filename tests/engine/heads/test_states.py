"""States of a tiny model: however many replies are read at once, the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.heads import states
from engine.heads.replies import Reply
from engine.heads.target import TargetModel


def test_states_do_not_depend_on_how_many_replies_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=40, num_key_value_heads=1, **sizes)).eval()
    source = TargetModel(model, "").states
    opening = (1, 2, 3)
    replies = [Reply((*opening, at % 7), tuple(range(at % 11, at % 11 + 2 + at % 5)), 0.0, "any") for at in range(20)]
    whole = states.compute(source, replies, tmp_path / "whole", {}, lambda done, total: None)
    monkeypatch.setattr(states, "_PASS_ROWS", 30)
    few = states.compute(source, replies, tmp_path / "few", {}, lambda done, total: None)
    assert few.tokens.tolist() == whole.tokens.tolist()
    assert np.allclose(few.hidden, whole.hidden, atol=2e-3)
    # Each is what the model says of the reply alone.
    first = next(reply for reply in replies if reply.ids == tuple(whole.tokens[: whole.starts[1]].tolist()))
    with torch.inference_mode():
        alone = model.model(torch.tensor([first.prompt_ids + first.ids[:-1]])).last_hidden_state[0]
    assert np.allclose(whole.hidden[: whole.starts[1]], alone[len(first.prompt_ids) - 1 :].numpy(), atol=2e-3)
