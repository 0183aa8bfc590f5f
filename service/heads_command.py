"""`voicepace heads …`: train draft heads, judge them, choose a tree, ask a running service whether they still fit."""

import argparse

from service.subcommands import add_subcommands, run_subcommand

ACTIONS = {
    "train": ("service.heads_training", "train heads for a model, on its own replies"),
    "eval": ("service.heads_evaluation", "tokens per step of heads on replies they have not seen"),
    "tree": ("service.heads_tree", "the tree with the most tokens per second on this machine"),
    "import": ("service.heads_import", "take over heads of Medusa's authors, as a file of ours"),
    "report": ("service.heads_report", "whether the heads still fit the traffic of a running service"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand per action."""
    add_subcommands(parser, ACTIONS, "action")


def run(args: argparse.Namespace) -> int:
    """Run it; its exit status."""
    return run_subcommand(ACTIONS, args.action, args)
