"""Which nodes a tree should have, and how many: from joint accuracies along paths and the cost of a step. Pure.

The expected tokens of a step are 1 + Σ over nodes of the probability that the node's whole path is said. A path is
never likelier than its parent, so the best tree of N nodes is simply the N likeliest paths (Medusa, arXiv 2401.10774,
builds the same tree greedily, but from accuracies taken as independent; here they are joint). How many nodes pay is the
machine's matter: the number with the most tokens per second.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PathShare:
    """How often the tokens that were said stood on this path.

    Attributes:
        path: ranks from the root.
        share: of all steps, 0 to 1.
    """

    path: Path
    share: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A size of tree, for one batch size.

    Attributes:
        batch: requests in a step.
        nodes: of the tree; 0 is no speculation.
        tokens_per_step: expected, for each request.
        step_s: measured or fitted.
    """

    batch: int
    nodes: int
    tokens_per_step: float
    step_s: float

    @property
    def tokens_per_s(self) -> float:
        """Of each request."""
        return self.tokens_per_step / self.step_s


def path_shares_of(about: Mapping[str, Any]) -> list[PathShare]:
    """The joint accuracies that a file of heads keeps.

    Raises:
        ValueError: it keeps none.
    """
    kept = about.get("paths")
    if not isinstance(kept, list) or not kept:
        raise ValueError("these heads keep no accuracies along paths: judge them first")
    return [PathShare(tuple(path), float(share)) for path, share in kept]


def acceptance_length(shares: Sequence[PathShare], paths: Iterable[Path]) -> float:
    """Tokens of a step with a tree of these paths, the bonus token counted."""
    known = {entry.path: entry.share for entry in shares}
    return 1.0 + sum(known.get(path, 0.0) for path in paths)


def likeliest(shares: Sequence[PathShare], nodes: int) -> list[Path]:
    """Paths of the best tree with this many nodes, or of all known ones."""
    return [entry.path for entry in ranked(shares)[:nodes]]


def ranked(shares: Sequence[PathShare]) -> list[PathShare]:
    """Likeliest first; of equal ones parents first, so that every prefix is a tree."""
    return sorted(shares, key=lambda entry: (-entry.share, len(entry.path), entry.path))


def expected_tokens(shares: Sequence[PathShare], nodes: int) -> float:
    """Tokens of a step with the best tree of this many nodes, the bonus token counted."""
    return acceptance_length(shares, likeliest(shares, nodes))


def best_sizes(
    shares: Sequence[PathShare], step_s: Mapping[int, Mapping[int, float]], at_most: int
) -> tuple[Choice, ...]:
    """For each batch size the number of nodes with the most tokens per second.

    Args:
        shares: joint accuracies.
        step_s: for each batch size, seconds of a step by number of nodes (0: a plain step); between measured numbers
            the time is taken as linear, beyond them it is not known and not chosen.
        at_most: most nodes of a tree.
    """
    chosen = []
    for batch, costs in sorted(step_s.items()):
        sizes = [size for size in range(min(at_most, len(shares)) + 1) if min(costs) <= size <= max(costs)]
        options = [Choice(batch, size, expected_tokens(shares, size), between(costs, size)) for size in sizes]
        chosen.append(max(options, key=lambda option: (option.tokens_per_s, -option.nodes)))
    return tuple(chosen)


def between(costs: Mapping[int, float], nodes: int) -> float:
    """Step time for a number of nodes, on the line between the nearest measured ones."""
    if nodes in costs:
        return costs[nodes]
    below = max(size for size in costs if size < nodes)
    above = min(size for size in costs if size > nodes)
    return costs[below] + (costs[above] - costs[below]) * (nodes - below) / (above - below)
