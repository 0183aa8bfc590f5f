import json
import shutil
import subprocess
from pathlib import Path

import pytest

from engine import provenance as module
from engine.provenance import git_state, in_words, machine, package_versions, provenance


def git(folder: Path, *argv: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", "-C", str(folder), *identity, *argv], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_and_changes_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert git_state(tmp_path) == {"commit": git(tmp_path, "rev-parse", "HEAD"), "changed": False}
    (tmp_path / "file").write_text("two")
    state = git_state(tmp_path)
    assert state is not None
    assert state["changed"] is True
    # A folder inside somebody else's repository is not ours.
    (tmp_path / "inside").mkdir()
    assert git_state(tmp_path / "inside") is None


def test_git_may_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    found = provenance(["bench"])
    assert found["git"] is None
    assert found["machine"]["gpus"] == []


def test_it_holds_what_a_reader_needs_and_fits_json() -> None:
    found = json.loads(json.dumps(provenance(["--seed", "3"], 3)))
    assert found["argv"] == ["--seed", "3"]
    assert found["seed"] == 3
    assert found["versions"]["python"].startswith("3.")
    assert found["versions"]["voicepace"]
    assert found["machine"]["cpus"] >= 1


def test_packages_that_are_not_installed_are_left_out() -> None:
    assert package_versions(("pytest", "no-such-package-here")) == {"pytest": pytest.__version__}


def test_the_machine_in_words() -> None:
    facts = {**machine(), "gpus": ["NVIDIA L4"], "cpu": "Some CPU", "cpus": 2, "memory_gib": 23.5, "load_1min": 0.1}
    assert in_words(facts) == "NVIDIA L4; Some CPU, 2 logical CPUs, 23.5 GiB; load 0.1 at the start"
    assert in_words({**facts, "gpus": [], "memory_gib": None}).startswith("no GPU; Some CPU, 2 logical CPUs, unknown")
