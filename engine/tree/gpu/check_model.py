"""A decoder of Llama's kind with random weights, over vLLM's paged cache: enough of a model to time and prove steps with."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from engine.tree.gpu.attention_kernel import attend
from engine.tree.gpu.check_cases import PAGE
from engine.tree.gpu.row_tiles import AttentionShape, RowTiles
from engine.tree.topology import Topology

_ROTARY_BASE = 500000.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model.

    Attributes:
        name: to print.
        layers: of attention and of a gated block.
        hidden: width of a state.
        inner: width inside a gated block.
        vocabulary: tokens.
        attention: heads.
    """

    name: str
    layers: int
    hidden: int
    inner: int
    vocabulary: int
    attention: AttentionShape

    @property
    def query_width(self) -> int:
        """Of all query heads."""
        return self.attention.query_heads * self.attention.head_size

    @property
    def kv_width(self) -> int:
        """Of all key heads."""
        return self.attention.kv_heads * self.attention.head_size


LLAMA = Sizes("Llama-3-8B", 32, 4096, 14336, 128256, AttentionShape(32, 8, 128, 2))
SMOL = Sizes("SmolLM2-135M", 30, 576, 1536, 49152, AttentionShape(9, 3, 64, 2))
TINY = Sizes("tiny", 2, 64, 96, 101, AttentionShape(4, 2, 32, 4))


class Decoder:
    """The model with a cache.

    Args:
        sizes: of it.
        dtype: of weights and cache.
        device: to be on.
        pages: of each layer's cache.
    """

    def __init__(self, sizes: Sizes, dtype: torch.dtype, device: str, pages: int) -> None:
        self.sizes, self._device = sizes, device
        torch.manual_seed(11)

        def weight(rows: int, columns: int) -> torch.Tensor:
            return torch.empty(rows, columns, dtype=dtype, device=device).normal_(std=columns**-0.5)

        self.layers = [
            (
                weight(sizes.query_width + 2 * sizes.kv_width, sizes.hidden),
                weight(sizes.hidden, sizes.query_width),
                weight(2 * sizes.inner, sizes.hidden),
                weight(sizes.hidden, sizes.inner),
            )
            for _ in range(sizes.layers)
        ]
        self.embedding = weight(sizes.vocabulary, sizes.hidden)
        self.vocabulary = weight(sizes.vocabulary, sizes.hidden)
        shape = sizes.attention
        self.caches = [
            torch.zeros(pages, PAGE, shape.kv_heads, 2 * shape.head_size, dtype=dtype, device=device).transpose(1, 2)
            for _ in range(sizes.layers)
        ]
        exponents = torch.arange(0, shape.head_size, 2, device=device, dtype=torch.float32) / shape.head_size
        self._frequencies = _ROTARY_BASE**-exponents

    @property
    def weight_bytes(self) -> int:
        """That a step reads, however many rows it has."""
        matrices = [matrix for layer in self.layers for matrix in layer] + [self.vocabulary]
        return sum(matrix.numel() * matrix.element_size() for matrix in matrices)

    def products(self, rows: int) -> torch.Tensor:
        """The matrix products of a step alone, one after the other on states of no meaning."""
        sizes = self.sizes
        state = self.embedding[:rows]
        for mixed, out, gated, down in self.layers:
            heads = functional.linear(state, mixed)
            state = functional.linear(heads[:, : sizes.query_width], out)
            inner = functional.linear(state, gated)
            state = functional.linear(inner[:, : sizes.inner], down)
        return functional.linear(state, self.vocabulary)

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, step: RowTiles
    ) -> torch.Tensor:
        """[rows, hidden] states that the vocabulary matrix is multiplied with; keys and values are left in the cache.

        Args:
            tokens: [rows].
            positions: [rows] for the rotation.
            slots: [rows] places in the cache.
            step: which rows belong together.
        """
        sizes, shape = self.sizes, self.sizes.attention
        state = functional.embedding(tokens, self.embedding)
        angles = positions[:, None].float() * self._frequencies
        turn = torch.polar(torch.ones_like(angles), angles)[:, None]
        page, place = slots // PAGE, slots % PAGE
        for (mixed, out, gated, down), cache in zip(self.layers, self.caches, strict=True):
            heads = functional.linear(_normed(state), mixed)
            query, key, value = heads.split([sizes.query_width, sizes.kv_width, sizes.kv_width], -1)
            query = _turned(query.unflatten(-1, (-1, shape.head_size)), turn)
            key = _turned(key.unflatten(-1, (-1, shape.head_size)), turn)
            cache[page, :, place] = torch.cat((key, value.unflatten(-1, (-1, shape.head_size))), -1)
            keys, values = cache.transpose(1, 2).split(shape.head_size, -1)
            attended = torch.empty_like(query)
            attend(query, keys, values, attended, step, shape.head_size**-0.5)
            state = state + functional.linear(attended.flatten(1), out)
            gate, through = functional.linear(_normed(state), gated).chunk(2, -1)
            state = state + functional.linear(functional.silu(gate) * through, down)
        return _normed(state)

    def best(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows] the most probable token after each row; compared in float32, as vLLM does."""
        return functional.linear(hidden, self.vocabulary).float().argmax(-1)


def _normed(state: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(state, state.shape[-1:])


def _turned(heads: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(heads.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(heads.dtype)


@dataclass(frozen=True, slots=True)
class Rows:
    """What `Decoder.forward` takes for one step.

    Attributes:
        positions: [rows].
        slots: [rows].
        step: the tiles.
    """

    positions: torch.Tensor
    slots: torch.Tensor
    step: RowTiles

    @classmethod
    def of(
        cls,
        counts: Sequence[int],
        contexts: Sequence[int],
        tables: torch.Tensor,
        trees: dict[int, Topology],
        shape: AttentionShape,
        processors: int,
    ) -> "Rows":
        """As `RowTiles.of`; rows of trees stand at their depth, each in a place of its own."""
        positions, slots = [], []
        for row, (count, context) in enumerate(zip(counts, contexts, strict=True)):
            depths = [0, *trees[row].depths] if row in trees else list(range(count))
            positions += [context + depth for depth in depths]
            pages = tables[row].tolist()
            slots += [pages[at // PAGE] * PAGE + at % PAGE for at in range(context, context + count)]
        device = tables.device
        return cls(
            torch.tensor(positions, device=device),
            torch.tensor(slots, device=device),
            RowTiles.of(counts, contexts, tables, trees, shape, processors),
        )
