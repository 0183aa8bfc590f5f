import os
import subprocess
import sys
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


def test_a_command_starts_anew_once_and_with_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(
        "import os, sys\nfrom engine.openmp import library, restart_with\n"
        "print('started', flush=True)\nrestart_with(library())\nprint(sys.argv[1:], os.environ['LD_PRELOAD'])\n"
    )
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, str(script), "--to", "be kept"]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    assert said == f"started\nstarted\n['--to', 'be kept'] {library()}\n"
