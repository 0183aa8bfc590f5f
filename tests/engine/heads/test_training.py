"""States of a small random model, and heads trained on them: better than untrained, and the same after a stop."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.heads import states
from engine.heads.architectures import MedusaHeads, SequentialHeads, build
from engine.heads.config import HeadsConfig
from engine.heads.evaluation import calibrate, scores, selections, trees
from engine.heads.loss import Target
from engine.heads.replies import Reply
from engine.heads.states import States
from engine.heads.target import TargetModel
from engine.heads.training import Plan, Training

_WORDS = 32


@pytest.fixture(scope="module")
def model() -> Iterator[torch.nn.Module]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=_WORDS, hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64,
    )  # fmt: skip
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield LlamaForCausalLM(config).eval().requires_grad_(False)
    torch.set_num_threads(threads)


def counting(count: int) -> list[Reply]:
    """Replies that count upwards, modulo the vocabulary, so that what comes next can be learnt."""
    random = np.random.default_rng(1)
    replies = []
    for at in range(count):
        first, length, stride = random.integers(_WORDS), random.integers(4, 20), 1 + at % 2
        ids = tuple(int(first + stride * step) % _WORDS for step in range(length))
        replies.append(Reply((3, 4, int(first - stride) % _WORDS), ids, 0.7 * (at % 2), f"topic {at % 3}"))
    return replies


@pytest.fixture(scope="module")
def known(model: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> States:
    folder = tmp_path_factory.mktemp("states")
    return states.compute(TargetModel(model, "").states, counting(60), folder, {}, lambda done, total: None)


@pytest.fixture(scope="module")
def target(model: torch.nn.Module) -> Target:
    vocabulary = model.get_output_embeddings().weight
    return Target.of(vocabulary, model.get_input_embeddings().weight, torch.arange(_WORDS))


def test_states_are_what_the_model_says_text_by_text(model: torch.nn.Module, known: States) -> None:
    by_text = {
        known.tokens[first:end].tobytes(): first for first, end in zip(known.starts, known.starts[1:], strict=False)
    }
    for reply in counting(60):
        first = by_text[np.array(reply.ids, np.int32).tobytes()]
        text = torch.tensor([reply.prompt_ids + reply.ids])
        alone = model.model(input_ids=text).last_hidden_state[0, len(reply.prompt_ids) - 1 : -1]
        assert np.allclose(known.hidden[first : first + len(reply.ids)], alone.numpy(), atol=5e-3)


def test_states_that_were_stopped_go_on(model: torch.nn.Module, known: States, tmp_path: Path) -> None:
    class Stopped(Exception):
        """In place of the end of the process."""

    def stop(done: int, total: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        states.compute(TargetModel(model, "").states, counting(60), tmp_path, {}, stop)
    assert 0 < states.load(tmp_path).replies < known.replies
    whole = states.compute(TargetModel(model, "").states, counting(60), tmp_path, {}, lambda done, total: None)
    assert np.array_equal(whole.hidden, known.hidden)
    assert np.array_equal(whole.tokens, known.tokens)


def plan(epochs: int) -> Plan:
    return Plan(budget_s=1e6, epochs=epochs, rows=64, rate=1e-2, validation_replies=6, validate_every_s=1e6)


@pytest.mark.parametrize("architecture", ["medusa", "sequential"])
def test_trained_heads_guess_more_than_untrained_ones(
    known: States, target: Target, tmp_path: Path, architecture: str
) -> None:
    torch.manual_seed(0)
    heads = build(HeadsConfig(architecture, 3, 24, 32, 1, _WORDS))  # type: ignore[arg-type]
    training = Training(heads, target, known, plan(30), tmp_path)
    judged = trees(calibrate(heads, target, known, training.validation), 3)
    before = scores(heads, target, known, {"chain": judged["chain"]})["t07_all"].tokens_per_step["chain"]
    training.run(lambda progress, share: None)
    shares = calibrate(heads, target, known, training.validation)
    after = scores(heads, target, known, trees(shares, 3))["t07_all"].tokens_per_step
    assert after["chain"] > before + 0.3


def test_a_training_that_was_stopped_goes_on(known: States, target: Target, tmp_path: Path) -> None:
    def untrained() -> MedusaHeads | SequentialHeads:
        torch.manual_seed(0)
        return build(HeadsConfig("sequential", 2, 24, 16, 1, _WORDS))

    Training(untrained(), target, known, plan(1), tmp_path).run(lambda progress, share: None)
    resumed = Training(untrained(), target, known, plan(2), tmp_path)
    assert resumed.progress.steps > 0
    steps = resumed.progress.steps
    resumed.run(lambda progress, share: None)
    assert resumed.progress.steps > steps
    with pytest.raises(ValueError, match="of other heads"):
        Training(build(HeadsConfig("medusa", 2, 24, 16, 1, _WORDS)), target, known, plan(2), tmp_path)
    with pytest.raises(ValueError, match="began with other heads"):
        Training(untrained(), target, known, plan(2), tmp_path, {"made": "elsewhere"})


def test_heads_that_training_makes_worse_stay_as_they_were(known: States, target: Target, tmp_path: Path) -> None:
    torch.manual_seed(0)
    heads = build(HeadsConfig("sequential", 2, 24, 16, 1, _WORDS))
    Training(heads, target, known, plan(20), tmp_path / "good").run(lambda progress, share: None)
    good = {name: value.clone() for name, value in heads.state_dict().items()}
    wild = replace(plan(1), rate=10.0)
    Training(heads, target, known, wild, tmp_path / "wild").run(lambda progress, share: None)
    assert all(torch.equal(value, good[name]) for name, value in heads.state_dict().items())


def test_selections_leave_loops_out_and_count_each_text_once() -> None:
    texts = [tuple(range(12)), tuple(range(12)), (1, 2, 3, 4, 5, 6, 7, 8) * 2, (5, 6)]
    tokens = np.concatenate([np.array(text, np.int32) for text in texts])
    starts = np.cumsum([0, *map(len, texts)])
    some = States(np.zeros((len(tokens), 2), np.float16), tokens, starts, np.array([0, 0, 0, 0.7]), ("t",) * 4)
    found = {chosen.name: chosen.replies for chosen in selections(some)}
    assert found == {"greedy": (0,), "greedy_all": (0, 1, 2), "t07": (3,), "t07_all": (3,)}
