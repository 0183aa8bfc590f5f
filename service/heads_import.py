"""`voicepace heads import`: heads of Medusa's authors as a file of ours, judged on replies where there are some."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from engine.heads.checkpoint import Checkpoint
    from engine.heads.replies import Reply


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        required=True,
        help="medusa_lm_head.safetensors or .pt, or the folder that holds it",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for medusa.safetensors, which engine.heads names"
    )
    parser.add_argument(
        "--model", default="embedded", help="they belong to: `embedded`, a folder, or a Hugging Face name"
    )
    parser.add_argument(
        "--replies",
        type=Path,
        nargs="+",
        help="files of the model's replies: one half says which trees pay, one judges",
    )
    parser.add_argument("--device", default="cpu", help="to judge on: `cpu`, or `cuda`")


def run(args: argparse.Namespace) -> int:
    """Write the file. 0: written; 2: an input is wrong, named on stderr."""
    from engine.api import EngineError
    from engine.heads.checkpoint import save

    try:
        checkpoint = _imported(args)
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / "medusa.safetensors"
        save(path, checkpoint)
    except (SettingsError, EngineError, OSError, ValueError) as error:
        print(f"voicepace heads import: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"heads": str(path), "acceptance": checkpoint.about.get("acceptance")}))
    return 0


def _imported(args: argparse.Namespace) -> Checkpoint:
    from dataclasses import replace

    from transformers import AutoConfig

    from engine.heads import fasterdecoding
    from engine.heads.replies import read
    from engine.heads.target import model_hash, target_folder
    from engine.provenance import provenance

    settings = load_settings({"engine.model": args.model, "engine.speculation": "none"})
    source = fasterdecoding.found(args.source)
    replies = [reply for path in args.replies or () for reply in read(path)]
    folder = target_folder(args.model, settings.cache_dir)
    sizes = AutoConfig.from_pretrained(folder).get_text_config()
    checkpoint = fasterdecoding.read(source, sizes.hidden_size, sizes.vocab_size)
    about: dict[str, Any] = {
        "target": {"model": Path(folder).name, "sha256": model_hash(Path(folder))},
        "data": {"imported": source.name, "files": [path.name for path in args.replies or ()]},
        "provenance": provenance(sys.argv[1:]),
    }
    if replies:
        about |= _judged(checkpoint, folder, args.device, replies)
    return replace(checkpoint, about=about)


def _judged(checkpoint: Checkpoint, folder: str, device: str, replies: list[Reply]) -> dict[str, Any]:
    """Joint accuracies along paths on every other reply, and tokens per step on the rest."""
    from engine.heads.evaluation import calibrate, scores, scores_json, trees
    from engine.heads.states import compute
    from engine.heads.target import load_target

    if len(replies) < 2:
        raise ValueError("one reply cannot say which trees pay and judge them: give more")
    target = load_target(folder, device)
    heads, shared = checkpoint.heads.to(device), target.shared(checkpoint.token_map, checkpoint.own)
    with tempfile.TemporaryDirectory() as scratch:
        known, judged = (
            compute(target.states, replies[first::2], Path(scratch) / str(first), {}, lambda done, total: None)
            for first in (0, 1)
        )
        shares = calibrate(heads, shared, known, range(known.replies))
        found = scores(heads, shared, judged, trees(shares, heads.config.depth))
    return {
        "acceptance": scores_json(found),
        "paths": [[list(entry.path), round(entry.share, 6)] for entry in shares],
    }
