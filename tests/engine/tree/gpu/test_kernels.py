"""The kernels of trees under Triton's interpreter, which must be on before Triton is imported: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_kernels_are_right_under_the_interpreter() -> None:
    modules = sorted(str(path.relative_to(ROOT)) for path in Path(__file__).parent.glob("interpreted_*.py"))
    assert len(modules) == 3
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *modules]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
