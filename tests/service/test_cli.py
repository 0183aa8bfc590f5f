"""The command itself, as a process: whoever reads its output may leave."""

import subprocess
import sys

RUN = "import sys; from service.cli import main; sys.exit(main(sys.argv[1:]))"


def test_a_reader_that_leaves_ends_the_command_without_a_traceback() -> None:
    command = [sys.executable, "-c", RUN, "profiles", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) == 141
    assert said == ""


def test_help_imports_nothing_heavy() -> None:
    script = (
        f"{RUN.rpartition(';')[0]}\ntry: main(['--help'])\nexcept SystemExit: pass\nassert 'fastapi' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False).returncode == 0
