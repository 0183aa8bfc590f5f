"""Heads as files.

Ours: one safetensors file with the small matrices in bfloat16, the token map, and everything else (`about`: config,
provenance, figures) as JSON in its metadata. The vocabulary matrix is not in it: it is the target's own. vLLM's
`medusa` method wants a folder that holds it too, which `write_for_vllm` makes. FasterDecoding's checkpoints can be
read.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from engine.heads.architectures import MedusaHeads, SequentialHeads, build
from engine.heads.config import HeadsConfig

_TOKEN_MAP = "token_map"
_BARE = re.compile(r"^medusa_heads?\.")


class CheckpointError(ValueError):
    """A file that does not hold heads; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Heads with what belongs to them.

    Attributes:
        heads: float32.
        token_map: [draft vocabulary] token ids, the commonest first.
        about: `provenance`, `acceptance`, `paths` … as far as known.
    """

    heads: MedusaHeads | SequentialHeads
    token_map: torch.Tensor
    about: dict[str, Any]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """One file, replaced at once."""
    tensors = {name: value.detach().bfloat16().contiguous() for name, value in checkpoint.heads.state_dict().items()}
    tensors[_TOKEN_MAP] = checkpoint.token_map.to(torch.int32).contiguous()
    about = {"config": asdict(checkpoint.heads.config)} | checkpoint.about
    partial = path.with_suffix(".partial")
    save_file({name: value.cpu() for name, value in tensors.items()}, partial, {"voicepace_heads": json.dumps(about)})
    partial.replace(path)


def load(path: Path) -> Checkpoint:
    """Heads that `save` wrote.

    Raises:
        CheckpointError: the file is missing or holds no heads.
    """
    about = read_about(path)
    tensors = load_file(path)
    token_map = tensors.pop(_TOKEN_MAP).long()
    heads = build(HeadsConfig.from_json(about["config"]))
    try:
        heads.load_state_dict({name: value.float() for name, value in tensors.items()})
    except RuntimeError as error:
        raise CheckpointError(f"{path}: {str(error).splitlines()[0]}") from error
    return Checkpoint(heads.requires_grad_(False), token_map, about)


def read_about(path: Path) -> dict[str, Any]:
    """What a file of heads says of itself, without reading them.

    Raises:
        CheckpointError: the file is missing or holds no heads.
    """
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["voicepace_heads"])
    except (OSError, SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path} is not a file of heads") from error
    return about


def write_for_vllm(folder: Path, checkpoint: Checkpoint, vocabulary: torch.Tensor, dtype: torch.dtype) -> None:
    """The folder that vLLM's `medusa` method loads: heads, the target's vocabulary rows, the token map.

    Args:
        folder: made if missing.
        checkpoint: independent heads.
        vocabulary: [vocabulary, hidden] the target's matrix.
        dtype: to write them in.

    Raises:
        ValueError: sequential heads, which vLLM does not know.
    """
    heads = checkpoint.heads
    if not isinstance(heads, MedusaHeads):
        raise ValueError("vLLM's medusa method knows independent heads only")
    config, token_map = heads.config, checkpoint.token_map
    tensors = {
        f"blocks.{head}.layers.{layer}.{kind}": value[head, layer].detach().to(dtype).contiguous()
        for kind, value in (("weight", heads.weight), ("bias", heads.bias))
        for head in range(config.depth)
        for layer in range(config.layers)
    }
    shortened = len(token_map) < len(vocabulary)
    tensors["lm_heads.0.weight"] = (vocabulary[token_map] if shortened else vocabulary).to(dtype).contiguous()
    if shortened:
        tensors[_TOKEN_MAP] = token_map
    document = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": config.hidden,
        "vocab_size": len(vocabulary),
        "truncated_vocab_size": len(token_map) if shortened else len(vocabulary),
        "num_heads": config.depth,
        "num_hidden_layers": config.layers,
        "medusa_fc_bias": True,
        "original_lm_head": True,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(document, indent=1))


def read_fasterdecoding(path: Path) -> tuple[MedusaHeads, tuple[torch.Tensor, ...]]:
    """A checkpoint of Medusa's authors (`medusa_lm_head.pt` or `.safetensors`).

    Returns:
        The heads, and the vocabulary matrix [vocabulary, hidden] of each.

    Raises:
        CheckpointError: no such file, or other contents.
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
    hidden = blocks["0.0.linear.weight"].shape[0]
    heads = MedusaHeads(HeadsConfig("medusa", depth, hidden, hidden, layers, 1)).requires_grad_(False)
    for name, value in blocks.items():
        head, layer, _, kind = name.split(".")
        getattr(heads, kind)[int(head), int(layer)] = value
    return heads, tuple(named[f"{head}.{layers}.weight"] for head in range(depth))
