"""Two replicas on a local Ray cluster, calls on both: one is killed, then both are replaced while calls go on.

Ray is installed once into an environment of its own below `~/.cache/voicepace-peers`, which sees the service's packages.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prove, pytest.mark.alone, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HOME = Path("~/.cache/voicepace-peers/ray").expanduser()
LOCK = ROOT / "lock" / "ray.txt"


@pytest.fixture(scope="session")
def python_with_ray() -> Path:
    """Ray's own interpreter, made on first use."""
    beside = f"{ROOT}\n{sysconfig.get_path('purelib')}\n"
    python, stamp, wanted = HOME / "bin" / "python", HOME / "installed", LOCK.read_text() + beside
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "-r", LOCK], check=True)
        (HOME / "lib" / "python3.11" / "site-packages" / "voicepace.pth").write_text(beside)
        stamp.write_text(wanted)
    return python


def outcome(python: Path, *settings: str) -> dict[str, Any]:
    script = Path(__file__).with_name("ray_cluster.py")
    done = subprocess.run([python, script, *settings], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def holds(told: dict[str, Any]) -> None:
    """What must be so, whichever engine the replicas have."""
    assert told["replicas"] == 2
    # Calls were on both; those of the dead one were in mid-reply, and their sockets ended without a close frame.
    assert len(told["cut"]) + len(told["alive"]) == 8
    assert told["cut"] == [[1006, True]] * len(told["cut"]) != []
    assert told["alive"]
    assert all({*reasons} <= {"stop", "length"} and len(reasons) == 2 for reasons in told["alive"])
    assert len(told["new"]) == 1
    assert told["replaced"]
    # Each replica is scraped by itself, the killed one no more: together they count the second turns and the new call's.
    assert len(told["scrapes"]) == 2
    assert sum(told["scrapes"]) == 2 * len(told["alive"]) + 1
    assert told["proxied"] == 404
    # Deployed anew in mid-reply: every reply of the old replicas went on to its end, then they ended.
    assert len(told["drained"]) == len(told["alive"]) + 1
    assert {*told["drained"]} <= {"stop", "length"}
    assert told["renewed"] == 2


def test_calls_of_the_other_replica_go_on_and_new_ones_are_served(python_with_ray: Path) -> None:
    slowly = ("scripted.step_time_ms=200", "scripted.burst_sizes=[1]")
    holds(outcome(python_with_ray, "scripted.enabled=true", *slowly, "server.max_calls=16"))


@pytest.mark.parametrize("argument", ["replicas=two", "cpus=-1", "engine.modle=x"])
def test_a_wrong_argument_is_named(python_with_ray: Path, argument: str) -> None:
    key, value = argument.split("=")
    script = f"from deploy.ray_serve import application; application({{{key!r}: {value!r}}})"
    done = subprocess.run([python_with_ray, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert f"SettingsError: {key}: " in done.stderr
