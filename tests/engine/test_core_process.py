import multiprocessing
import os
import time
from pathlib import Path

import pytest

from engine.core_process import Fault, GuardedContext, Standby, StandbyContext, environment_set, one_line


def fail(reason: str) -> None:
    raise ValueError(reason)


def report(path: str) -> None:
    Path(path).write_text(os.environ.get("OMP_NUM_THREADS", "unset"))


def sleep_for_ever() -> None:
    while True:
        time.sleep(60)


def test_a_process_that_fails_leaves_one_line(tmp_path: Path) -> None:
    fault = Fault(tmp_path / "fault")
    process = GuardedContext(fault).Process(target=fail, name="core", kwargs={"reason": "too small\nmore"})
    process.start()
    process.join()
    assert process.exitcode == 1
    assert fault.read() == "too small"
    fault.clear()
    assert fault.read() is None


def test_a_process_that_is_killed_leaves_no_reason(tmp_path: Path) -> None:
    fault = Fault(tmp_path / "fault")
    process = GuardedContext(fault).Process(target=sleep_for_ever, name="core", kwargs={})
    process.start()
    process.kill()
    assert multiprocessing.connection.wait([process.sentinel], timeout=60)
    assert fault.read() is None


def test_the_environment_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEPACE_TEST_KEPT", "before")
    monkeypatch.delenv("VOICEPACE_TEST_NEW", raising=False)
    with environment_set({"VOICEPACE_TEST_KEPT": "during", "VOICEPACE_TEST_NEW": "x"}):
        assert os.environ["VOICEPACE_TEST_KEPT"] == "during"
        os.environ["VOICEPACE_TEST_ALSO"] = "set by a library meanwhile"
    assert os.environ["VOICEPACE_TEST_KEPT"] == "before"
    assert "VOICEPACE_TEST_NEW" not in os.environ
    assert "VOICEPACE_TEST_ALSO" not in os.environ


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("\n  first\nsecond"), "first"), (KeyError(), "KeyError"), (RuntimeError("  "), "RuntimeError")],
)
def test_the_first_line_of_an_error_is_its_reason(error: Exception, line: str) -> None:
    assert one_line(error) == line


def test_a_process_that_stands_by_is_handed_the_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    standby = Standby(Fault(tmp_path / "fault"), {"OMP_NUM_THREADS": "7"}, imports=("json",))
    process = StandbyContext(standby).Process(target=report, name="core", kwargs={"path": str(out)})
    process.start()
    process.join()
    assert process.exitcode == 0
    assert out.read_text() == "7"
    assert os.environ.get("OMP_NUM_THREADS") != "7"


def test_a_process_that_stands_by_can_be_given_up(tmp_path: Path) -> None:
    standby = Standby(Fault(tmp_path / "fault"), {}, imports=("json",))
    standby.give_up()
    assert not standby.process.is_alive()


def test_what_cannot_be_imported_is_the_reason(tmp_path: Path) -> None:
    fault = Fault(tmp_path / "fault")
    standby = Standby(fault, {}, imports=("no_such_module_at_all",))
    standby.process.join()
    assert fault.read() == "No module named 'no_such_module_at_all'"
