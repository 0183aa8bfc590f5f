"""An audit that could not be made is never told as one that found nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.security import audit
from deploy.security.audit import CLEAN, NOT_AUDITED, VULNERABLE, audited, verdict

SKIPPED = {"name": "a", "skip_reason": "not found"}
SOUND = {"name": "b", "version": "1", "vulns": []}
FAULTY = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}


def test_nothing_reached_is_not_nothing_found() -> None:
    assert verdict([SKIPPED])[0] == NOT_AUDITED
    assert verdict([])[0] == NOT_AUDITED


def test_what_was_left_out_is_named() -> None:
    status, lines = verdict([SKIPPED, SOUND])
    assert status == CLEAN
    assert lines == ["not audited: a", "1 of 2 packages audited"]


def test_a_known_fault_fails_and_says_where_it_is_mended() -> None:
    status, lines = verdict([SOUND, FAULTY])
    assert status == VULNERABLE
    assert lines[0] == "c 1: PYSEC-1, fixed in 2"


def tool(tmp_path: Path, says: str) -> Path:
    """A stand-in for the interpreter with pip-audit, which says this."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nprint({says!r})\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("says", ["", "no json", "{}"])
def test_a_tool_that_fails_has_not_audited(says: str, tmp_path: Path) -> None:
    assert audited(tool(tmp_path, says), [])[0] == NOT_AUDITED


def test_what_the_tool_found_is_told(tmp_path: Path) -> None:
    says = '{"dependencies": [{"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": []}]}]}'
    assert audited(tool(tmp_path, says), []) == (
        VULNERABLE,
        ["c 1: PYSEC-1, fixed in no version yet", "1 of 1 packages audited"],
    )


@pytest.mark.parametrize(
    ("statuses", "together"),
    [((CLEAN, CLEAN), CLEAN), ((CLEAN, NOT_AUDITED), NOT_AUDITED), ((NOT_AUDITED, VULNERABLE), VULNERABLE)],
)
def test_the_worst_of_all_lock_files_counts(
    statuses: tuple[int, int], together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(statuses)
    monkeypatch.setattr(audit, "audited", lambda python, locks: (left.pop(0), []))
    monkeypatch.setattr(audit.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    assert audit.main() == together
    assert left == []


@pytest.mark.parametrize(("status", "goes_on"), [(0, True), (1, False), (3, True)])
def test_ci_goes_on_without_a_database_and_stops_at_a_known_fault(status: int, goes_on: bool, tmp_path: Path) -> None:
    script = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    (line,) = [line for line in script.splitlines() if "security.audit" in line]
    stub = tmp_path / ".venv" / "bin" / "python"
    stub.parent.mkdir(parents=True)
    stub.write_text(f"#!/bin/sh\nexit {status}\n")
    stub.chmod(0o755)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) is goes_on
    assert ("SKIPPED" in done.stdout) is (status == 3)
