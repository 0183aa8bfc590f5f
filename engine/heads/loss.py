"""What heads are trained to do: say at every depth what the target itself says there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from engine.heads.architectures import Heads

_LEAST_SHARE = 0.02
_COMMON = 512
# A token that a head gives this share to has its place in any tree.
_IN_A_TREE = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """What heads share with the target model, cut to the tokens they may draft.

    Attributes:
        vocabulary: [draft vocabulary, hidden] rows of its vocabulary matrix.
        embedding: [vocabulary, hidden] its input embedding.
        token_map: [draft vocabulary] the token of each row.
        index: [vocabulary] the row of each token; -1 where it cannot be drafted.
        own: for each depth a matrix like `vocabulary`, where heads come with their own; else empty.
    """

    vocabulary: torch.Tensor
    embedding: torch.Tensor
    token_map: torch.Tensor
    index: torch.Tensor
    own: tuple[torch.Tensor, ...] = ()

    def matrix(self, depth: int) -> torch.Tensor:
        """What the outputs of a head are multiplied with."""
        return self.own[depth] if self.own else self.vocabulary

    @classmethod
    def of(
        cls,
        vocabulary: torch.Tensor,
        embedding: torch.Tensor,
        token_map: torch.Tensor,
        own: Sequence[torch.Tensor] = (),
    ) -> "Target":
        """From whole matrices [vocabulary, hidden]."""
        index = torch.full((vocabulary.shape[0],), -1, dtype=torch.long, device=vocabulary.device)
        index[token_map] = torch.arange(len(token_map), device=vocabulary.device)
        rows = tuple(matrix[token_map].contiguous() for matrix in own)
        return cls(vocabulary[token_map].contiguous(), embedding, token_map, index, rows)


@dataclass(frozen=True, slots=True)
class Rows:
    """Replies one after the other, as `engine.heads.states` keeps them.

    Attributes:
        hidden: [rows, hidden].
        tokens: [rows].
        left: [rows] how many rows of the same reply follow.
    """

    hidden: torch.Tensor
    tokens: torch.Tensor
    left: torch.Tensor


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the parts of the loss are weighed.

    Attributes:
        hard: weight of the token that was said, 0 to 1; the rest is the distribution's (distillation: Hinton et al.,
            arXiv 1503.02531).
        decay: weight of each further depth against the one before, as in Medusa's own training.
        keep: share of the rows that goes on from one depth to the next.
        temperature: of the target's distribution. Replies sampled at 0.7 are exactly distributed as that says.
        focus: 0 to 1, how much less a row weighs at further depths where the tokens before were hardly drafted: a tree
            is not followed there, and what the heads can hold is better spent where it is.
    """

    hard: float = 0.2
    decay: float = 0.9
    keep: float = 0.8
    temperature: float = 1.0
    focus: float = 0.0


def forced(heads: Heads, target: Target, rows: Rows, keep: float = 1.0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every head along the replies' own tokens.

    Args:
        heads: run.
        target: the model they belong to.
        rows: replies.
        keep: share of the rows that goes on from one depth to the next, drawn at random: later heads are reached less
            often and can be trained on less.

    Yields:
        For each depth, from the first head on: the rows [n] it drafts from, and its outputs [n, hidden]. What it must
        predict stands depth + 1 rows below.
    """
    at = torch.arange(len(rows.tokens), device=rows.tokens.device)
    state = heads.start(rows.hidden)
    tokens = heads.embed(target.embedding[rows.tokens])
    for depth in range(heads.config.depth):
        live = rows.left[at] > depth
        if depth and keep < 1:
            live &= torch.rand(len(live), device=live.device) < keep
        at, state = at[live], state[live]
        state = heads.step(depth, state, tokens[at + depth])
        yield at, heads.output(depth, state)


def loss(heads: Heads, target: Target, rows: Rows, recipe: Recipe) -> torch.Tensor:
    """Cross-entropy against the target's own distribution, mixed with that against the token that was said.

    On a CPU only tokens that matter somewhere in these rows are compared, which spares most of the vocabulary matrix;
    which ones they are changes from batch to batch.

    Args:
        heads: trained.
        target: not trained.
        rows: replies.
        recipe: how the parts are weighed.

    Returns:
        Mean over rows, summed over depths.
    """
    shares, said, vocabulary = _aims(target, rows, recipe.temperature)
    total = rows.hidden.new_zeros(())
    weight = rows.hidden.new_ones(len(rows.tokens))
    for depth, (at, output) in enumerate(forced(heads, target, rows, recipe.keep)):
        logs = functional.log_softmax(output @ vocabulary.T, -1)
        soft = -(shares[at + depth + 1] * logs).sum(-1)
        token = said[at + depth + 1]
        own = logs.gather(1, token.clamp_min(0)[:, None]).squeeze(1)
        sharp = -own * (token >= 0)
        total = total + recipe.decay**depth * (weight[at] * torch.lerp(soft, sharp, recipe.hard)).mean()
        if recipe.focus:
            drafted = (own.detach().exp() / _IN_A_TREE).clamp_max(1) * (token >= 0)
            weight[at] *= 1 - recipe.focus + recipe.focus * drafted
    return total


@torch.no_grad()  # type: ignore[untyped-decorator]
def _aims(target: Target, rows: Rows, temperature: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the target says in each row: shares [rows, compared] and the said token [rows], -1 where it is not compared;
    and the vocabulary's rows that are compared. A GPU reads them all faster than it finds out which matter."""
    shares = functional.softmax(rows.hidden @ target.vocabulary.T / temperature, -1)
    said = target.index[rows.tokens]
    if shares.is_cuda:
        return shares, said, target.vocabulary
    columns = _columns(shares, said)
    shares = functional.normalize(shares[:, columns], p=1, dim=-1)
    place = torch.full((len(target.vocabulary) + 1,), -1, device=columns.device)
    place[columns] = torch.arange(len(columns), device=columns.device)
    return shares, place[said], target.vocabulary[columns]


def _columns(shares: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    """Rows of the vocabulary that are compared: what the target gives a share to or said, and the commonest tokens."""
    wanted = shares.amax(0) > _LEAST_SHARE
    wanted[:_COMMON] = True
    wanted[said[said >= 0]] = True
    return wanted.nonzero().squeeze(1)
