"""`voicepace bench speculation`: what drafting is worth on this machine, all strategies in one run."""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from engine.api import EngineError
from engine.bench.published_arms import base_settings
from engine.bench.published_host import VllmHost
from engine.bench.published_prompts import DIALOGUES
from engine.bench.speculation_arms import ARMS, QUICK_ARMS, options
from engine.bench.speculation_report import document, table
from engine.bench.speculation_run import Run, Workload
from engine.options import EngineOptions
from engine.provenance import in_words, provenance

QUICK = Workload(kinds=("conversational",), temperatures=(0.0,), concurrency=(1, 4), reply_tokens=48, rounds=2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    parser.add_argument("--profile", default="cpu-demo", help="engine settings to start from (default: cpu-demo)")
    parser.add_argument("--model", help="instead of the profile's")
    parser.add_argument("--heads", default="shipped", help="as engine.heads (default: the shipped ones)")
    parser.add_argument("--arms", nargs="+", choices=ARMS, metavar="ARM", help=f"of {', '.join(ARMS)} (default: all)")
    parser.add_argument("--kinds", nargs="+", choices=tuple(DIALOGUES), help="of prompts (default: all)")
    parser.add_argument("--temperatures", nargs="+", type=float, metavar="T", help="default: 0 0.7")
    parser.add_argument("--concurrency", nargs="+", type=int, metavar="N", help="default: 1 2 4 8")
    parser.add_argument("--prompts", type=int, help="dialogues of each kind (default: 8)")
    parser.add_argument("--tokens", type=int, help="most tokens of a reply (default: 64)")
    parser.add_argument("--rounds", type=int, help="A B … B A rounds of every cell (default: 1; --quick: 2)")
    parser.add_argument(
        "--quick", action="store_true", help="none, chain, the tree as served and of 16 nodes; 1 and 4 at a time"
    )
    parser.add_argument("--seed", type=int, default=0, help="of prompts' order, of sampling and of the bootstrap")
    parser.add_argument("--cache-dir", type=Path, default=Path("~/.cache/voicepace"), help="of the embedded model")
    parser.add_argument("--json", action="store_true", help="end with one JSON document, on one line")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit status."""
    try:
        found = measured(args)
    except (EngineError, OSError, ValueError) as error:
        print(f"voicepace bench speculation: {error}", file=sys.stderr)
        return 1
    print(table(found, in_words(found["provenance"]["machine"])))
    if args.json:
        print(json.dumps(found, allow_nan=False))
    return 0


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Run it; the document.

    Raises:
        EngineError: an engine fails.
        ValueError: the flags do not fit, or there are no heads.
    """
    cache_dir = args.cache_dir.expanduser()
    workload = workload_of(args)
    about = provenance(sys.argv[1:], args.seed)
    arms = arms_of(args, workload, cache_dir)
    outcome = asyncio.run(Run(VllmHost(cache_dir, _progress), workload, _progress).measure(arms))
    return document(outcome, workload, about)


def workload_of(args: argparse.Namespace) -> Workload:
    """What the flags ask for."""
    usual = QUICK if args.quick else Workload()
    return Workload(
        kinds=tuple(args.kinds or usual.kinds),
        temperatures=tuple(args.temperatures or usual.temperatures),
        concurrency=tuple(args.concurrency or usual.concurrency),
        prompts=args.prompts or usual.prompts,
        reply_tokens=args.tokens or usual.reply_tokens,
        rounds=args.rounds or usual.rounds,
        seed=args.seed,
    )


def arms_of(args: argparse.Namespace, workload: Workload, cache_dir: Path) -> dict[str, EngineOptions]:
    """Engine options by arm.

    Raises:
        ValueError: the settings do not fit, or there are no heads.
        EngineStartError: the embedded model is missing.
    """
    settings = base_settings(args.profile, {"model": args.model})
    settings["max_num_seqs"] = max(int(settings.get("max_num_seqs", 1)), *workload.concurrency)
    # Many engines are resident: each takes no more cache than its replies need.
    settings["cpu_kv_cache_gib"] = min(float(settings.get("cpu_kv_cache_gib", 0.5)), 0.5)
    names = args.arms or (QUICK_ARMS if args.quick else ARMS)
    return {name: options(name, settings, args.heads, cache_dir) for name in names}


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
