"""Run by `test_kernels.py` under Triton's interpreter: keys and values on the path taken, moved."""

import pytest
import torch

from engine.tree.gpu.compaction_kernel import Compaction

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PAGE, HEADS, SIZE = 16, 3, 64
# Accepted rows by depth. The second ends where a later move's target lies; the third is in place; the last took nothing.
PATHS = [[4, 7, 8, 0], [2, 3, 4, 9], [1, 2, 3, 0], [1, 6, 0, 0], [0, 0, 0, 0]]
CONTEXTS = [45, 14, 3, 31, 8]


def moved(dtype: torch.dtype, heads_first: bool) -> None:
    torch.manual_seed(5)
    shape = (24, HEADS, PAGE, 2 * SIZE) if heads_first else (24, PAGE, HEADS, 2 * SIZE)
    caches = [torch.randn(shape, dtype=dtype).to(DEVICE) for _ in range(3)]
    views = caches if heads_first else [cache.transpose(1, 2) for cache in caches]
    tables = torch.randperm(24)[:20].view(5, 4).to(torch.int32)
    expected = [view.clone() for view in views]
    for view in expected:
        for pages, path, context in zip(tables.tolist(), PATHS, CONTEXTS, strict=True):
            held = [view[pages[at // PAGE], :, at % PAGE].clone() for at in range(4 * PAGE)]
            for depth, row in enumerate(path):
                at = context + 1 + depth
                if row:
                    view[pages[at // PAGE], :, at % PAGE] = held[context + row]
    paths = torch.tensor(PATHS, device=DEVICE)
    Compaction(views).move(paths, torch.tensor(CONTEXTS, dtype=torch.int32, device=DEVICE), tables.to(DEVICE))
    for view, right in zip(views, expected, strict=True):
        assert torch.equal(view, right)


@pytest.mark.parametrize("heads_first", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_path_lies_in_the_cache_like_a_chain_and_nothing_else_moves(dtype: torch.dtype, heads_first: bool) -> None:
    moved(dtype, heads_first)


def test_caches_that_differ_are_refused() -> None:
    cache = torch.zeros(2, HEADS, PAGE, 2 * SIZE)
    with pytest.raises(ValueError, match="not laid out alike"):
        Compaction([cache, torch.zeros(2, PAGE, HEADS, 2 * SIZE).transpose(1, 2)])
    with pytest.raises(ValueError, match="96 numbers"):
        Compaction([cache[..., :96]])
