"""What one engine step verifies: which tokens of it are trees, where they stand and how deep. Pure.

The scheduler knows only chains: a request with n drafts gets n + 1 tokens in a row, each with a cache slot of its own.
Row 0 of them is the root, the token sampled last; the others are the nodes in the order of the topology, cut to its
first n. Whether a request is a tree follows from its number of drafts alone, never from how many tokens it has in the
step: a prompt's last chunk can be as long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.tree.topology import Topology


@dataclass(frozen=True, slots=True)
class Tree:
    """One request's tree in one step.

    Attributes:
        row: the request's row in the batch.
        request_id: vLLM's id of the request.
        begin: the root's place among the tokens of the step.
        context: tokens before the root, whose keys and values are in the cache; also the root's position.
        topology: as many nodes as were drafted.
    """

    row: int
    request_id: str
    begin: int
    context: int
    topology: Topology

    @property
    def rows(self) -> int:
        """Tokens of the step that belong to it, the root included."""
        return self.topology.nodes + 1

    @property
    def end(self) -> int:
        """One past its last token in the step."""
        return self.begin + self.rows


def rows_in_place(path: Sequence[int]) -> int:
    """How many rows at the beginning of a path stand already where a chain's would."""
    return next((index for index, row in enumerate(path) if row != index + 1), len(path))


@dataclass(frozen=True, slots=True)
class Step:
    """All requests of one step.

    Attributes:
        starts: for every request the place of its first token in the step, and one past the last token of all.
        logit_rows: for every request the row of its first logits.
        trees: by row of the batch.
    """

    starts: tuple[int, ...]
    logit_rows: tuple[int, ...]
    trees: dict[int, Tree]

    @property
    def decoding_rows(self) -> int | None:
        """All rows, where every request has a tree or one row; None where prompts are read."""
        single = all(self.starts[row + 1] - self.starts[row] == 1 for row in self.others())
        return self.starts[-1] if single else None

    @property
    def graft_nodes(self) -> int:
        """Grafted nodes of all trees."""
        return sum(tree.topology.graft_nodes for tree in self.trees.values())

    def others(self) -> list[int]:
        """Rows of the batch that are no trees."""
        return [row for row in range(len(self.starts) - 1) if row not in self.trees]


def describe(
    request_ids: Sequence[str],
    starts: Sequence[int],
    computed: Sequence[int],
    drafted: Sequence[int],
    topology_of: Callable[[str], Topology],
) -> Step:
    """The step that vLLM has prepared.

    Args:
        request_ids: by row of the batch.
        starts: for every request the place of its first token in the step, and one past the last token of all.
        computed: for every request the tokens whose keys and values are in the cache.
        drafted: for every request the number of its drafts.
        topology_of: by request id, the tree whose first nodes its drafts are.

    Raises:
        ValueError: drafts behind tokens that are not computed yet, which the scheduler does not do.
    """
    trees: dict[int, Tree] = {}
    logit_rows = [0]
    for row, nodes in enumerate(drafted):
        logit_rows.append(logit_rows[-1] + nodes + 1)
        if not nodes:
            continue
        if starts[row + 1] - starts[row] != nodes + 1:
            raise ValueError(f"{nodes} drafts in a request of {starts[row + 1] - starts[row]} tokens")
        trees[row] = Tree(
            row, request_ids[row], starts[row], computed[row], topology_of(request_ids[row]).prefix(nodes)
        )
    return Step(tuple(starts), tuple(logit_rows[:-1]), trees)
