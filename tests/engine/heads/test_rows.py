"""Rows of replies, whether read from a file or held on the device, and what the loss makes of them."""

from dataclasses import replace

import numpy as np
import small
import torch

from engine.heads.loss import Recipe, Rows, forced, loss
from engine.heads.rows import reader, resident, rows_of
from engine.heads.states import States


def some_states(lengths: tuple[int, ...]) -> States:
    random = np.random.default_rng(0)
    total = sum(lengths)
    hidden = random.normal(size=(total, small.HIDDEN)).astype(np.float16)
    tokens = random.integers(small.VOCABULARY, size=total).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return States(hidden, tokens, starts, np.zeros(len(lengths)), ("t",) * len(lengths))


def test_rows_held_on_the_device_are_those_that_are_read() -> None:
    states = some_states((5, 1, 3, 7))
    for chosen in ([2, 0, 3], [1], [0, 1, 2, 3]):
        read, read_starts = rows_of(states, "cpu", chosen)
        held, held_starts = resident(states, "cpu")(chosen)
        assert read_starts == held_starts
        for name in ("hidden", "tokens", "left"):
            assert torch.equal(getattr(read, name), getattr(held, name))


def test_rows_of_a_reply_count_down_what_is_left() -> None:
    rows, starts = reader(some_states((2, 4)), "cpu")([1, 0])
    assert starts == [0, 4, 6]
    assert rows.left.tolist() == [3, 2, 1, 0, 1, 0]


def by_hand(rows: Rows, recipe: Recipe) -> torch.Tensor:
    """The loss as its description says, over the tokens that can be drafted, row by row."""
    heads, target = small.heads("sequential"), small.target()
    total = torch.zeros(())
    weight = torch.ones(len(rows.tokens))
    for depth, (at, output) in enumerate(forced(heads, target, rows)):
        terms = []
        for row, own in zip(at.tolist(), output, strict=True):
            truth = row + depth + 1
            shares = torch.softmax(target.vocabulary @ rows.hidden[truth] / recipe.temperature, -1)
            logs = torch.log_softmax(target.vocabulary @ own, -1)
            token = int(target.index[rows.tokens[truth]])
            said = logs[token] if token >= 0 else torch.zeros(())
            terms.append(weight[row] * -(recipe.hard * said + (1 - recipe.hard) * (shares * logs).sum()))
            drafted = min(1.0, 10 * said.exp().item()) if token >= 0 else 0.0
            weight[row] *= 1 - recipe.focus + recipe.focus * drafted
        total = total + recipe.decay**depth * torch.stack(terms).mean()
    return total


def test_the_loss_is_what_its_recipe_says() -> None:
    rows, _ = small.rows((6, 9, 3))
    plain = Recipe(hard=0.3, decay=0.8, keep=1.0)
    for recipe in (plain, replace(plain, temperature=0.7), replace(plain, focus=0.8)):
        found = loss(small.heads("sequential"), small.target(), rows, recipe)
        assert torch.allclose(found, by_hand(rows, recipe), rtol=1e-4)
