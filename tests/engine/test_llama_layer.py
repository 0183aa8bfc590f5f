"""All of a Llama model but its attention, in the compiled loops, against the same in float64; without an engine."""

import functools
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.functional import silu

from engine.native.library import Kept, library
from engine.native.llama_layer import LayerWeights, LlamaLayers, Sizes, suits
from engine.native.panels import Panels
from tests.engine.loops import as_kept, as_multiplied

HIDDEN, INNER, LAYERS = 96, 160, 3
SIZES = Sizes(queries=128, keys=64, head=32, epsilon=1e-5)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Model:
    """Random weights, and what they say in float64. What is attended to is a fixed function of queries and values."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        shapes = [
            (SIZES.queries + 2 * SIZES.keys, HIDDEN),
            (HIDDEN, SIZES.queries),
            (2 * INNER, HIDDEN),
            (HIDDEN, INNER),
        ]
        self.matrices = [
            [random(10 * layer + place, *shape) / shape[1] ** 0.5 for place, shape in enumerate(shapes)]
            for layer in range(LAYERS)
        ]
        self.norms = [1 + 0.1 * random(100 + layer, 2, HIDDEN) for layer in range(LAYERS)]
        self.last = 1 + 0.1 * random(200, HIDDEN)
        turns = torch.arange(300.0)[:, None] / 100 ** (torch.arange(SIZES.head // 2) / 16)
        self.angles = torch.cat((turns.cos(), turns.sin()), -1)
        self.layers = [
            LayerWeights(*(Panels(matrix, kept) for matrix in matrices), *norms)
            for matrices, norms in zip(self.matrices, self.norms, strict=True)
        ]

    def compiled(self, residual: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        layers = LlamaLayers(self.layers, SIZES, self.last, self.angles)
        return layers.run(residual.clone(), positions, lambda _, qkv: attended(qkv).contiguous())

    def exact(self, residual: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        residual = residual.double()
        cosine, sine = self.angles[positions].double()[:, None].chunk(2, -1)
        for matrices, norms in zip(self.matrices, self.norms, strict=True):
            qkv, output, gate_up, down = matrices
            rows = self.product(normed(residual, norms[0]), qkv)
            heads = rows[:, : SIZES.queries + SIZES.keys].reshape(len(rows), -1, SIZES.head)
            first, second = heads.chunk(2, -1)
            turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
            seen = attended(torch.cat((turned.flatten(1), rows[:, -SIZES.keys :]), 1))
            residual = residual + self.product(seen, output)
            gate, up = self.product(normed(residual, norms[1]), gate_up).chunk(2, -1)
            residual = residual + self.product(silu(gate) * up, down)
        return normed(residual, self.last)

    def product(self, x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return as_multiplied(x, self.kept) @ as_kept(matrix, self.kept).T


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + SIZES.epsilon) * weight


def attended(qkv: torch.Tensor) -> torch.Tensor:
    queries, keys, values = qkv.split([SIZES.queries, SIZES.keys, SIZES.keys], -1)
    return queries * (keys + values).repeat(1, 2)


@functools.cache
def model_of(kept: Kept, loops: object) -> Model:
    return Model(kept)


@pytest.fixture
def model(kept: Kept) -> Model:
    """For the loops at hand."""
    return model_of(kept, library(kept))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 20), seed=st.integers(0, 999), scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_it_says_what_float64_says(model: Model, rows: int, seed: int, scale: float) -> None:
    residual = scale * random(seed, rows, HIDDEN)
    positions = torch.randint(0, 300, (rows,), generator=torch.Generator().manual_seed(seed))
    result, exact = model.compiled(residual, positions).double(), model.exact(residual, positions)
    if model.kept == "float16":
        torch.testing.assert_close(result, exact, atol=1e-3, rtol=1e-3)
    else:
        # What float64 rounds to one step in 254 the loops may round to the next, and three layers make more of it.
        assert (result - exact).square().mean().sqrt() < 0.1


@pytest.mark.parametrize("rows", [2, 6, 7, 17, 95, 97, 193])
def test_a_row_does_not_depend_on_the_rows_beside_it(model: Model, rows: int) -> None:
    residual, positions = random(1, rows, HIDDEN), torch.arange(rows)
    together = model.compiled(residual, positions)
    alone = [model.compiled(residual[row : row + 1], positions[row : row + 1])[0] for row in range(rows)]
    assert torch.equal(together, torch.stack(alone))


def test_other_sizes_are_left_to_others(model: Model) -> None:
    layers, angles = model.layers, model.angles
    assert suits(layers, SIZES, angles)
    assert not suits(layers, Sizes(queries=128, keys=32, head=32, epsilon=1e-5), angles)
    assert not suits(layers, Sizes(queries=128, keys=64, head=8, epsilon=1e-5), angles[:, :8].contiguous())
    assert not suits(layers, SIZES, angles.double())


def test_matrices_that_are_kept_in_several_ways_are_left_to_others(model: Model) -> None:
    other: Kept = "float16" if model.kept == "int8" else "int8"
    if library(other) is None:
        pytest.skip("there is one way here")
    down = Panels(model.matrices[0][3], other)
    assert not suits([replace(model.layers[0], down=down), *model.layers[1:]], SIZES, model.angles)
