"""The shape of a tree of candidates: which node continues which. Pure.

A node is named by its path, the ranks of its candidates from the root: `(0, 2)` is the third candidate for the second
token after the best candidate for the first one. Row 0 is the root, the last token that was sampled; node `i` is row
`i + 1`. Nodes stand in an order of which every prefix is a tree (the scheduler cuts drafts off by prefix): first the
principal chain, the best candidate everywhere, then by depth, then by rank. Every parent precedes its children.

A continuation found in the text may be grafted onto a tree: a chain of further nodes, behind all others. Their ranks are
beyond all that drafters know.

Source of the idea: Medusa (arXiv 2401.10774), SpecInfer (arXiv 2305.09781).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

Path = tuple[int, ...]

# Rank of a grafted node, to which the number of tokens is added that were found to agree before it.
GRAFT = 1 << 16


@dataclass(frozen=True)
class Topology:
    """A tree of candidates. Build it with `from_paths`, which checks and orders.

    Args:
        paths: one per node, in the order above.
    """

    paths: tuple[Path, ...]

    @classmethod
    def from_paths(cls, paths: Iterable[Path]) -> Self:
        """The tree of these nodes, in any order, each once.

        Raises:
            ValueError: no node, a node twice, a rank that is not a whole number from 0, or a node without its parent.
        """
        given = [tuple(path) for path in paths]
        known = set(given)
        if not given:
            raise ValueError("a tree needs at least one node")
        if len(known) != len(given):
            raise ValueError("a tree names each node once")
        for path in given:
            if not path or not all(type(rank) is int and rank >= 0 for rank in path):
                raise ValueError(f"{path} is no node: it takes one or more ranks, whole numbers from 0")
            if len(path) > 1 and path[:-1] not in known:
                raise ValueError(f"node {path} has no parent {path[:-1]} in the tree")
        return cls(tuple(sorted(known, key=lambda path: (any(path), len(path), path))))

    @classmethod
    def chain(cls, depth: int) -> Self:
        """The principal chain alone: what vLLM's own Medusa drafts."""
        return cls.from_paths((0,) * length for length in range(1, depth + 1))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tree of a JSON document `{"paths": [[0], [0, 0], …]}`; other keys are left to whoever wrote them.

        Raises:
            ValueError: not such a document, or no tree.
        """
        document = json.loads(text)
        paths = document.get("paths") if isinstance(document, dict) else None
        if not isinstance(paths, list) or not all(isinstance(path, list) for path in paths):
            raise ValueError('a tree is a JSON object with "paths", a list of lists of ranks')
        return cls.from_paths(tuple(path) for path in paths)

    def to_json(self) -> str:
        """The document that `from_json` reads."""
        return json.dumps({"paths": [list(path) for path in self.paths]})

    def prefix(self, nodes: int) -> "Topology":
        """The tree of the first `nodes` nodes, at least one."""
        nodes = min(max(1, nodes), self.nodes)
        return self if nodes == self.nodes else self.subtree(range(1, nodes + 1))

    def subtree(self, rows: Sequence[int]) -> "Topology":
        """The tree of some of its nodes.

        Args:
            rows: ascending, at least one; every parent is among them.
        """
        return _subtree(self, tuple(rows))

    def grafted(self, row: int, length: int, match: int) -> "Topology":
        """This tree with a chain of `length` nodes below one of its rows.

        Args:
            row: 0 for the root; of a tree that has no graft yet.
            length: at least 1.
            match: tokens in a row that agreed where the continuation was found.
        """
        key = (row, length, match)
        grafted = self._grafts.get(key)
        if grafted is None:
            above = self.paths[row - 1] if row else ()
            chain = tuple((*above, *[GRAFT + match] * depth) for depth in range(1, length + 1))
            grafted = self._grafts[key] = Topology(self.paths + chain)
        return grafted

    @cached_property
    def _grafts(self) -> dict[tuple[int, int, int], "Topology"]:
        return {}

    @cached_property
    def graft_nodes(self) -> int:
        """How many of the nodes are grafted; they are the last ones."""
        return sum(path[-1] >= GRAFT for path in self.paths)

    @property
    def graft_match(self) -> int:
        """Tokens that agreed where the graft was found; 0 without one."""
        return self.ranks[-1] - GRAFT if self.graft_nodes else 0

    @property
    def graft_depth(self) -> int:
        """Distance from the root of the row that the graft hangs on; 0 without one."""
        return self.depths[-1] - self.graft_nodes if self.graft_nodes else 0

    @property
    def nodes(self) -> int:
        """How many nodes there are, the root not counted."""
        return len(self.paths)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """For each node the row of its parent; 0 is the root."""
        rows = {path: row for row, path in enumerate(self.paths, 1)}
        return tuple(rows.get(path[:-1], 0) for path in self.paths)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For each node its distance from the root, from 1."""
        return tuple(len(path) for path in self.paths)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """For each node the rank of its own candidate, from 0."""
        return tuple(path[-1] for path in self.paths)

    @property
    def max_depth(self) -> int:
        """Tokens of the longest path."""
        return max(self.depths)

    @cached_property
    def principal(self) -> int:
        """Nodes of the principal chain: they are rows 1 to this number."""
        return sum(not any(path) for path in self.paths)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each row, the root included, the rows of its children in order."""
        below: list[list[int]] = [[] for _ in range(self.nodes + 1)]
        for row, parent in enumerate(self.parents, 1):
            below[parent].append(row)
        return tuple(tuple(rows) for rows in below)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each depth, from 1."""
        return tuple(
            tuple(row for row, depth in enumerate(self.depths, 1) if depth == level)
            for level in range(1, self.max_depth + 1)
        )

    @cached_property
    def ancestors(self) -> npt.NDArray[np.bool_]:
        """[nodes + 1, nodes + 1]: whether the column's row is on the row's path, the root and itself included."""
        seen = np.eye(self.nodes + 1, dtype=np.bool_)
        for row, parent in enumerate(self.parents, 1):
            seen[row] |= seen[parent]
        return seen

    @cached_property
    def lineages(self) -> tuple[tuple[int, ...], ...]:
        """For each row the rows from the root down to itself."""
        return tuple(tuple(np.flatnonzero(seen).tolist()) for seen in self.ancestors)


@lru_cache(maxsize=2048)
def _subtree(topology: Topology, rows: tuple[int, ...]) -> Topology:
    return Topology(tuple(topology.paths[row - 1] for row in rows))
