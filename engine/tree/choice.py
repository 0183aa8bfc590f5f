"""The tree that the settings name: a number of nodes, or a file."""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path as FilePath

from engine.heads.config import ARCHITECTURES
from engine.heads.names import HeadsMissing, heads_path
from engine.heads.tree_choice import PathShare, likeliest, path_shares_of
from engine.tree.topology import Path, Topology

DEFAULT_NODES = 16
MAX_NODES = 64

# How often candidate 0, 1, … of each depth is the model's own token where nothing was measured, one row per depth.
_TYPICAL_ACCURACY = (
    (0.56, 0.13, 0.06, 0.035, 0.02, 0.015),
    (0.40, 0.11, 0.06, 0.04, 0.025, 0.02),
    (0.31, 0.09, 0.05, 0.035, 0.02),
    (0.25, 0.08, 0.045, 0.03),
)


def chosen(name: str | None, shares: Sequence[PathShare] | None = None) -> Topology:
    """The tree called `name`.

    Args:
        name: a number of nodes, or the path of a JSON file as `Topology.to_json` or `voicepace heads tree` writes it;
            None for the default.
        shares: how often each path is said, where the heads are known.

    Raises:
        ValueError: neither, or the file holds no tree; one line.
    """
    if name is None or name.isdecimal():
        nodes = DEFAULT_NODES if name is None else int(name)
        if not 1 <= nodes <= MAX_NODES:
            raise ValueError(f"tree {name}: a tree has 1 to {MAX_NODES} nodes")
        return Topology.from_paths(likeliest(shares or typical_shares(), nodes))
    try:
        topology = Topology.from_json(FilePath(name).expanduser().read_text())
    except OSError as error:
        raise ValueError(f"tree {name}: neither a number of nodes nor a file that can be read") from error
    except ValueError as error:
        raise ValueError(f"tree {name}: {error}") from error
    if topology.nodes > MAX_NODES:
        raise ValueError(f"tree {name}: {topology.nodes} nodes, a tree has 1 to {MAX_NODES}")
    return topology


def heads_file(name: str) -> FilePath:
    """The file that drafts trees among those that `engine.heads` names: sequential heads where there are any.

    Raises:
        HeadsMissing: there is none.
    """
    for architecture in reversed(ARCHITECTURES):
        with suppress(HeadsMissing):
            path = heads_path(name, architecture)
            if path.is_file():
                return path
    raise HeadsMissing(f"heads: {name} names no heads that can draft trees")


def known_shares(heads: str | None) -> list[PathShare] | None:
    """How often each path is said, as kept with the heads; None where they keep nothing of it or are not there."""
    if heads is None:
        return None
    from engine.heads.checkpoint import read_about

    try:
        return path_shares_of(read_about(heads_file(heads)))
    except ValueError:
        return None


def shares_of(topology: Topology, known: Sequence[PathShare] | None = None) -> list[PathShare]:
    """How often the model goes all the way along each path of a tree, as far as known beforehand.

    Args:
        topology: the tree.
        known: where the heads are known.

    Returns:
        In node order; no path more often than the one it continues.
    """
    by_path = {entry.path: entry.share for entry in known or typical_shares()}
    shares: dict[Path, float] = {(): 1.0}
    for path in topology.paths:
        shares[path] = min(by_path.get(path, 0.0), shares[path[:-1]])
    return [PathShare(path, shares[path]) for path in topology.paths]


@cache
def typical_shares() -> tuple[PathShare, ...]:
    """Of heads of which nothing is known, their candidates taken as independent."""
    shares = []
    for depth in range(1, len(_TYPICAL_ACCURACY) + 1):
        rows = _TYPICAL_ACCURACY[:depth]
        for path in itertools.product(*(range(len(row)) for row in rows)):
            share = math.prod(row[rank] for row, rank in zip(rows, path, strict=True))
            shares.append(PathShare(path, share))
    return tuple(shares)
