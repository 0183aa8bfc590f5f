from pathlib import Path

from engine.openmp import library, preloading, thread_environment

LIBRARY = Path("/opt/lib/libiomp5.so")


def test_the_library_comes_before_what_is_preloaded_already() -> None:
    assert preloading({}, LIBRARY) == {"LD_PRELOAD": "/opt/lib/libiomp5.so"}
    assert preloading({"LD_PRELOAD": "/a.so:/b.so"}, LIBRARY)["LD_PRELOAD"] == "/opt/lib/libiomp5.so:/a.so:/b.so"


def test_the_library_is_preloaded_once() -> None:
    once = preloading({"LD_PRELOAD": "/a.so"}, LIBRARY)
    assert preloading(once, LIBRARY) == once


def test_nothing_is_preloaded_where_the_library_is_missing(tmp_path: Path) -> None:
    assert library(str(tmp_path)) is None
    assert preloading({"LD_PRELOAD": "/a.so"}, None) == {}


def test_threads_default_to_one_per_core() -> None:
    assert thread_environment((0, 2), None)["OMP_NUM_THREADS"] == "2"
    assert thread_environment((0, 2), 1)["OMP_NUM_THREADS"] == "1"
