"""The tree that the settings name."""

from pathlib import Path

import pytest

from engine.heads.tree_choice import PathShare
from engine.tree.choice import DEFAULT_NODES, MAX_NODES, chosen, shares_of
from engine.tree.topology import Topology


def test_a_number_is_a_tree_of_that_size_and_smaller_ones_are_inside_larger_ones() -> None:
    assert chosen(None).nodes == DEFAULT_NODES
    for nodes in range(1, MAX_NODES + 1):
        assert chosen(str(nodes)).nodes == nodes
    assert set(chosen("8").paths) < set(chosen("16").paths) < set(chosen("32").paths)


def test_what_is_known_of_the_heads_makes_the_tree() -> None:
    shares = [PathShare(path, share) for path, share in (((1,), 0.5), ((0,), 0.3), ((1, 0), 0.4), ((0, 0), 0.1))]
    topology = chosen("3", shares)
    assert set(topology.paths) == {(1,), (1, 0), (0,)}
    assert [(entry.path, entry.share) for entry in shares_of(topology, shares)] == [
        ((0,), 0.3),
        ((1,), 0.5),
        ((1, 0), 0.4),
    ]
    unknown = shares_of(Topology.from_paths([(0,), (7,), (7, 0)]), [*shares, PathShare((7, 0), 0.2)])
    assert [entry.share for entry in unknown] == [0.3, 0.0, 0.0]


def test_a_file_holds_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text(Topology.chain(3).to_json())
    assert chosen(str(path)) == Topology.chain(3)


@pytest.mark.parametrize(
    ("text", "fault"),
    [(None, "neither a number of nodes nor a file"), ("{", "tree .*Expecting"), ("[]", "JSON object")],
)
def test_what_names_no_tree_is_refused(tmp_path: Path, text: str | None, fault: str) -> None:
    path = tmp_path / "tree.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=fault):
        chosen(str(path))


@pytest.mark.parametrize("name", ["0", "65"])
def test_a_tree_has_a_size(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 nodes"):
        chosen(name)
