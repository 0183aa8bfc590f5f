"""How many tokens a step yields with given heads, on replies they have not seen; the numbers behind the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from engine.heads.acceptance import accepted, path_shares, tokens_per_step
from engine.heads.architectures import MedusaHeads, SequentialHeads
from engine.heads.loss import Target
from engine.heads.replies import loop_start
from engine.heads.rows import Reader, rows_of
from engine.heads.states import States
from engine.heads.training import all_ranks
from engine.heads.tree_choice import Path, PathShare, likeliest

# A list of every path that was ever said would be long, and its end is noise.
_KEPT_PATHS = 256
GREEDY, SAMPLED = "greedy", "t07"


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of the replies.

    Attributes:
        name: of the selection.
        replies: indices into the states.
    """

    name: str
    replies: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Heads on a selection.

    Attributes:
        replies: in the selection.
        tokens: in them.
        tokens_per_step: for each tree.
        right: for each depth the share of rows whose said token was the first candidate, the path before it given.
    """

    replies: int
    tokens: int
    tokens_per_step: Mapping[str, float]
    right: tuple[float, ...]


def selections(states: States) -> list[Selection]:
    """Replies by temperature, those without loops and all of them."""
    found = []
    for name, greedy in ((GREEDY, True), (SAMPLED, False)):
        chosen = [at for at in range(states.replies) if (states.temperatures[at] == 0) == greedy]
        distinct = list({states.tokens[_span(states, at)].tobytes(): at for at in reversed(chosen)}.values())[::-1]
        clean = [at for at in distinct if loop_start(states.tokens[_span(states, at)].tolist()) is None]
        found.append(Selection(name, tuple(clean)))
        found.append(Selection(f"{name}_all", tuple(chosen)))
    return found


def trees(shares: Sequence[PathShare], depth: int) -> dict[str, list[Path]]:
    """The trees that figures are given for."""
    chain: list[Path] = [(0,) * length for length in range(1, depth + 1)]
    sizes = (8, 16, 31, 63)
    return {"chain": chain} | {f"tree{size}": likeliest(shares, size) for size in sizes if size <= len(shares)}


def scores(
    heads: MedusaHeads | SequentialHeads, target: Target, states: States, judged: Mapping[str, Sequence[Path]]
) -> dict[str, Score]:
    """Every selection that is not empty, replayed; the heads run once over all replies."""
    ranks, starts = all_ranks(heads, target, _reader(target, states), range(states.replies))
    by_reply = [ranks[first:end] for first, end in pairwise(starts)]
    return {
        chosen.name: _score([by_reply[reply] for reply in chosen.replies], judged)
        for chosen in selections(states)
        if chosen.replies
    }


def _score(by_reply: Sequence[np.ndarray], judged: Mapping[str, Sequence[Path]]) -> Score:
    ranks, starts = np.concatenate(by_reply), [0, *np.cumsum([len(own) for own in by_reply]).tolist()]
    return Score(
        replies=len(by_reply),
        tokens=starts[-1],
        tokens_per_step={name: tokens_per_step(accepted(ranks, paths), starts) for name, paths in judged.items()},
        right=tuple(float((ranks[:, depth] == 0).mean()) for depth in range(ranks.shape[1])),
    )


def scores_json(found: Mapping[str, Score]) -> dict[str, Any]:
    """For each selection its size, tokens per step by tree, and the share of right first candidates by depth."""
    return {
        name: {
            "replies": value.replies,
            "tokens": value.tokens,
            "tokens_per_step": {tree: round(length, 4) for tree, length in value.tokens_per_step.items()},
            "right_by_depth": [round(share, 4) for share in value.right],
        }
        for name, value in found.items()
    }


def calibrate(
    heads: MedusaHeads | SequentialHeads, target: Target, states: States, replies: Sequence[int]
) -> list[PathShare]:
    """Joint accuracies along paths, likeliest first, over every row of some replies."""
    ranks, _ = all_ranks(heads, target, _reader(target, states), replies)
    return [PathShare(path, count / len(ranks)) for path, count in path_shares(ranks).most_common(_KEPT_PATHS)]


def _reader(target: Target, states: States) -> Reader:
    return partial(rows_of, states, str(target.vocabulary.device))


def _span(states: States, reply: int) -> slice:
    return slice(int(states.starts[reply]), int(states.starts[reply + 1]))
