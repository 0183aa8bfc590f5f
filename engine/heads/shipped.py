"""Heads as the engine loads them, by the name that `engine.heads` gives.

A shipped set fits one model only, which its hash says: other weights would still run, and be guessed badly.
"""

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open

from engine.heads.checkpoint import Checkpoint, CheckpointError, load, read_about, write_for_vllm
from engine.heads.config import Architecture
from engine.heads.names import heads_path
from engine.heads.target import model_hash

_VOCABULARY = ("lm_head.weight", "model.embed_tokens.weight")


def load_heads(name: str, architecture: Architecture) -> Checkpoint:
    """Heads that `engine.heads` names.

    Raises:
        HeadsMissing: it names none.
        CheckpointError: the file holds none.
    """
    return load(heads_path(name, architecture))


def fits(about: dict[str, object], model: Path) -> bool:
    """Whether heads were trained on the model in this folder; True where that cannot be told."""
    target = about.get("target")
    trained_on = target.get("sha256") if isinstance(target, dict) else None
    own = model_hash(model)
    return trained_on is None or own is None or trained_on == own


def vllm_folder(name: str, model: Path, cache_dir: Path, dtype: str, full_vocabulary: bool = False) -> Path:
    """The folder of independent heads for vLLM's `medusa`, made in the cache where it is not there yet.

    Args:
        name: as `engine.heads` names them.
        model: folder of the target's checkpoint, for its vocabulary matrix.
        cache_dir: of the service.
        dtype: `float32` or `bfloat16`.
        full_vocabulary: every token may be drafted, which makes vLLM read the whole matrix for each head.

    Raises:
        HeadsMissing: no such heads.
        CheckpointError: they are of another model.
    """
    path = heads_path(name, "medusa")
    about = read_about(path)
    if not fits(about, model):
        raise CheckpointError(f"heads: {path.name} were trained on another model than {model.name}")
    stamp = f"{path.stat().st_size:x}-{int(path.stat().st_mtime):x}-{dtype}{'-full' if full_vocabulary else ''}"
    folder = cache_dir / "heads" / f"{model.name}-medusa-{stamp}"
    if (folder / "config.json").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        checkpoint, vocabulary = load(path), read_vocabulary(model)
        if full_vocabulary:
            checkpoint = replace(checkpoint, token_map=torch.arange(len(vocabulary)))
        write_for_vllm(fresh, checkpoint, vocabulary, getattr(torch, dtype))
        os.replace(fresh, folder)
    except OSError:
        # Another process may have been first.
        if not (folder / "config.json").exists():
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def read_vocabulary(model: Path) -> torch.Tensor:
    """[vocabulary, hidden] the matrix that the target's last hidden state is multiplied with.

    Raises:
        CheckpointError: the checkpoint does not hold it.
    """
    index = model / "model.safetensors.index.json"
    files = json.loads(index.read_text())["weight_map"] if index.exists() else {}
    for name in _VOCABULARY:
        path = model / files.get(name, "model.safetensors")
        if not path.is_file():
            continue
        with safe_open(path, "pt") as file:
            if name in file.keys():  # noqa: SIM118 (not a dictionary)
                tensor: torch.Tensor = file.get_tensor(name)
                return tensor
    raise CheckpointError(f"{model} holds no vocabulary matrix")
