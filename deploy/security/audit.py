"""Look for known vulnerabilities in what the lock files name: `python -m deploy.security.audit`.

Runs pip-audit in an environment of its own. Exit status: 0 none known, 1 some known, 3 no vulnerability database could be
reached, so that nothing is known. "Not audited" is never told as "nothing found".
"""

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[2] / "lock"
TOOL = "pip-audit==2.10.1"
CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 3


def verdict(dependencies: Sequence[dict[str, Any]]) -> tuple[int, list[str]]:
    """Exit status and lines to show, from pip-audit's `dependencies`."""
    audited = [one for one in dependencies if "skip_reason" not in one]
    if not audited:
        return NOT_AUDITED, ["not audited: no vulnerability database could be reached"]
    lines = [
        f"{one['name']} {one['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'no version yet'}"
        for one in audited
        for fault in one["vulns"]
    ]
    lines += [f"not audited: {one['name']}" for one in dependencies if "skip_reason" in one]
    found = any(one["vulns"] for one in audited)
    return (VULNERABLE if found else CLEAN), [*lines, f"{len(audited)} of {len(dependencies)} packages audited"]


def audited(python: Path, locks: Sequence[Path]) -> tuple[int, list[str]]:
    """What pip-audit, in the environment of `python`, knows of lock files that are installed together."""
    names = [flag for path in locks for flag in ("-r", str(path))]
    command = [python, "-m", "pip_audit", "--no-deps", "--disable-pip", "--format", "json", *names]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return verdict(json.loads(done.stdout)["dependencies"])
    except (json.JSONDecodeError, KeyError):
        return NOT_AUDITED, (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1:]


def main() -> int:
    """Audit every lock file; the GPU's apart, because it pins other versions."""
    gpu = LOCK / "gpu.txt"
    groups = [path for path in sorted(LOCK.glob("*.txt")) if path != gpu], [gpu]
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        python = Path(scratch) / "bin" / "python"
        install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", TOOL]
        if subprocess.run(install, capture_output=True).returncode:
            print(f"not audited: {TOOL} cannot be installed")
            return NOT_AUDITED
        found = [audited(python, group) for group in groups]
    print("\n".join(dict.fromkeys(line for _, lines in found for line in lines)))
    statuses = {status for status, _ in found}
    return VULNERABLE if VULNERABLE in statuses else NOT_AUDITED if NOT_AUDITED in statuses else CLEAN


if __name__ == "__main__":
    sys.exit(main())
