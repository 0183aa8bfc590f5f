"""`voicepace profiles list|show`: what the named sets of defaults are, and what one passes to the engine."""

import argparse
import json
import sys
from typing import Any

from engine.arguments import vllm_arguments
from engine.hardware import CpuFacts, read_cpu
from engine.options import EngineOptions
from engine.profiles import PROFILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`list`, or `show NAME`."""
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="names and purposes")
    show = actions.add_parser("show", help="the exact engine arguments of one profile, as JSON")
    show.add_argument("name")


def run(args: argparse.Namespace) -> int:
    """Print; 2 for a name that does not exist."""
    if args.action == "list":
        for name, profile in PROFILES.items():
            print(f"{name:24} {profile.description}")
        return 0
    if args.name not in PROFILES:
        print(f"voicepace: there is no profile {args.name!r}; known: {', '.join(PROFILES)}", file=sys.stderr)
        return 2
    print(json.dumps(engine_arguments(args.name, read_cpu()), indent=2, sort_keys=True))
    return 0


def engine_arguments(name: str, cpu: CpuFacts | None) -> dict[str, Any]:
    """What the profile passes to vLLM; `cpu` matters to the profiles that run on one."""
    options = EngineOptions.model_validate(PROFILES[name].settings["engine"])
    return vllm_arguments(options, cpu if options.embedded else None)
