"""A tree as text, for pages, logs and terminals. Pure."""

from collections.abc import Iterator, Sequence

from engine.tree.topology import Topology


def draw(topology: Topology, labels: Sequence[str] | None = None, root: str = "root") -> str:
    """One line per node, children under their parent.

    Args:
        topology: the tree.
        labels: what to write for each node, in node order; default: its rank among the candidates.
        root: what to write for the root.

    Raises:
        ValueError: not one label per node.
    """
    texts = [str(rank) for rank in topology.ranks] if labels is None else list(labels)
    if len(texts) != topology.nodes:
        raise ValueError(f"{len(texts)} labels for {topology.nodes} nodes")
    return "\n".join([root, *_below(topology, 0, "", texts)])


def _below(topology: Topology, row: int, indent: str, texts: Sequence[str]) -> Iterator[str]:
    children = topology.children[row]
    for child in children:
        last = child == children[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{texts[child - 1]}"
        yield from _below(topology, child, indent + ("   " if last else "│  "), texts)
