"""Heads as files.

Ours: one safetensors file with the small matrices in bfloat16, the token map, and everything else (`about`: config,
provenance, figures) as JSON in its metadata. The vocabulary matrix is not in it: it is the target's own, unless the
heads were trained with matrices of their own, as those of Medusa's authors are. vLLM's `medusa` method wants a folder
that holds it too, which `write_for_vllm` makes.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from engine.heads.architectures import MedusaHeads, SequentialHeads, build
from engine.heads.config import HeadsConfig

_TOKEN_MAP = "token_map"
_OWN = "own"


class CheckpointError(ValueError):
    """A file that does not hold heads; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Heads with what belongs to them.

    Attributes:
        heads: float32.
        token_map: [draft vocabulary] token ids, the commonest first.
        about: `provenance`, `acceptance`, `paths` … as far as known.
        own: for each depth [vocabulary, hidden], where the heads do not use the target's vocabulary matrix; else empty.
    """

    heads: MedusaHeads | SequentialHeads
    token_map: torch.Tensor
    about: dict[str, Any]
    own: tuple[torch.Tensor, ...] = ()


def save(path: Path, checkpoint: Checkpoint) -> None:
    """One file, replaced at once."""
    tensors = {name: value.detach().bfloat16().contiguous() for name, value in checkpoint.heads.state_dict().items()}
    tensors[_TOKEN_MAP] = checkpoint.token_map.to(torch.int32).contiguous()
    tensors |= {f"{_OWN}.{depth}": matrix.bfloat16().contiguous() for depth, matrix in enumerate(checkpoint.own)}
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
    kept = sum(name.startswith(f"{_OWN}.") for name in tensors)
    own = tuple(tensors.pop(f"{_OWN}.{depth}").float() for depth in range(kept))
    try:
        heads.load_state_dict({name: value.float() for name, value in tensors.items()})
    except RuntimeError as error:
        raise CheckpointError(f"{path}: {str(error).splitlines()[0]}") from error
    return Checkpoint(heads.requires_grad_(False), token_map, about, own)


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
    # Matrices of the heads' own are written whole: vLLM shortens none but the target's.
    shortened = len(token_map) < len(vocabulary) and not checkpoint.own
    for head, matrix in enumerate(checkpoint.own or [vocabulary]):
        tensors[f"lm_heads.{head}.weight"] = (matrix[token_map] if shortened else matrix).to(dtype).contiguous()
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
        "original_lm_head": not checkpoint.own,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(document, indent=1))
