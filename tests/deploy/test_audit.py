"""An audit that could not be made is never told as one that found nothing."""

from deploy.security.audit import CLEAN, NOT_AUDITED, VULNERABLE, verdict

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
