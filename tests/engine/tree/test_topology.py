"""The shape of a tree: what is refused, the order, and what follows from it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tree.drawing import draw
from engine.tree.topology import GRAFT, Path, Topology

EXAMPLE = ((0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (2,))


@st.composite
def trees(draw_: st.DrawFn) -> Topology:
    """Trees of up to 24 nodes and depth 5, siblings with gaps in their ranks."""
    paths: list[Path] = []
    for _ in range(draw_(st.integers(1, 24))):
        parent = draw_(st.sampled_from([(), *(path for path in paths if len(path) < 5)]))
        free = sorted(set(range(30)) - {path[-1] for path in paths if path[:-1] == parent})
        paths.append((*parent, draw_(st.sampled_from(free))))
    return Topology.from_paths(draw_(st.permutations(paths)))


def test_nodes_stand_chain_first_then_by_depth_then_by_rank() -> None:
    topology = Topology.from_paths(EXAMPLE)
    assert topology.paths == ((0,), (0, 0), (0, 0, 0), (1,), (2,), (0, 1), (1, 0))
    assert topology.parents == (0, 1, 2, 0, 0, 1, 4)
    assert topology.depths == (1, 2, 3, 1, 1, 2, 2)
    assert topology.ranks == (0, 0, 0, 1, 2, 1, 0)
    assert topology.children == ((1, 4, 5), (2, 6), (3,), (), (7,), (), (), ())
    assert topology.levels == ((1, 4, 5), (2, 6, 7), (3,))
    assert topology.lineages == ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 4), (0, 5), (0, 1, 6), (0, 4, 7))
    assert (topology.nodes, topology.max_depth, topology.principal) == (7, 3, 3)


@given(trees())
def test_every_prefix_is_a_tree_with_the_same_rows(topology: Topology) -> None:
    for nodes in range(1, topology.nodes + 1):
        prefix = topology.prefix(nodes)
        assert prefix == Topology.from_paths(topology.paths[:nodes])
        assert prefix.parents == topology.parents[:nodes]
        assert (prefix.ancestors == topology.ancestors[: nodes + 1, : nodes + 1]).all()


@given(trees())
def test_ancestors_are_the_rows_of_the_prefixes_of_a_path(topology: Topology) -> None:
    rows = {(): 0} | {path: row for row, path in enumerate(topology.paths, 1)}
    for path, row in rows.items():
        expected = {rows[path[:length]] for length in range(len(path) + 1)}
        assert set(np.flatnonzero(topology.ancestors[row]).tolist()) == expected
        assert topology.lineages[row] == tuple(sorted(expected))


@settings(deadline=None)
@given(trees(), st.data(), st.integers(1, 7), st.integers(3, 5))
def test_a_grafted_tree_is_a_tree_in_all_its_prefixes(
    topology: Topology, data: st.DataObject, length: int, match: int
) -> None:
    row = data.draw(st.integers(0, topology.nodes))
    grafted = topology.grafted(row, length, match)
    assert grafted is topology.grafted(row, length, match)
    assert grafted.nodes == topology.nodes + length
    assert grafted.paths[: topology.nodes] == topology.paths
    assert grafted.principal == topology.principal
    assert grafted.parents[topology.nodes :] == (row, *range(topology.nodes + 1, grafted.nodes))
    assert all(parent < node for node, parent in enumerate(grafted.parents, 1))
    depth = topology.depths[row - 1] if row else 0
    for nodes in range(1, grafted.nodes + 1):
        prefix = grafted.prefix(nodes)
        assert all(path[:-1] in ((), *prefix.paths[:place]) for place, path in enumerate(prefix.paths))
        assert prefix.parents == grafted.parents[:nodes]
        assert prefix.graft_nodes == max(0, nodes - topology.nodes)
        assert (prefix.graft_match, prefix.graft_depth) == ((match, depth) if prefix.graft_nodes else (0, 0))
    assert all(rank < GRAFT for rank in topology.ranks)
    assert not topology.graft_nodes


@given(trees())
def test_json_gives_the_same_tree_back(topology: Topology) -> None:
    assert Topology.from_json(topology.to_json()) == topology
    assert Topology.from_json(json.dumps({"made_by": "someone", **json.loads(topology.to_json())})) == topology


def test_a_chain_is_its_own_principal_chain() -> None:
    chain = Topology.chain(4)
    assert chain.paths == ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
    assert chain.principal == chain.max_depth == chain.nodes == 4


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        ((), "at least one"),
        (((0,), (0,)), "once"),
        (((0,), (1, 0)), "no parent"),
        (((),), "is no node"),
        (((-1,),), "is no node"),
        (((True,),), "is no node"),
        ((("0",),), "is no node"),
    ],
)
def test_what_is_no_tree_is_refused_by_name(paths: tuple[Path, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Topology.from_paths(paths)


@pytest.mark.parametrize("text", ["", "[]", '{"paths": 3}', '{"paths": [0]}', '{"paths": [[0, null]]}', "{}"])
def test_what_is_no_document_of_a_tree_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Topology.from_json(text)


def test_a_drawing_puts_children_under_their_parent() -> None:
    drawn = draw(Topology.from_paths(EXAMPLE), ["the", "old", "man", "a", "an", "new", "dog"])
    assert drawn.splitlines() == [
        "root",
        "├─ the",
        "│  ├─ old",
        "│  │  └─ man",
        "│  └─ new",
        "├─ a",
        "│  └─ dog",
        "└─ an",
    ]
    assert draw(Topology.chain(2)).splitlines() == ["root", "└─ 0", "   └─ 0"]
    with pytest.raises(ValueError, match="1 labels for 2 nodes"):
        draw(Topology.chain(2), ["one"])
