"""`voicepace heads train`: from a model to a file of heads, within a time budget."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import openmp
from engine.heads.config import ARCHITECTURES
from service.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from engine.heads.recipe import Wanted

_DEFAULT_DEPTH = {"medusa": 4, "sequential": 5}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("--model", default="embedded", help="`embedded`, a folder, or a Hugging Face name")
    parser.add_argument("--out", type=Path, required=True, help="folder for the data, the checkpoints and the heads")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="sequential")
    parser.add_argument("--budget-min", type=float, default=30, help="minutes of training; making data comes before it")
    parser.add_argument("--device", default="cpu", help="`cpu`, or `cuda`")
    data = parser.add_argument_group("data")
    data.add_argument(
        "--replies", type=Path, nargs="+", default=(), help="files of replies; default: they are generated"
    )
    data.add_argument("--prompts", type=Path, help="JSON lines of conversations to answer; default: invented callers")
    data.add_argument("--count", type=int, default=4000, help="callers to invent (default 4000)")
    data.add_argument("--max-tokens", type=int, default=192, help="of a reply (default 192)")
    data.add_argument("--greedy-share", type=float, default=0.5, help="of the replies; the rest is sampled at 0.7")
    data.add_argument(
        "--held-out", action="append", default=[], metavar="TOPIC", help="topic to judge by; may be given again"
    )
    data.add_argument("--max-rows", type=int, help="tokens to learn from at most")
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--depth", type=int, help="heads (default: sequential 5, medusa 4)")
    sizes.add_argument("--inner", type=int, help="sequential: width inside a block (default: about 1.8 × hidden)")
    sizes.add_argument("--layers", type=int, default=1)
    sizes.add_argument("--draft-vocabulary", type=int, default=8192, help="tokens that can be drafted (default 8192)")
    how = parser.add_argument_group("training")
    how.add_argument("--epochs", type=int, default=20, help="at most (default 20)")
    how.add_argument("--rows", type=int, default=512, help="of a step (default 512)")
    how.add_argument("--rate", type=float, default=2e-3, help="highest learning rate (default 0.002)")
    how.add_argument("--hard", type=float, default=0.2, help="weight of the said token against the distribution")
    how.add_argument(
        "--patience",
        type=int,
        default=4,
        help="judgements in a row, one every five minutes, that may be no better (default 4)",
    )
    how.add_argument("--seed", type=int, default=0)
    how.add_argument("--begin", type=Path, metavar="HEADS", help="a file of heads of the same sizes to go on from")


def run(args: argparse.Namespace) -> int:
    """Train. 0: done; 2: an input is wrong, named on stderr."""
    from engine.api import EngineError
    from engine.heads.replies import RepliesError

    if args.device == "cpu" and Path(sys.argv[0]).name == "voicepace":
        openmp.restart_with(openmp.library())
    try:
        about = _train(args)
    except (SettingsError, EngineError, RepliesError, OSError, ValueError) as error:
        print(f"voicepace heads train: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"heads": str(args.out / f"{args.architecture}.safetensors"), "acceptance": about["acceptance"]}))
    return 0


def _train(args: argparse.Namespace) -> dict[str, object]:
    from engine.heads.recipe import Data, Request, train
    from engine.heads.target import target_folder

    settings = load_settings({"engine.model": args.model, "engine.speculation": "none"})
    folder = target_folder(args.model, settings.cache_dir)
    data = Data(
        replies=tuple(args.replies),
        conversations=args.prompts,
        count=args.count,
        max_tokens=args.max_tokens,
        greedy_share=args.greedy_share,
        held_out=tuple(args.held_out),
        max_rows=args.max_rows,
    )
    request = Request(settings.engine, settings.cache_dir, folder, args.device, args.out, tuple(sys.argv[1:]))
    with closing(_Bars()) as bars:
        return train(request, data, _wanted(args), bars)


def _wanted(args: argparse.Namespace) -> Wanted:
    from engine.heads.loss import Recipe
    from engine.heads.recipe import Wanted
    from engine.heads.training import Plan

    return Wanted(
        architecture=args.architecture,
        depth=args.depth or _DEFAULT_DEPTH[args.architecture],
        inner=args.inner,
        layers=args.layers,
        draft_vocabulary=args.draft_vocabulary,
        begin=args.begin,
        plan=Plan(
            budget_s=args.budget_min * 60,
            epochs=args.epochs,
            rows=args.rows,
            rate=args.rate,
            recipe=Recipe(hard=args.hard),
            patience=args.patience,
            seed=args.seed,
        ),
    )


class _Bars:
    """A progress bar per stage on stderr."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Any = None

    def __call__(self, stage: str, share: float, note: str = "") -> None:
        from tqdm import tqdm

        if stage != self._stage:
            self.close()
            self._stage = stage
            form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(total=1000, desc=stage, bar_format=form)
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(round(share * 1000) - self._bar.n)

    def close(self) -> None:
        """End the bar of the stage that is over."""
        if self._bar is not None:
            self._bar.close()
