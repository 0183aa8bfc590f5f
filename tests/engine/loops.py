"""Tests of the compiled loops run once for each width of registers that this processor has."""

from collections.abc import Iterator

import pytest

from engine.native import library

ALL = library.WIDEST_FIRST


@pytest.fixture(scope="module", params=ALL, ids=lambda name: name.rpartition("_")[2])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """The loops of one width, for all of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "WIDEST_FIRST", (request.param,))
        library.library.cache_clear()
        if library.library() is None:
            pytest.skip("not compiled here, or for another processor")
        yield
    library.library.cache_clear()
