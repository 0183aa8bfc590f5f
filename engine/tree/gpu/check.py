"""Does what trees need on a GPU work on this one, and what does it cost?

    python -m engine.tree.gpu.check --json gpu.json

Needs torch, triton, numpy and safetensors, and no engine. Kernels are compared with dense float64 references, replies of a
small decoder with trees are compared with plain ones; then attention, heads, walk and moves are timed at the sizes of
Llama-3-8B and of the embedded model, and whole steps with trees against plain ones, all on random weights in bfloat16. The
last line is one JSON document. Ends with status 1 where a comparison failed.

    python -m engine.tree.gpu.check --device cpu --interpret

runs all of it on tiny cases under Triton's interpreter; its times mean nothing.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from engine.tree.stopwatch import now_s


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run.

    Attributes:
        batches: requests of a step.
        contexts: tokens.
        trees: nodes.
        longest: context of the comparisons.
        prompts: tokens of the prompts of compared replies.
        tokens: of a compared reply.
    """

    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    trees: tuple[int, ...]
    longest: int
    prompts: tuple[int, ...]
    tokens: int


FULL = Plan((1, 4, 8, 16), (256, 1024, 4096), (8, 16, 32), 2000, (37, 16, 5, 700), 96)
TINY_PLAN = Plan((2,), (40,), (8,), 280, (37, 5, 280), 10)


def sections(plan: Plan, device: str, tune: bool) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """What is run, by name and in order."""
    import torch

    from engine.tree.gpu import check_attention as attention
    from engine.tree.gpu import check_parts as parts
    from engine.tree.gpu import check_steps as steps
    from engine.tree.gpu.check_model import LLAMA, SMOL, TINY
    from engine.tree.gpu.check_replies import replies
    from engine.tree.gpu.check_timing import copy_bytes_per_s

    on_gpu = device == "cuda"
    processors = torch.cuda.get_device_properties(0).multi_processor_count if on_gpu else 4
    cases = [(TINY, torch.float32), (TINY, torch.float16)]
    if on_gpu:
        cases = [(SMOL, torch.float32), (SMOL, torch.float16), (SMOL, torch.bfloat16), (LLAMA, torch.bfloat16)]
    tree = parts.tree_of(max(plan.trees))
    models = [(SMOL, True), (LLAMA, False)] if on_gpu else [(TINY, False)]
    sizes = (plan.batches, plan.contexts, plan.trees, device, processors)
    moved = torch.bfloat16 if on_gpu else torch.float16
    found: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "attention is exact": partial(parts.attention_is_exact, cases, device, (1, 400), plan.longest),
        "replies are the same": lambda: [replies(device, count, plan.prompts, plan.tokens) for count in (1, 400)],
        "drafting is exact": lambda: [parts.drafting_is_exact(SMOL, parts.tree_of(16, True), device, True)],
        "walk is exact": lambda: [parts.walk_is_exact(tree, device)],
        "compaction is exact": lambda: [
            parts.compaction_is_exact(model.attention, moved, device) for model, _ in models
        ],
    }
    speed = cache(partial(copy_bytes_per_s, device))
    found["copy"] = lambda: [{"gb_per_s": speed() / 1e9}]
    for model, shipped in models:
        found[f"attention of {model.name}"] = partial(attention.attention_times, model, *sizes, speed)
        found[f"parts of {model.name}"] = partial(
            steps.part_times, model, plan.batches, plan.trees, device, shipped and on_gpu
        )
        found[f"steps of {model.name}"] = partial(steps.step_times, model, *sizes, shipped and on_gpu)
        if tune:
            found[f"tuning of {model.name}"] = partial(
                attention.tuning, model, plan.batches[::2], plan.contexts[-2:], max(plan.trees) // 2, device, processors
            )
    return found


def run(plan: Plan, device: str, only: str, tune: bool, write: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """All sections whose name holds `only`; each is printed and written as soon as it is there."""
    import torch
    import triton

    name = torch.cuda.get_device_name(0) if device == "cuda" else "cpu"
    document: dict[str, Any] = {"device": name, "torch": torch.__version__, "triton": triton.__version__, "seconds": {}}
    document |= {"sections": {}, "failed": []}
    for title, section in sections(plan, device, tune).items():
        if only not in title:
            continue
        begin_s = now_s()
        try:
            rows = section()
        except Exception:
            # The next section may still tell something.
            rows = [{"ok": False, "error": traceback.format_exc().strip().splitlines()[-1]}]
            traceback.print_exc()
        document["seconds"][title] = round(now_s() - begin_s, 2)
        document["sections"][title] = rows
        if not all(row.get("ok", True) for row in rows):
            document["failed"].append(title)
        print(f"\n{title} ({document['seconds'][title]} s)\n{table(rows)}", flush=True)
        write(document)
        if device == "cuda":
            torch.cuda.empty_cache()
    return document


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with a heading, right-aligned."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_text(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine.tree.gpu.check", description="Trees on a GPU, checked.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--interpret", action="store_true", help="run kernels by Triton's interpreter")
    parser.add_argument("--only", default="", metavar="TEXT", help="sections whose name holds this")
    parser.add_argument("--tune", action="store_true", help="try other ways to launch attention as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the document there, section by section")
    options = parser.parse_args(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    elif options.device == "cpu":
        parser.error("--device cpu needs --interpret")

    def write(document: dict[str, Any]) -> None:
        if options.json:
            options.json.write_text(json.dumps(document))

    document = run(TINY_PLAN if options.device == "cpu" else FULL, options.device, options.only, options.tune, write)
    print(json.dumps(document))
    return 1 if document["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
