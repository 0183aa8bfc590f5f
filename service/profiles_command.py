"""`voicepace profiles list|show`: what the named sets of defaults are, and what one passes to the engine."""

import argparse
import json
import sys

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
    print(json.dumps(PROFILES[args.name].engine_arguments(), indent=2, sort_keys=True))
    return 0
