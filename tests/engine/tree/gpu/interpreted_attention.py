"""Run by `test_kernels.py` in a process of its own, under Triton's interpreter: the kernels on the CPU.

Where there is a GPU the same tests compile them:
    python -m pytest --noconftest -c /dev/null --rootdir . tests/engine/tree/gpu/interpreted_attention.py
"""

import itertools

import pytest
import torch

from engine.tree.gpu.attention_kernel import attend
from engine.tree.gpu.row_tiles import AttentionShape, Launch, RowTiles
from engine.tree.topology import Topology

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TREE = Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0), (0, 0, 0, 0)])
WIDE = Topology.from_paths(
    [(0,) * depth for depth in range(1, 6)] + [(rank,) for rank in range(1, 20)] + [(rank, 0) for rank in range(1, 9)]
)
PAGE = 16
# Context, rows, tree. A prompt's last chunk is as long as the tree before it; contexts end inside pages and at their end.
MIXED = [
    (45, 10, TREE),
    (32, 10, None),
    (7, 4, TREE.prefix(3)),
    (64, 1, None),
    (0, 21, None),
    (0, 6, TREE.prefix(5)),
    (301, 2, TREE.prefix(1)),
    (130, 33, WIDE),
]


class Case:
    """A cache with random contents, requests scattered over its pages."""

    def __init__(
        self,
        requests: list[tuple[int, int, Topology | None]],
        shape: AttentionShape,
        dtype: torch.dtype = torch.float32,
        processors: int = 1,
        launch: Launch | None = None,
    ) -> None:
        torch.manual_seed(3)
        self.requests, self.shape = requests, shape
        sizes = [-(-(context + rows) // PAGE) for context, rows, _ in requests]
        cache = torch.randn(sum(sizes) + 2, shape.kv_heads, PAGE, 2 * shape.head_size, dtype=dtype)
        self.cache = cache.to(DEVICE)
        self.keys, self.values = self.cache.transpose(1, 2).split(shape.head_size, -1)
        order = iter(torch.randperm(sum(sizes)).add(2).tolist())
        self.pages = [list(itertools.islice(order, size)) for size in sizes]
        tables = torch.zeros(len(requests), max(sizes), dtype=torch.int32)
        for row, pages in enumerate(self.pages):
            tables[row, : len(pages)] = torch.tensor(pages)
        counts = [rows for _, rows, _ in requests]
        self.query = torch.randn(sum(counts), shape.query_heads, shape.head_size, dtype=dtype).to(DEVICE)
        trees = {row: tree for row, (_, _, tree) in enumerate(requests) if tree is not None}
        contexts = [context for context, _, _ in requests]
        self.step = RowTiles.of(counts, contexts, tables.to(DEVICE), trees, shape, processors, launch)
        self.scale = shape.head_size**-0.5

    def attended(self) -> torch.Tensor:
        output = torch.full_like(self.query, float("nan"))
        attend(self.query, self.keys, self.values, output, self.step, self.scale)
        return output.double().cpu()

    def expected(self) -> torch.Tensor:
        """Every row over exactly the tokens that it may see, in float64."""
        rows = []
        cache, query = self.cache.double().cpu(), self.query.double().cpu()
        for (context, count, tree), pages in zip(self.requests, self.pages, strict=True):
            tokens = cache[pages].transpose(1, 2).flatten(0, 1)
            keys, values = tokens.split(self.shape.head_size, -1)
            for place in range(count):
                own = range(place + 1) if tree is None else tree.lineages[place]
                seen = torch.tensor([*range(context), *(context + row for row in own)])
                heads = torch.arange(self.shape.query_heads) // self.shape.group
                scores = torch.einsum("hd,thd->ht", query[len(rows)], keys[seen][:, heads]) * self.scale
                rows.append(torch.einsum("ht,thd->hd", scores.softmax(-1), values[seen][:, heads]))
        return torch.stack(rows)


def assert_exact(case: Case, tolerance: float = 2e-6) -> None:
    torch.testing.assert_close(case.attended(), case.expected(), atol=tolerance, rtol=0)


LLAMA = AttentionShape(8, 2, 128, 4)
SMOL = AttentionShape(9, 3, 64, 4)


@pytest.mark.parametrize("shape", [LLAMA, SMOL], ids=["head size 128, 4 to 1", "head size 64, 3 to 1"])
@pytest.mark.parametrize("processors", [1, 400], ids=["whole contexts", "contexts in parts"])
def test_every_row_sees_its_context_and_its_ancestors_alone(shape: AttentionShape, processors: int) -> None:
    case = Case(MIXED, shape, processors=processors)
    assert (case.step.parts > 1) == (processors > 1)
    assert_exact(case)


def test_every_cut_of_a_tree_is_attended_to_as_that_tree() -> None:
    requests = [(20 + nodes, nodes + 1, TREE.prefix(nodes)) for nodes in range(1, TREE.nodes + 1)]
    assert_exact(Case(requests, AttentionShape(2, 1, 64, 4)))


def test_a_tree_of_64_nodes_uses_every_bit() -> None:
    tree = Topology.from_paths([(0,) * depth for depth in range(1, 33)] + [(rank,) for rank in range(1, 33)])
    assert_exact(Case([(5, 65, tree)], AttentionShape(2, 2, 64, 4)))


def test_a_tile_may_be_smaller_than_a_tree() -> None:
    case = Case([(70, 10, TREE), (9, 12, None)], LLAMA, launch=Launch(16, 16, 4, 1))
    assert len(case.step.tiles) == 6
    assert_exact(case)


def test_plain_rows_alone_are_ordinary_decoding() -> None:
    case = Case([(context, 1, None) for context in (0, 15, 16, 200, 1100)], LLAMA, processors=400)
    assert case.step.parts == 8
    assert_exact(case)


COMPILED = pytest.mark.skipif(DEVICE == "cpu", reason="Triton's interpreter multiplies the bits of bfloat16")


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=COMPILED)])
def test_coarse_types_lose_no_more_than_their_rounding(dtype: torch.dtype) -> None:
    case = Case(MIXED[:3], AttentionShape(4, 2, 64, 2), dtype)
    assert_exact(case, 4 * torch.finfo(dtype).eps)


def test_a_mask_that_is_wrong_is_noticed() -> None:
    case = Case([(20, 10, TREE)], AttentionShape(2, 1, 64, 4))
    case.step.lineages[5] ^= 1 << 2
    difference = (case.attended() - case.expected()).abs().amax((1, 2))
    assert difference[5] > 1e-3
    assert difference[[0, 1, 2, 3, 4, 6, 7, 8, 9]].max() < 2e-6


def test_impossible_heads_are_refused() -> None:
    case = Case([(20, 1, None)], AttentionShape(2, 1, 64, 4))
    with pytest.raises(ValueError, match="2 heads of 48 over 1"):
        attend(case.query[..., :48], case.keys, case.values, case.query, case.step, 1.0)
