"""Which path through a tree the target model takes. Pure.

From the root on, the model's own token is compared with the children of the row reached: where one child has that
token, the walk goes on from it, else it ends. Every token is thus chosen by the model, in the context it would have
seen without drafts; drafts only decide how many tokens one step gives (SpecInfer, arXiv 2305.09781, for the tree;
Leviathan et al., arXiv 2211.17192, for the idea).
"""

from collections.abc import Sequence

from engine.tree.topology import Topology


def child_with(topology: Topology, drafts: Sequence[int], row: int, token: int) -> int | None:
    """The first child of `row` that is drafted as `token`, None without one.

    Args:
        topology: the tree.
        drafts: the nodes' tokens in node order; row r is drafted as `drafts[r - 1]`.
        row: where the walk stands; 0 is the root.
        token: what the model has chosen after `row`.
    """
    for child in topology.children[row]:
        if drafts[child - 1] == token:
            return child
    return None


def greedy_path(topology: Topology, drafts: Sequence[int], best: Sequence[int]) -> list[int]:
    """The rows taken where the model's choice after every row is known beforehand.

    Args:
        topology: the tree.
        drafts: the nodes' tokens in node order.
        best: for every row, the root included, the most probable next token.

    Returns:
        Rows of accepted nodes, from depth 1; the tokens of the step are `best[0]` and `best` of each of them.
    """
    path: list[int] = []
    row: int | None = 0
    while (row := child_with(topology, drafts, row or 0, best[row or 0])) is not None:
        path.append(row)
    return path
