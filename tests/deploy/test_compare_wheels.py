"""A third party's wheel may differ from upstream's only where the list says so."""

import zipfile
from pathlib import Path

import pytest

from deploy.security.compare_wheels import compare, known_differences, main


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_changed_added_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    upstream = wheel(tmp_path / "a.whl", {"m/same.py": "1", "m/other.py": "1", "m/gpu.py": "1", "m/_C.so": "1"})
    theirs = wheel(tmp_path / "b.whl", {"m/same.py": "1", "m/other.py": "2", "m/new.py": "1", "m/_C.so": "2"})
    found = compare(theirs, upstream)
    assert found.changed.keys() == {"m/other.py"}
    assert found.added.keys() == {"m/new.py"}
    assert found.missing == {"m/gpu.py"}
    assert [line.split()[0::2] for line in found.lines()] == [["added", "m/new.py"], ["changed", "m/other.py"]]


def test_a_file_that_runs_at_start_counts_as_python(tmp_path: Path) -> None:
    found = compare(wheel(tmp_path / "b.whl", {"x.pth": "import os"}), wheel(tmp_path / "a.whl", {}))
    assert found.added.keys() == {"x.pth"}


def test_the_list_names_the_three_files_that_differ() -> None:
    assert {line.split()[2] for line in known_differences()} == {
        "vllm/_version.py",
        "vllm/platforms/__init__.py",
        "vllm/utils/cpu_triton_utils.py",
    }


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_wheels_differ_as_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["compare_wheels"])
    assert main() == 0
