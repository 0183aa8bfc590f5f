"""Tests of the compiled loops run once for each of those that this processor can run: registers of two widths, and for
matrices in float16 or in 8 bits."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.native import library
from engine.native.library import Kept
from tests.engine.loops import ALL, NARROW_INT8


@pytest.fixture(scope="session")
def narrow_int8(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The loops for AVX-VNNI, with the same instruction as AVX-512 has it: for processors that have only that."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    sources = [str(path) for path in Path(library.__file__).parent.glob("*.c")]
    target = tmp_path_factory.mktemp("loops") / "narrow.so"
    flags = ["-O3", "-fopenmp", "-fPIC", "-shared", "-DINT8", "-mavx512vl", "-mavx512vnni"]
    subprocess.run(["cc", *flags, *sources, "-o", str(target)], check=True, capture_output=True)
    return str(target)


@pytest.fixture(scope="module", params=ALL, ids=lambda one: one[1].partition("_loops_")[2])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """One kind of loops, for all of a module; gives how they keep matrices."""
    kept, name = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "WIDEST_FIRST", {**library.WIDEST_FIRST, kept: (name,)})
        if name == NARROW_INT8 and library.loaded(name) is None:
            loaded, path = library.loaded, request.getfixturevalue("narrow_int8")
            patch.setattr(library, "loaded", lambda one: library.opened(path) if one == NARROW_INT8 else loaded(one))
        library.library.cache_clear()
        if library.library(kept) is None:
            pytest.skip("not compiled here, or for another processor")
        yield kept
    library.library.cache_clear()
