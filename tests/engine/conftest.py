"""Tests of the compiled loops run once for each of those that this processor can run: registers of two widths, and for
matrices in float16 or in 8 bits."""

from collections.abc import Iterator

import pytest

from engine.native import library
from engine.native.library import Kept
from tests.engine.loops import ALL


@pytest.fixture(scope="module", params=ALL, ids=lambda one: one[1].partition("_loops_")[2])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """One kind of loops, for all of a module; gives how they keep matrices."""
    kept, name = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "WIDEST_FIRST", {**library.WIDEST_FIRST, kept: (name,)})
        library.library.cache_clear()
        if library.library(kept) is None:
            pytest.skip("not compiled here, or for another processor")
        yield kept
    library.library.cache_clear()
