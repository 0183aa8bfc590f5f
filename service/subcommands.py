"""Subcommands by name, each in a module of its own with `add_arguments` and `run`."""

import argparse
import importlib
from collections.abc import Mapping

Subcommands = Mapping[str, tuple[str, str]]
"""For each name the module and what it is for."""


def add_subcommands(parser: argparse.ArgumentParser, known: Subcommands, dest: str) -> None:
    """One parser per subcommand, with its own flags; its name will be found under `dest`."""
    parsers = parser.add_subparsers(dest=dest, required=True, metavar=dest.upper())
    for name, (module, text) in known.items():
        importlib.import_module(module).add_arguments(parsers.add_parser(name, help=text, description=text))


def run_subcommand(known: Subcommands, name: str, args: argparse.Namespace) -> int:
    """Run it; its exit status."""
    status: int = importlib.import_module(known[name][0]).run(args)
    return status
