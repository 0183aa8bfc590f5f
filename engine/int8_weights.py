"""A Llama checkpoint with its linear layers in int8, in the layout that vLLM loads as `compressed-tensors`.

Weights get one scale per output channel and are rounded to the nearest step; activations are rounded while serving,
with one scale per token. Both are symmetric: LLM.int8() calls this vector-wise quantization (arXiv 2208.07339, section
2.1), SmoothQuant W8A8 with per-token and per-channel scales (arXiv 2211.10438, section 2). Embeddings, norms and the
vocabulary matrix stay as they are.

Torch is imported where it is used.
"""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LEVELS = 127
"""Steps from zero to the largest weight of a channel: -128 is not used."""

WEIGHTS = "model.safetensors"

QUANTIZED_FROM = "voicepace_quantized_from"
"""Key of config.json: hash of the checkpoint that this one was made from (`engine.heads.target.model_hash`)."""

_LINEAR = tuple(f"{name}_proj.weight" for name in ("q", "k", "v", "o", "gate", "up", "down"))


def quantize(weight: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Round each output channel to multiples of its own scale.

    Args:
        weight: [out, in] of any floating type.

    Returns:
        [out, in] int8 between -127 and 127, and [out, 1] float32 scales. `int8 * scale` differs from `weight` by no
        more than half a scale. A channel of zeros has the scale 1.
    """
    import torch

    values = weight.float()
    largest = values.abs().amax(dim=1, keepdim=True)
    scale = torch.where(largest > 0, largest / LEVELS, torch.ones_like(largest))
    return (values / scale).round().clamp(-LEVELS, LEVELS).to(torch.int8), scale


def quantization_config() -> dict[str, Any]:
    """What config.json says of the layout, in the words of `compressed-tensors`."""
    eight_bits = {"num_bits": 8, "type": "int", "symmetric": True}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {**eight_bits, "strategy": "channel", "dynamic": False},
                "input_activations": {**eight_bits, "strategy": "token", "dynamic": True},
                "output_activations": None,
            }
        },
    }


def convert(checkpoint: Path, folder: Path) -> None:
    """Write the int8 copy of a Llama checkpoint, tokenizer and chat template included.

    Args:
        checkpoint: a Hugging Face folder with one `model.safetensors`.
        folder: an existing folder to write to.

    Raises:
        ValueError: it holds no linear layers that are known here.
    """
    from safetensors.torch import load_file, save_file

    from engine.heads.target import model_hash

    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(checkpoint / WEIGHTS).items():
        if name.endswith(_LINEAR):
            tensors[name], tensors[f"{name}_scale"] = quantize(tensor)
        else:
            tensors[name] = tensor
    if not any(name.endswith("_scale") for name in tensors):
        raise ValueError(f"{checkpoint.name}: {WEIGHTS} holds no linear layers of a Llama model")
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((checkpoint / "config.json").read_text())
    config |= {"quantization_config": quantization_config(), QUANTIZED_FROM: model_hash(checkpoint)}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for path in checkpoint.iterdir():
        if path.name.startswith(("tokenizer", "chat_template", "generation_config", "special_tokens")):
            shutil.copyfile(path, folder / path.name)
