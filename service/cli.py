"""The `voicepace` command. Imports a command's module only when that command is run, so that `--help` is instant."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from service.subcommands import run_subcommand

COMMANDS = {
    "serve": ("service.server", "run the service"),
    "call": ("service.call", "call a running service from the command line"),
    "loadtest": ("service.loadtest.command", "many simulated callers against a running service"),
    "plan": ("service.plan_command", "what a GPU and a model can hold"),
    "profiles": ("service.profiles_command", "list the profiles, or show what one passes to the engine"),
    "heads": ("service.heads_command", "train, judge and choose what speculation drafts with"),
    "bench": ("service.bench_command", "benchmarks"),
}

BROKEN_PIPE = 141  # what shells report of a command that SIGPIPE has ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser("voicepace", description="Streaming voice-agent LLM service.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in arguments if word in COMMANDS), None)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == wanted:
            importlib.import_module(module).add_arguments(command)
    args = parser.parse_args(arguments)
    try:
        status = run_subcommand(COMMANDS, args.command, args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has left (`| head`). What is still to be flushed at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status
