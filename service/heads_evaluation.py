"""`voicepace heads eval`: tokens per step of heads on replies they have not seen, recomputed from the replies."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.heads.config import ARCHITECTURES, Architecture
from service.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from engine.heads.states import States
    from engine.heads.target import TargetModel

_SELECTIONS = ("greedy", "t07")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("--model", default="embedded", help="`embedded`, a folder, or a Hugging Face name")
    parser.add_argument(
        "--heads", default="shipped", help="file of heads, or folder with such files (default: the shipped ones)"
    )
    parser.add_argument(
        "--replies", type=Path, nargs="+", help="files of replies (default: those that come with the shipped heads)"
    )
    parser.add_argument("--device", default="cpu", help="`cpu`, or `cuda`")
    parser.add_argument("--json", action="store_true", help="print one JSON document as the last line")


def run(args: argparse.Namespace) -> int:
    """Print the tables. 0: printed; 2: an input is wrong, named on stderr."""
    from engine.api import EngineError

    try:
        document = _evaluated(args)
    except (SettingsError, EngineError, OSError, ValueError) as error:
        print(f"voicepace heads eval: {error}", file=sys.stderr)
        return 2
    print(_table(document))
    if args.json:
        print(json.dumps(document))
    return 0


def _evaluated(args: argparse.Namespace) -> dict[str, Any]:
    from engine.heads.names import reply_files
    from engine.heads.replies import read
    from engine.heads.target import load_target, target_folder

    settings = load_settings({"engine.model": args.model, "engine.speculation": "none"})
    folder = target_folder(args.model, settings.cache_dir)
    files = args.replies or reply_files()
    target = load_target(folder, args.device)
    sets: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for path in files:
            states = _states(target, read(path), Path(scratch) / path.name)
            sets[path.name.partition(".")[0]] = {
                name: found for name in ARCHITECTURES if (found := _judged(target, states, args.heads, name))
            }
    if not any(sets.values()):
        raise ValueError(f"heads: no file of heads in {args.heads}")
    first = next(iter(sets.values()))
    return {"tokens_per_step": {name: _by_tree(found) for name, found in first.items()}, "sets": sets}


def _states(target: TargetModel, replies: Any, folder: Path) -> States:
    from engine.heads.states import compute

    def show(done: int, total: int) -> None:
        print(f"\r{folder.name}: {done} of {total} tokens read", end="", file=sys.stderr)

    try:
        return compute(target.states, replies, folder, {}, show)
    finally:
        print(file=sys.stderr)


def _judged(target: TargetModel, states: States, heads: str, architecture: Architecture) -> dict[str, Any] | None:
    """Scores of one set of heads with its own trees; None where there are no such heads."""
    from engine.heads import shipped
    from engine.heads.evaluation import scores, scores_json, trees
    from engine.heads.names import HeadsMissing
    from engine.heads.tree_choice import path_shares_of

    try:
        checkpoint = shipped.load_heads(heads, architecture)
    except HeadsMissing:
        return None
    if checkpoint.heads.config.architecture != architecture:
        # `--heads` named a file, not a folder.
        return None
    shared = target.shared(checkpoint.token_map, checkpoint.own)
    device = target.model.device
    judged = trees(path_shares_of(checkpoint.about), checkpoint.heads.config.depth)
    return scores_json(scores(checkpoint.heads.to(device), shared, states, judged))


def _by_tree(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Tokens per step by tree, greedy and sampled, without loops."""
    trees = found[_SELECTIONS[0]]["tokens_per_step"]
    return {
        tree: {name: found[name]["tokens_per_step"][tree] for name in _SELECTIONS if name in found} for tree in trees
    }


def _table(document: dict[str, Any]) -> str:
    lines = []
    for file, by_architecture in document["sets"].items():
        for architecture, found in by_architecture.items():
            trees = list(next(iter(found.values()))["tokens_per_step"])
            lines += ["", f"{file}, {architecture} heads: tokens per step"]
            lines.append(f"{'':12}{'replies':>8}{'tokens':>8}" + "".join(f"{tree:>8}" for tree in trees))
            for name, values in found.items():
                row = "".join(f"{values['tokens_per_step'][tree]:8.2f}" for tree in trees)
                right = " ".join(f"{share:.2f}" for share in values["right_by_depth"])
                lines.append(f"{name:12}{values['replies']:8}{values['tokens']:8}{row}   first right {right}")
    return "\n".join(lines)
