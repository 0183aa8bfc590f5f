"""`voicepace heads tree`: the tree with the most tokens per second, for each batch size, on the machine at hand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.heads.config import ARCHITECTURES

if TYPE_CHECKING:
    from engine.heads.tree_choice import Choice, PathShare

_MOST_NODES = 32
_BATCHES = (1, 2, 4, 8)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("--heads", default="shipped", help="as engine.heads (default: the shipped ones)")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="sequential")
    parser.add_argument("--out", type=Path, required=True, help="file for the tree, which engine.tree can name")
    parser.add_argument("--nodes", type=int, help="this many, instead of the number with the most tokens per second")
    parser.add_argument(
        "--bench", type=Path, help="what `voicepace bench speculation --json` printed last (default: measured now)"
    )


def run(args: argparse.Namespace) -> int:
    """Write and draw the tree. 0: done; 2: an input is wrong, named on stderr."""
    from engine.api import EngineError

    try:
        document, text = _tree(args)
        args.out.write_text(json.dumps(document) + "\n")
    except (EngineError, OSError, ValueError) as error:
        print(f"voicepace heads tree: {error}", file=sys.stderr)
        return 2
    print(text)
    return 0


def _tree(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from engine.heads.checkpoint import read_about
    from engine.heads.names import heads_path
    from engine.heads.tree_choice import best_sizes, expected_tokens, likeliest, path_shares_of
    from engine.provenance import provenance
    from engine.tree.drawing import draw
    from engine.tree.topology import Topology

    about = read_about(heads_path(args.heads, args.architecture))
    shares = path_shares_of(about)
    choices: tuple[Choice, ...] = ()
    if args.nodes is None:
        choices = best_sizes(shares, _steps(args), _MOST_NODES)
    nodes = args.nodes or max((choice.nodes for choice in choices), default=0)
    if not nodes:
        raise ValueError(
            "no tree pays on this machine: plain decoding has the most tokens per second at every batch size"
        )
    topology = Topology.from_paths(likeliest(shares, nodes))
    by_path = {entry.path: entry.share for entry in shares}
    labels = [f"candidate {path[-1] + 1}: {by_path[path]:.1%}" for path in topology.paths]
    document = json.loads(topology.to_json()) | {
        "sizes": {str(choice.batch): choice.nodes for choice in choices},
        "tokens_per_step": round(expected_tokens(shares, nodes), 4),
        "heads": {"architecture": args.architecture, "config": about["config"], "target": about.get("target")},
        "provenance": provenance(sys.argv[1:]),
    }
    return document, f"{draw(topology, labels, 'last token')}\n\n{_table(choices, shares)}"


def _steps(args: argparse.Namespace) -> Mapping[int, Mapping[int, float]]:
    """Seconds of a step by batch size and number of nodes, from a run of the benchmark."""
    if args.bench is not None:
        document = json.loads(args.bench.read_text().splitlines()[-1])
    else:
        document = _measured(args)
    from engine.bench.speculation_arms import TREES

    nodes = {"none": 0} | TREES
    steps: dict[int, dict[int, float]] = {}
    for row in document["rows"]:
        if row["arm"] in nodes and row["step_ms"]:
            steps.setdefault(row["concurrency"], {}).setdefault(nodes[row["arm"]], row["step_ms"] / 1e3)
    known = {batch: costs for batch, costs in steps.items() if 0 in costs and len(costs) > 1}
    if not known:
        raise ValueError("bench: no batch size with step times of plain decoding and of trees")
    return known


def _measured(args: argparse.Namespace) -> dict[str, Any]:
    from engine.bench import speculation
    from engine.bench.speculation_arms import TREES

    parser = argparse.ArgumentParser()
    speculation.add_arguments(parser)
    flags = ["--quick", "--rounds", "1", "--heads", args.heads, "--arms", "none", *TREES]
    return speculation.measured(parser.parse_args([*flags, "--concurrency", *map(str, _BATCHES)]))


def _table(choices: tuple[Choice, ...], shares: list[PathShare]) -> str:
    from engine.heads.tree_choice import expected_tokens

    lines = [f"{nodes} nodes: {expected_tokens(shares, nodes):.2f} tokens a step" for nodes in (4, 8, 16, 32)]
    for choice in choices:
        lines.append(
            f"{choice.batch} at a time: {choice.nodes} nodes, {choice.tokens_per_step:.2f} tokens in "
            f"{choice.step_s * 1e3:.1f} ms, {choice.tokens_per_s:.1f} tokens per second and reply"
        )
    return "\n".join(lines)
