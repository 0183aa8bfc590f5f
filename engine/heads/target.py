"""The target model as offline work needs it: a `transformers` model, and the matrices that heads share with it."""

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine import embedded_model
from engine.heads.loss import Target
from engine.heads.states import Source, hidden_states
from engine.int8_weights import QUANTIZED_FROM

_HASHED = ("config.json", "model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A frozen causal language model.

    Attributes:
        model: of `transformers`.
        folder: where it was loaded from.
    """

    model: Any
    folder: str

    @property
    def vocabulary(self) -> torch.Tensor:
        """[vocabulary, hidden] what the last hidden state is multiplied with."""
        weight: torch.Tensor = self.model.get_output_embeddings().weight
        return weight.detach().float()

    @property
    def embedding(self) -> torch.Tensor:
        """[vocabulary, hidden]."""
        weight: torch.Tensor = self.model.get_input_embeddings().weight
        return weight.detach().float()

    @property
    def states(self) -> Source:
        """The model itself as what computes states."""
        return Source(partial(hidden_states, self.model), self.hidden, "transformers")

    @property
    def hidden(self) -> int:
        """Width of the hidden state."""
        return int(self.model.config.hidden_size)

    def shared(self, token_map: torch.Tensor, own: tuple[torch.Tensor, ...] = ()) -> Target:
        """The matrices, cut to the tokens that heads may draft."""
        device = self.model.device
        moved = tuple(matrix.to(device) for matrix in own)
        return Target.of(self.vocabulary, self.embedding, token_map.to(device), moved)


def target_folder(model: str, cache_dir: Path) -> str:
    """What `engine.model` names, as `transformers` loads it: the embedded model's checkpoint is made where missing.

    Raises:
        EngineStartError: the embedded model cannot be made.
    """
    # Settings need packages that training on another machine does without.
    from engine.options import EMBEDDED_MODEL

    return str(embedded_model.ready(cache_dir, print)) if model == EMBEDDED_MODEL else model


def load_target(folder: str, device: str) -> TargetModel:
    """The model of a folder or Hugging Face name; float32 on a CPU, bfloat16 on a GPU."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval().requires_grad_(False)
    return TargetModel(model, folder)


def model_hash(folder: Path) -> str | None:
    """SHA-256 over what makes the model what it is; None for a name, which is no folder.

    An int8 copy made here counts as the model that it was made from: the same heads fit.
    """
    if made_from := _made_from(folder / "config.json"):
        return made_from
    files = [folder / name for name in _HASHED if (folder / name).is_file()]
    if not files:
        return None
    digest = hashlib.sha256()
    for path in files:
        # The config holds the library's version, which does not change the model.
        own = hashlib.sha256(_without_version(path)) if path.name == "config.json" else _sha256(path)
        digest.update(own.digest())
    return digest.hexdigest()


def _made_from(config: Path) -> str | None:
    origin = json.loads(config.read_text()).get(QUANTIZED_FROM) if config.is_file() else None
    return origin if isinstance(origin, str) else None


def _sha256(path: Path) -> "hashlib._Hash":
    """Of a file that may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _without_version(config: Path) -> bytes:
    document = json.loads(config.read_text())
    document.pop("transformers_version", None)
    return json.dumps(document, sort_keys=True).encode()
