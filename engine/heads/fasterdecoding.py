"""Checkpoints of Medusa's authors (github.com/FasterDecoding/Medusa), as a file of ours."""

import re
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from engine.heads.architectures import MedusaHeads
from engine.heads.checkpoint import Checkpoint, CheckpointError
from engine.heads.config import HeadsConfig

FILES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
_BARE = re.compile(r"^medusa_heads?\.")


def found(path: Path) -> Path:
    """The checkpoint that a folder holds, or the file itself.

    Raises:
        CheckpointError: neither.
    """
    for file in (path, *(path / name for name in FILES)):
        if file.is_file():
            return file
    raise CheckpointError(f"{path}: neither a file nor a folder with {' or '.join(FILES)}")


def read(path: Path, hidden: int, vocabulary: int) -> Checkpoint:
    """Heads with the vocabulary matrices they were trained with; every token can be drafted.

    Args:
        path: of the checkpoint.
        hidden: width of the target's hidden state.
        vocabulary: of the target.

    Raises:
        CheckpointError: no such file, other contents, or heads of a model with other sizes.
    """
    try:
        tensors = load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)
    except (OSError, SafetensorError, RuntimeError, UnpicklingError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint") from error
    named = {_BARE.sub("", name): value.float() for name, value in tensors.items()}
    blocks = {name: value for name, value in named.items() if ".linear." in name}
    if not blocks:
        raise CheckpointError(f"{path}: no residual block of Medusa heads in it")
    depth, layers = (1 + max(int(name.split(".")[axis]) for name in blocks) for axis in (0, 1))
    try:
        own = tuple(named[f"{head}.{layers}.weight"] for head in range(depth))
        width = blocks["0.0.linear.weight"].shape[0]
    except KeyError as error:
        raise CheckpointError(f"{path}: {error} is missing") from error
    if any(tuple(matrix.shape) != (vocabulary, width) for matrix in own) or width != hidden:
        raise CheckpointError(
            f"{path}: heads for {len(own[0])} tokens and a hidden state {width} wide; the model has "
            f"{vocabulary} and {hidden}"
        )
    heads = MedusaHeads(HeadsConfig("medusa", depth, hidden, hidden, layers, vocabulary)).requires_grad_(False)
    for name, value in blocks.items():
        head, layer, _, kind = name.split(".")
        getattr(heads, kind)[int(head), int(layer)] = value
    return Checkpoint(heads, torch.arange(vocabulary), {}, own)
