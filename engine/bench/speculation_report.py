"""What `voicepace bench speculation` measured, as one document and as a table. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.bench.published_arms import PLAIN
from engine.bench.published_figures import Block, Ratio, figures, reference_texts, tit_ratio
from engine.bench.speculation_arms import ABOUT, CHAIN, SERVED, TREE_NODES, TREES
from engine.bench.speculation_run import Cell, Measured, Outcome, Workload

# Seconds counted by the engine core, per step; what is left of the step gap is the engine itself.
PARTS = ("attention_s", "forward_s", "draft_s", "walk_s", "commit_s")
_NAMES = {"attention_s": "attention", "forward_s": "rest of forward", "draft_s": "heads", "walk_s": "walk"} | {
    "commit_s": "compaction"
}


def document(outcome: Outcome, workload: Workload, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, fit for JSON; `speedup` first, for greedy conversation or whatever came first."""
    rows = [row for cell in workload.cells() for row in _rows(outcome.measured, cell, workload.seed)]
    first = next(workload.cells())
    return {
        "speedup": {
            str(concurrency): _speedup(
                outcome.measured, Cell(first.kind, first.temperature, concurrency), workload.seed
            )
            for concurrency in workload.concurrency
        },
        "rows": rows,
        "not_run": dict(outcome.not_run),
        "workload": asdict(workload),
        "provenance": dict(provenance),
    }


def _of(measured: Sequence[Measured], cell: Cell, arm: str) -> list[Measured]:
    return [each for each in measured if each.cell == cell and each.block.arm == arm]


def _blocks(measured: Sequence[Measured], cell: Cell, arm: str) -> list[Block]:
    return [each.block for each in _of(measured, cell, arm)]


def judged_tree(measured: Sequence[Measured], cell: Cell, seed: int) -> str | None:
    """The tree as it is served, or, where that was not run, the one with the highest ratio to plain decoding."""
    if _of(measured, cell, SERVED):
        return SERVED
    ratios = {
        name: ratio.value
        for name in TREES
        if (ratio := tit_ratio(_blocks(measured, cell, PLAIN), _blocks(measured, cell, name), seed, resamples=1))
    }
    return max(ratios, key=lambda name: ratios[name]) if ratios else None


def _speedup(measured: Sequence[Measured], cell: Cell, seed: int) -> dict[str, Any]:
    plain, chain = (_blocks(measured, cell, arm) for arm in (PLAIN, CHAIN))
    tree = judged_tree(measured, cell, seed)
    trees = _blocks(measured, cell, tree) if tree else []
    over_plain, over_chain = tit_ratio(plain, trees, seed), tit_ratio(chain, trees, seed)
    return {
        "tree": tree,
        "tree_over_plain": over_plain and round(over_plain.value, 4),
        "tree_over_chain": over_chain and round(over_chain.value, 4),
        "chain_over_plain": _value(tit_ratio(plain, chain, seed)),
        "ci95": {"tree_over_plain": _interval(over_plain), "tree_over_chain": _interval(over_chain)},
        f"step_ratio_{TREE_NODES}": step_ratio(plain, _blocks(measured, cell, f"tree{TREE_NODES}")),
    }


def _value(ratio: Ratio | None) -> float | None:
    return None if ratio is None else round(ratio.value, 4)


def _interval(ratio: Ratio | None) -> list[float] | None:
    return None if ratio is None else [round(ratio.low, 4), round(ratio.high, 4)]


def step_ratio(plain: Sequence[Block], other: Sequence[Block]) -> float | None:
    """Mean step gap against plain decoding's; None where either has none."""
    means = []
    for blocks in (plain, other):
        gaps = [gap for block in blocks for reply in block.replies for gap, _ in reply.gaps]
        if not gaps:
            return None
        means.append(sum(gaps) / len(gaps))
    return round(means[1] / means[0], 4)


def _rows(measured: Sequence[Measured], cell: Cell, seed: int) -> list[dict[str, Any]]:
    arms = dict.fromkeys(each.block.arm for each in measured)
    plain = _blocks(measured, cell, PLAIN)
    references = reference_texts(plain, PLAIN)
    rows = []
    for arm in arms:
        own = _of(measured, cell, arm)
        if not own:
            continue
        blocks = [each.block for each in own]
        found = figures(blocks, references)
        ratio = None if arm == PLAIN else tit_ratio(plain, blocks, seed)
        rows.append(
            {
                **asdict(cell),
                "arm": arm,
                "tit_ms": found.tit_ms,
                "tit_p99_ms": found.tit_p99_ms,
                "step_ms": found.step_ms,
                "step_ratio": step_ratio(plain, blocks),
                "tokens_per_step": found.tokens_per_step,
                "differing_replies": found.differing,
                "replies": found.replies,
                "over_plain": None if ratio is None else asdict(ratio),
                "kept_by_depth": kept_by_depth(blocks),
                "split_ms": split_ms([each.tally for each in own]),
            }
        )
    return rows


def kept_by_depth(blocks: Sequence[Block]) -> list[float]:
    """At index d - 1 the share of steps that kept d drafted tokens or more."""
    sizes = Counter(tokens - 1 for block in blocks for reply in block.replies for _, tokens in reply.gaps)
    steps = sum(sizes.values())
    deepest = max(sizes, default=0)
    return [
        round(sum(count for size, count in sizes.items() if size >= depth) / steps, 4)
        for depth in range(1, deepest + 1)
    ]


def split_ms(tallies: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Milliseconds of each part of a step with trees, as the engine core counted them; empty without trees."""
    steps = sum(tally.get("tree_steps", 0.0) for tally in tallies)
    if not steps:
        return {}
    return {
        _NAMES[part]: round(1e3 * sum(tally[part] for tally in tallies) / steps, 3)
        for part in PARTS
        if all(part in tally for tally in tallies)
    }


def table(found: Mapping[str, Any], machine: str) -> str:
    """A document as text."""
    lines = [f"machine: {machine}", f"replies of at most {found['workload']['reply_tokens']} tokens; intervals 95 %"]
    cell = None
    for row in found["rows"]:
        here = (row["kind"], row["temperature"], row["concurrency"])
        if here != cell:
            cell = here
            lines += ["", f"{here[0]}, temperature {here[1]:g}, {here[2]} at a time"]
            lines.append(
                f"{'arm':11}{'TIT ms':>8}{'p99':>7}{'step ms':>9}{'step ×':>8}{'tok/step':>9}{'differ':>8}  times as quick"
            )
        lines.append(_line(row))
    lines += ["", *(f"{name}: {text}" for name, text in ABOUT.items() if name in {row["arm"] for row in found["rows"]})]
    lines += [f"not run: {arm}: {reason}" for arm, reason in found["not_run"].items()]
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    ratio = row["over_plain"]
    quick = "" if ratio is None else f"{ratio['value']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    split = ", ".join(f"{name} {value:.1f}" for name, value in row["split_ms"].items())
    depths = " ".join(f"{share:.2f}" for share in row["kept_by_depth"])
    numbers = [row[key] or 0.0 for key in ("tit_ms", "tit_p99_ms", "step_ms", "step_ratio", "tokens_per_step")]
    tit, p99, step, times, tokens = numbers
    line = (
        f"{row['arm']:11}{tit:8.1f}{p99:7.1f}{step:9.1f}{times:8.2f}{tokens:9.2f}{row['differing_replies']:8}  {quick}"
    )
    return line + (f"  kept {depths}" if depths else "") + (f"  ms: {split}" if split else "")
