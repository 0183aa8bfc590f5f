"""Memory in large pages: whose bytes are whose, and where they begin; without an engine."""

import mmap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.native import huge_pages
from engine.native.huge_pages import HugePages


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=12))
def test_every_copy_is_its_own_and_begins_a_line(sizes: list[int]) -> None:
    memory = HugePages()
    copies = [memory.kept(torch.full((size,), place, dtype=torch.uint8)) for place, size in enumerate(sizes)]
    for place, (copy, size) in enumerate(zip(copies, sizes, strict=True)):
        assert copy.shape == (size,)
        assert bool((copy == place).all())
        assert not size or copy.data_ptr() % 64 == 0


def test_shapes_and_types_are_kept_and_strides_are_not() -> None:
    values = torch.arange(24, dtype=torch.float16).view(2, 3, 4).transpose(1, 2)
    copy = HugePages().kept(values)
    assert torch.equal(copy, values)
    assert copy.is_contiguous()
    assert copy.dtype == torch.float16


def test_small_copies_share_a_chunk_that_begins_a_page() -> None:
    memory = HugePages()
    first, second = (memory.kept(torch.ones(100)) for _ in range(2))
    assert first.data_ptr() % 2**21 == 0
    assert second.data_ptr() - first.data_ptr() == 448


def test_copies_outlive_who_made_them() -> None:
    copy = HugePages().kept(torch.ones(1_000_000))
    other = HugePages().kept(torch.zeros(1_000_000))
    assert bool((copy == 1).all())
    assert not other.any()


def test_a_system_without_such_pages_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert bool((huge_pages.HugePages().kept(torch.ones(10)) == 1).all())
