"""Which tokens heads may draft: the ones that replies are made of. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence


def commonest(replies: Iterable[Sequence[int]], size: int, vocabulary: int) -> list[int]:
    """`size` token ids, the commonest first; where fewer occur, the lowest others follow.

    Every token left out costs the steps at which it is said, every token kept costs memory traffic at each depth of
    each step (Zhao et al., FR-Spec, arXiv 2502.14856).

    Raises:
        ValueError: `size` is larger than the vocabulary.
    """
    if size > vocabulary:
        raise ValueError(f"draft vocabulary: {size} tokens of {vocabulary}")
    counts = Counter(token for reply in replies for token in reply)
    chosen = [token for token, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:size]]
    known = set(chosen)
    chosen += [token for token in range(vocabulary) if token not in known][: size - len(chosen)]
    return chosen
