"""`voicepace heads …`: train draft heads, judge them, choose a tree, ask a running service whether they still fit."""

import argparse
import importlib

ACTIONS = {
    "train": ("service.heads_training", "train heads for a model, on its own replies"),
    "eval": ("service.heads_evaluation", "tokens per step of heads on replies they have not seen"),
    "tree": ("service.heads_tree", "the tree with the most tokens per second on this machine"),
    "report": ("service.heads_report", "whether the heads still fit the traffic of a running service"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand per action."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (module, text) in ACTIONS.items():
        importlib.import_module(module).add_arguments(actions.add_parser(name, help=text, description=text))


def run(args: argparse.Namespace) -> int:
    """Run it; its exit status."""
    status: int = importlib.import_module(ACTIONS[args.action][0]).run(args)
    return status
