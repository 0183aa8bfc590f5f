"""What followed when the text last said what it says now: drafts that cost no model. Pure.

A reply that quotes its prompt, or itself, repeats runs of tokens. The longest run that ends the text and has occurred
before is looked up, and what came after it is likely to come again (prompt lookup decoding: Saxena 2023,
github.com/apoorvumang/prompt-lookup-decoding; Yang et al., arXiv 2304.04487).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Runs that are looked up, tokens: shorter ones agree by chance, longer ones say no more.
SHORTEST = 3
LONGEST = 5


class Continuation(NamedTuple):
    """Attributes:
    tokens: what came after the run, at least one.
    match: tokens of the run.
    """

    tokens: list[int]
    match: int


def continuation(token_ids: npt.NDArray[np.int32], most: int) -> Continuation | None:
    """What followed the latest of the longest runs that agree with the end of the text; None without one.

    Args:
        token_ids: [tokens] the text so far.
        most: tokens to return at most.
    """
    count = len(token_ids)
    if count <= SHORTEST:
        return None
    # At index i: whether the run of the shortest length that ends before token i + SHORTEST agrees; every run is
    # followed by a token at least.
    agree = token_ids[SHORTEST - 1 : -1] == token_ids[-1]
    for back in range(2, SHORTEST + 1):
        agree &= token_ids[SHORTEST - back : -back] == token_ids[-back]
    ends = np.flatnonzero(agree) + SHORTEST
    if not len(ends):
        return None
    match = SHORTEST
    for length in range(SHORTEST + 1, min(LONGEST, count - 1) + 1):
        longer = ends[ends >= length]
        longer = longer[token_ids[longer - length] == token_ids[-length]]
        if not len(longer):
            break
        ends, match = longer, length
    end = int(ends[-1])
    return Continuation(token_ids[end : end + most].tolist(), match)
