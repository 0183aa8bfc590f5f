"""`voicepace bench published`: the published experiments' shape on whatever hardware there is.

Streamed replies at temperature 0, for every strategy that can be run here, on several kinds of prompt and at several
concurrencies, with plain decoding measured beside each: one table, one plot, one JSON document.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.api import EngineError
from engine.bench import published_plot, published_report
from engine.bench.published_arms import ARMS, PLAIN, Assets, arm, base_settings
from engine.bench.published_host import Host, VllmHost, cut_draft_model
from engine.bench.published_prompts import DIALOGUES
from engine.bench.published_run import Run, Workload
from engine.hardware import read_cpu
from engine.options import EMBEDDED_MODEL
from engine.profiles import PROFILES
from engine.provenance import in_words, provenance

DRAFT_LAYERS = 6
QUICK = Workload(kinds=("conversational",), concurrency=(1, 4), prompts=4, reply_tokens=48)
_QUICK_ARMS = (PLAIN, "ngram")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    usual = Workload()
    parser.add_argument("--profile", default="cpu-demo", help="engine settings to start from (default: cpu-demo)")
    parser.add_argument("--model", help="instead of the profile's")
    parser.add_argument("--dtype", choices=("auto", "bfloat16", "float16", "float32"), help="embedded model: float32")
    parser.add_argument("--arms", nargs="+", choices=ARMS, metavar="ARM", help=f"of {', '.join(ARMS)} (default: all)")
    parser.add_argument("--heads", metavar="FOLDER", help="trained heads, for medusa and medusa_tree")
    parser.add_argument("--eagle-head", metavar="FOLDER", help="for eagle")
    parser.add_argument("--eagle3-head", metavar="FOLDER", help="for eagle3")
    parser.add_argument("--draft-model", metavar="MODEL", help="embedded model: its own first layers")
    parser.add_argument("--draft-layers", type=int, default=DRAFT_LAYERS, help=f"of those (default: {DRAFT_LAYERS})")
    parser.add_argument("--drafts", type=int, help="tokens drafted per step (default: each strategy's own)")
    parser.add_argument("--kinds", nargs="+", choices=tuple(DIALOGUES), help="of prompts (default: all)")
    parser.add_argument("--concurrency", nargs="+", type=int, metavar="N", help="default: 1 2 4 8")
    parser.add_argument("--prompts", type=int, help=f"dialogues of each kind (default: {usual.prompts})")
    parser.add_argument("--tokens", type=int, help=f"most tokens of a reply (default: {usual.reply_tokens})")
    parser.add_argument("--rounds", type=int, default=1, help="A B B A rounds of every cell (default: 1)")
    parser.add_argument(
        "--resident",
        choices=("pairs", "one"),
        help="pairs: plain decoding and one arm in memory, taking turns; one: a single engine at a time, not in turns "
        "(default: pairs on a CPU, one on a GPU, whose memory an engine takes for itself)",
    )
    parser.add_argument("--quick", action="store_true", help="none and ngram, 1 and 4 at a time, conversational")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the prompts and of the bootstrap")
    parser.add_argument("--cache-dir", type=Path, default=Path("~/.cache/voicepace"), help="of the embedded model")
    parser.add_argument("--plot", type=Path, default=Path("published.svg"), help="file (default: published.svg)")
    parser.add_argument("--json", action="store_true", help="end with one JSON document, on one line")


def run(args: argparse.Namespace) -> int:
    """Measure, print the table and write the plot; the exit status."""
    cache_dir = args.cache_dir.expanduser()
    try:
        workload = workload_of(args)
        settings = base_settings(args.profile, {"model": args.model, "dtype": args.dtype})
        found, machine = measure(args, workload, settings, VllmHost(cache_dir, _progress))
        args.plot.write_text(published_plot.svg(found, machine), encoding="utf-8")
    except (EngineError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(published_report.table(found, machine))
    print(f"plot: {args.plot}")
    if args.json:
        print(json.dumps(found, allow_nan=False))
    return 0


def workload_of(args: argparse.Namespace) -> Workload:
    """What the flags ask for.

    Raises:
        ValueError: they do not fit together.
    """
    usual = QUICK if args.quick else Workload()
    return Workload(
        kinds=tuple(args.kinds or usual.kinds),
        concurrency=tuple(args.concurrency or usual.concurrency),
        prompts=args.prompts or usual.prompts,
        reply_tokens=args.tokens or usual.reply_tokens,
        rounds=args.rounds,
        seed=args.seed,
        resident_pairs=args.resident == "pairs" if args.resident else read_cpu() is not None,
    )


def measure(
    args: argparse.Namespace, workload: Workload, settings: dict[str, Any], host: Host
) -> tuple[dict[str, Any], str]:
    """The document, and the machine in words.

    Args:
        args: the flags.
        workload: from them.
        settings: from `base_settings`.
        host: makes the engines.

    Raises:
        EngineError: plain decoding cannot be run.
    """
    names = [PLAIN, *(name for name in args.arms or (_QUICK_ARMS if args.quick else ARMS) if name != PLAIN)]
    settings["max_num_seqs"] = max(int(settings.get("max_num_seqs", 1)), *workload.concurrency)
    about = provenance(sys.argv[1:], workload.seed)
    assets, missing = _assets(args, settings, names)
    arms = [arm(name, settings, assets) for name in names if name not in missing]
    bench = Run(host, workload, _progress)
    try:
        outcome = asyncio.run(bench.measure(arms))
    except KeyboardInterrupt:
        # A whole run takes an hour on a small machine: what is there is shown.
        outcome = bench.interrupted(arms)
        if not outcome.blocks:
            raise
    outcome.not_run |= missing
    options = {each.name: each.options.model_dump(exclude_unset=True) for each in arms if each.options is not None}
    return published_report.document(outcome, workload, options, about), in_words(about["machine"])


def _assets(args: argparse.Namespace, settings: Mapping[str, Any], names: list[str]) -> tuple[Assets, dict[str, str]]:
    """What there is to draft with; arms that cannot be run for lack of it, with the reason."""
    # Those of the profile belong to the profile's model.
    own = {} if args.model else PROFILES[args.profile].settings["engine"]
    heads = args.heads or own.get("heads")
    draft_model, missing = args.draft_model or own.get("draft_model"), dict[str, str]()
    if "draft_model" in names and draft_model is None and settings["model"] == EMBEDDED_MODEL:
        try:
            draft_model = str(cut_draft_model(args.cache_dir.expanduser(), args.draft_layers, _progress))
        except EngineError as error:
            missing["draft_model"] = str(error)
    return Assets(draft_model, heads, args.eagle_head, args.eagle3_head, args.drafts), missing


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
