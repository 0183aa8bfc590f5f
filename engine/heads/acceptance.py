"""How many drafted tokens the target would have kept, replayed over replies that it has already written.

A node of a tree is kept when the target says exactly its token. On a given reply that is known beforehand: the token
that is said at each depth has some rank among the head's candidates, the tokens before it being the said ones, and the
path of these ranks is followed as far as the tree has it. So one pass over the rows gives ranks from which every tree
is judged. Exact for any temperature, since verification takes the sample first and then looks for it among the
children (SpecInfer, arXiv 2305.09781).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from engine.heads.architectures import Heads
from engine.heads.loss import Rows, Target, forced

# A tree asks for no candidate behind this one.
RANKS = 64


@torch.inference_mode()  # type: ignore[untyped-decorator]
def ranks(heads: Heads, target: Target, rows: Rows) -> np.ndarray:
    """Rank of every said token among the candidates of the head that should have drafted it.

    Returns:
        [rows, depth] int16, 0 the first candidate; `RANKS` where it is none of the first `RANKS`, or where the reply
        is over.
    """
    found = np.full((len(rows.tokens), heads.config.depth), RANKS, np.int16)
    for depth, (at, output) in enumerate(forced(heads, target, rows)):
        wanted = target.index[rows.tokens[at + depth + 1]]
        logits = output @ target.matrix(depth).T
        own = logits.gather(1, wanted.clamp_min(0)[:, None])
        rank = (logits > own).sum(1).clamp_max(RANKS)
        rank[wanted < 0] = RANKS
        found[at.cpu().numpy(), depth] = rank.cpu().numpy()
    return found


def accepted(ranks: np.ndarray, paths: Iterable[tuple[int, ...]]) -> np.ndarray:
    """[rows] drafted tokens kept by a step that drafts from each row, with a tree of these `paths` of ranks."""
    tree = frozenset(paths)
    count = np.zeros(len(ranks), np.int64)
    for row, along in enumerate(ranks.tolist()):
        path: tuple[int, ...] = ()
        while len(path) < len(along) and (longer := (*path, along[len(path)])) in tree:
            path = longer
        count[row] = len(path)
    return count


def tokens_per_step(accepted: np.ndarray, starts: Sequence[int]) -> float:
    """Acceptance length over whole replies, the bonus token counted.

    A reply's first token is the prompt's, not a step's: a reply of n tokens takes n - 1 from steps.

    Args:
        accepted: [rows].
        starts: [replies + 1] first row of each reply.
    """
    tokens = steps = 0
    for first, end in zip(starts, starts[1:], strict=False):
        row = int(first)
        while row < end - 1:
            row += int(accepted[row]) + 1
            steps += 1
        tokens += int(end - 1 - first)
    return tokens / steps if steps else 1.0


def path_shares(ranks: np.ndarray) -> Counter[tuple[int, ...]]:
    """How often each path of ranks was the said one, every prefix counted: joint accuracies, times the rows."""
    shares: Counter[tuple[int, ...]] = Counter()
    for along in ranks.tolist():
        for length in range(1, len(along) + 1):
            if along[length - 1] >= RANKS:
                break
            shares[tuple(along[:length])] += 1
    return shares
