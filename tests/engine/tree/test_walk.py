"""The walk: by hand where all is greedy, and by chi-square against exact joints where the sampler draws."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tree.step import describe
from engine.tree.topology import Topology
from engine.tree.walk import child_with, greedy_path

TREE = Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0)])
VOCABULARY = 5
DEPTH = 3


def test_the_first_child_with_the_token_is_taken() -> None:
    # Rows: 1 (0,), 2 (0,0), 3 (0,0,0), 4 (1,), 5 (2,), 6 (0,1), 7 (1,0), 8 (1,0,0).
    drafts = [9, 8, 7, 9, 5, 6, 4, 3]
    assert child_with(TREE, drafts, 0, 9) == 1
    assert child_with(TREE, drafts, 0, 5) == 5
    assert child_with(TREE, drafts, 1, 6) == 6
    assert child_with(TREE, drafts, 1, 4) is None
    assert child_with(TREE, drafts, 5, 9) is None


def test_the_walk_follows_the_best_tokens_and_stops_where_none_is_drafted() -> None:
    drafts = [9, 8, 7, 6, 5, 4, 3, 2]
    assert greedy_path(TREE, drafts, [6, 0, 0, 0, 3, 0, 0, 2, 1]) == [4, 7, 8]
    assert greedy_path(TREE, drafts, [9, 4, 0, 0, 0, 0, 0, 0, 0]) == [1, 6]
    assert greedy_path(TREE, drafts, [1] * 9) == []
    assert greedy_path(TREE.prefix(3), drafts[:3], [9, 8, 7, 0]) == [1, 2, 3]


@given(st.lists(st.integers(0, 3), min_size=9, max_size=9), st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_a_path_is_a_path_and_its_tokens_are_the_best(best: list[int], drafts: list[int]) -> None:
    path = greedy_path(TREE, drafts, best)
    for before, row in zip([0, *path], path, strict=False):
        assert TREE.parents[row - 1] == before
        assert drafts[row - 1] == best[before]
    last = [0, *path][-1]
    assert all(drafts[child - 1] != best[last] for child in TREE.children[last])


def table() -> dict[tuple[int, ...], np.ndarray]:
    """Logits after every beginning of up to two tokens: the model."""
    random = np.random.default_rng(5)
    beginnings = [start for length in range(DEPTH) for start in itertools.product(range(VOCABULARY), repeat=length)]
    return {start: random.normal(0, 1.2, VOCABULARY) for start in beginnings}


def probabilities(logits: np.ndarray, temperature: float) -> np.ndarray:
    shares = np.exp(logits / temperature - (logits / temperature).max())
    return np.asarray(shares / shares.sum())


def exact_joint(temperature: float) -> np.ndarray:
    """[vocabulary] · 3: the probability of every three tokens."""
    model, joint = table(), np.empty((VOCABULARY,) * DEPTH)
    for tokens in itertools.product(range(VOCABULARY), repeat=DEPTH):
        joint[tokens] = math.prod(probabilities(model[tokens[:at]], temperature)[tokens[at]] for at in range(DEPTH))
    return joint


def sampling(rows: int, temperature: float) -> Any:
    import torch
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    none = torch.empty(0)
    return SamplingMetadata(
        temperature=torch.full((rows,), temperature),
        all_greedy=False,
        all_random=True,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=none,
        presence_penalties=none,
        repetition_penalties=none,
        output_token_ids=[],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors([]),
    )


def sampled(drafts: list[int], drafted: list[int], metadata: Any) -> np.ndarray:
    """[requests, 3] tokens of one step with trees over the same drafts, of the sizes `drafted`; -1 behind a reply's last."""
    import torch
    from vllm.v1.sample.sampler import Sampler

    from engine.tree.sampler import TreeSampler

    rows, model = len(drafted), table()
    sampler = TreeSampler(Sampler())
    starts = np.concatenate(([0], np.cumsum(np.array(drafted) + 1))).tolist()
    sampler.step = describe([str(row) for row in range(rows)], starts, [9] * rows, drafted, lambda name: TREE)
    paths = [tuple(drafts[node - 1] for node in lineage[1:]) for lineage in TREE.lineages]
    zeros = np.zeros(VOCABULARY)
    whole = np.stack([model.get(path, zeros) for path in paths])
    logits = torch.from_numpy(np.concatenate([whole[: size + 1] for size in drafted])).float()
    asked = SimpleNamespace(
        draft_token_ids=torch.tensor([token for size in drafted for token in drafts[:size]]),
        num_draft_tokens=drafted,
    )
    output = sampler(asked, None, logits, metadata).sampled_token_ids.numpy()
    tokens = np.full((rows, DEPTH), -1)
    tokens[:, : output.shape[1]] = output[:, :DEPTH]
    return tokens


def walked(drafts: list[int], sizes: list[int], temperature: float, rows: int) -> tuple[np.ndarray, int]:
    """Three tokens of `rows` requests, and how many trees gave more than one token.

    One step with trees of `sizes` in turn over the same drafts; what it leaves open is drawn from the model.
    """
    import torch

    torch.manual_seed(3)
    random, model = np.random.default_rng(4), table()
    tokens = sampled(drafts, [sizes[row % len(sizes)] for row in range(rows)], sampling(rows, temperature))
    several = int((tokens[:, 1] >= 0).sum())
    for row in tokens:
        for at in range(DEPTH):
            if row[at] < 0:
                row[at] = random.choice(VOCABULARY, p=probabilities(model[tuple(row[:at])], temperature))
    return tokens, several


@pytest.mark.parametrize("top_k", [None, 3])
def test_each_request_keeps_its_own_temperature_limits_and_generator_down_its_path(top_k: int | None) -> None:
    import torch
    from vllm.v1.sample.sampler import Sampler

    rows, model = 60, table()
    temperatures = [0.0 if row % 5 == 4 else 0.4 + 0.1 * (row % 7) for row in range(rows)]

    def metadata(chosen: list[int], generators: dict[int, torch.Generator]) -> Any:
        return replace(
            sampling(len(chosen), 1.0),
            temperature=torch.tensor([temperatures[row] for row in chosen]),
            top_k=None if top_k is None else torch.tensor([top_k + row % 2 for row in chosen], dtype=torch.int32),
            generators=generators,
        )

    def generators() -> dict[int, torch.Generator]:
        return {row: torch.Generator().manual_seed(row) for row in range(rows)}

    first = int(model[()].argmax())
    second = int(model[first,].argmax())
    drafts = [first, second, 0, (first + 1) % VOCABULARY, (first + 2) % VOCABULARY, (second + 1) % VOCABULARY, 0, 1]
    tokens = sampled(drafts, [[8, 5, 3, 0][row % 4] for row in range(rows)], metadata(list(range(rows)), generators()))
    assert len({int((row >= 0).sum()) for row in tokens}) == DEPTH
    alone = generators()
    for row in range(rows):
        for at in range(int((tokens[row] >= 0).sum())):
            logits = torch.from_numpy(model[tuple(tokens[row][:at])])[None].float()
            one = Sampler()(logits=logits, sampling_metadata=metadata([row], {0: alone[row]}))
            assert one.sampled_token_ids.item() == tokens[row][at]


def chi_square(tokens: np.ndarray, joint: np.ndarray) -> tuple[float, float]:
    """Pearson's statistic over cells of at least five expected, the rest as one; and its limit, five deviations."""
    counts = np.zeros_like(joint)
    np.add.at(counts, tuple(tokens.T), 1)
    expected = joint * len(tokens)
    often = expected >= 5
    rest = [counts[~often].sum()] if (~often).any() else []
    rest_expected = [expected[~often].sum()] if (~often).any() else []
    seen, due = np.array([*counts[often], *rest]), np.array([*expected[often], *rest_expected])
    freedom = len(seen) - 1
    return float(((seen - due) ** 2 / due).sum()), freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("sizes", [[8], [8, 5, 3, 1, 0]], ids=["whole", "truncated"])
@pytest.mark.parametrize("drafts", [[0, 1, 2, 3, 4, 2, 0, 1], [4, 0, 0, 4, 3, 0, 1, 2]], ids=["different", "doubled"])
def test_replies_are_distributed_as_without_trees(temperature: float, sizes: list[int], drafts: list[int]) -> None:
    tokens, several = walked(drafts, sizes, temperature, 8_000)
    assert several > 1000
    statistic, limit = chi_square(tokens, exact_joint(temperature))
    assert statistic < limit


def test_the_statistic_notices_a_distribution_that_is_a_little_off() -> None:
    tokens, _ = walked([0, 1, 2, 3, 4, 2, 0, 1], [8], 1.0, 8_000)
    statistic, limit = chi_square(tokens, exact_joint(1.1))
    assert statistic > limit
