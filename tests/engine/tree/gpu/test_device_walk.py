"""The walk on a device takes the paths of the plain walk, token by token."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tree.gpu.device_walk import DeviceWalk
from engine.tree.topology import Topology
from engine.tree.walk import greedy_path

TREE = Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 0), (1, 1, 0), (1, 1, 1)])
TOKENS = st.integers(0, 3)


@settings(deadline=None, max_examples=200)
@given(data=st.data(), requests=st.integers(1, 4))
def test_it_is_the_plain_walk(data: st.DataObject, requests: int) -> None:
    def lists(length: int) -> list[list[int]]:
        return [data.draw(st.lists(TOKENS, min_size=length, max_size=length)) for _ in range(requests)]

    drafts, best = lists(TREE.nodes), lists(TREE.nodes + 1)
    drafted = data.draw(st.lists(st.integers(1, TREE.nodes), min_size=requests, max_size=requests))
    walked = DeviceWalk(TREE, "cpu").walk(torch.tensor(drafts), torch.tensor(best), torch.tensor(drafted))
    for row in range(requests):
        path = greedy_path(TREE.prefix(drafted[row]), drafts[row], best[row])
        assert walked.paths[row].tolist() == path + [0] * (TREE.max_depth - len(path))
        tokens = [best[row][node] for node in [0, *path]]
        assert walked.tokens[row].tolist() == tokens + [-1] * (TREE.max_depth - len(path))
        assert int(walked.last[row]) == (path[-1] if path else 0)


def test_without_a_count_the_tree_is_whole() -> None:
    walk = DeviceWalk(TREE, "cpu")
    drafts = torch.tensor([[1, 1, 1, 2, 3, 2, 1, 2, 1, 2]])
    best = torch.full((1, TREE.nodes + 1), 2)
    whole = walk.walk(drafts, best)
    assert whole.paths.tolist() == [[4, 8, 10]]
    assert walk.walk(drafts, best, torch.tensor([9])).paths.tolist() == [[4, 8, 0]]
