"""The two kinds of heads. Both end in the target's own vocabulary matrix, so a head only moves a hidden state.

`start` makes the state a draft begins with, `step` moves it past one chosen token, `output` is what the vocabulary
matrix is multiplied with. Independent heads ignore the token; that is all that sets the two apart for their callers.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from engine.heads.config import HeadsConfig

NORM_EPSILON = 1e-6

# What multiplies rows [n, in] with a matrix [out, in]; an engine may have a faster one than torch.
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Heads(Protocol):
    """A set of heads."""

    config: HeadsConfig
    product: Product

    def start(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden] last hidden states of the target, as its vocabulary matrix sees them -> [n, state]."""

    def embed(self, embedded: torch.Tensor) -> torch.Tensor:
        """[n, hidden] embeddings of tokens -> [n, any] what `step` takes: the part that no state changes."""

    def step(self, depth: int, state: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """State after one more token, as `embed` returned it. `depth` counts from 0, where that is the bonus token."""

    def output(self, depth: int, state: torch.Tensor) -> torch.Tensor:
        """[n, hidden] to be multiplied with the vocabulary: the token after the one that `step(depth)` took in."""


class MedusaHeads(nn.Module):  # type: ignore[misc]
    """Independent heads: head i is a residual SiLU block on the hidden state (Cai et al., arXiv 2401.10774).

    The vocabulary matrix is not trained: with it a head of a small model would be larger than the model.
    """

    def __init__(self, config: HeadsConfig) -> None:
        super().__init__()
        self.config = config
        self.product: Product = nn.functional.linear
        size = (config.depth, config.layers, config.hidden)
        # Zero: a fresh head says what the target says.
        self.weight = nn.Parameter(torch.zeros(*size, config.hidden))
        self.bias = nn.Parameter(torch.zeros(size))

    def start(self, hidden: torch.Tensor) -> torch.Tensor:
        """The hidden state itself."""
        return hidden

    def embed(self, embedded: torch.Tensor) -> torch.Tensor:
        """Nothing: independent heads do not see what was chosen."""
        return embedded[:, :0]

    def step(self, depth: int, state: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """Unchanged."""
        return state

    def output(self, depth: int, state: torch.Tensor) -> torch.Tensor:
        """The block of one head."""
        for weight, bias in zip(self.weight[depth], self.bias[depth], strict=True):
            state = state + nn.functional.silu(self.product(state, weight) + bias)
        return state


class SequentialHeads(nn.Module):  # type: ignore[misc]
    """Heads that see the tokens already chosen (Hydra, Ankner et al., arXiv 2402.05109), as one recurrent core.

    Hydra gives every head the concatenation of all chosen embeddings. Here the state carries them: each step adds what
    gated blocks make of state and embedding, and all depths share the blocks, so that they are trained on every depth,
    fit into a cache and a file of a few megabytes, and cost the same at any depth. A scale and a shift of its own let
    each depth differ.
    """

    def __init__(self, config: HeadsConfig) -> None:
        super().__init__()
        self.config = config
        self.product: Product = nn.functional.linear
        hidden, inner = config.hidden, config.inner
        self.states = nn.ParameterList(_uniform(inner * 2, hidden) for _ in range(config.layers))
        self.tokens = nn.Parameter(_uniform(config.layers * inner * 2, hidden))
        self.downs = nn.ParameterList(torch.zeros(hidden, inner) for _ in range(config.layers))
        self.carry = nn.Parameter(torch.ones(config.depth, hidden))
        self.scale = nn.Parameter(torch.ones(config.depth, hidden))
        self.shift = nn.Parameter(torch.zeros(config.depth, config.layers * inner * 2))

    def start(self, hidden: torch.Tensor) -> torch.Tensor:
        """The hidden state itself."""
        return hidden

    def embed(self, embedded: torch.Tensor) -> torch.Tensor:
        """[n, layers * inner * 2] what the tokens add inside each block."""
        return self.product(_normed(embedded), self.tokens)

    def step(self, depth: int, state: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """The core once more."""
        state = state * self.carry[depth]
        added = (token + self.shift[depth]).chunk(self.config.layers, -1)
        for weight, own, down in zip(self.states, added, self.downs, strict=True):
            gate, through = (self.product(_normed(state), weight) + own).chunk(2, -1)
            state = state + self.product(nn.functional.silu(gate) * through, down)
        return state

    def output(self, depth: int, state: torch.Tensor) -> torch.Tensor:
        """The state, scaled for its depth."""
        return state * self.scale[depth]


def build(config: HeadsConfig) -> MedusaHeads | SequentialHeads:
    """Untrained heads."""
    return MedusaHeads(config) if config.architecture == "medusa" else SequentialHeads(config)


def _uniform(rows: int, columns: int) -> torch.Tensor:
    bound = columns**-0.5
    return torch.empty(rows, columns).uniform_(-bound, bound)


def _normed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON)
