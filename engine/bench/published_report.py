"""What `voicepace bench published` measured, as one document, and that document as a table for people. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.bench.published_arms import PLAIN
from engine.bench.published_figures import Block, figures, reference_texts, tit_ratio
from engine.bench.published_run import Outcome, Workload

_COLUMNS = (
    *(("prompts", -15), ("at once", 7), ("strategy", -12), ("tokens", 7), ("time s", 7), ("TTFT ms", 8)),
    *(("p99", 7), ("TIT ms", 7), ("p99", 7), ("tok/s", 7), ("tok/step", 8), ("times as quick [95 %]", 22)),
    *(("+MiB", 6), ("differ", 7), (" kept by depth", -14)),
)


def document(
    outcome: Outcome, workload: Workload, options: Mapping[str, Mapping[str, Any]], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything, fit for JSON.

    Args:
        outcome: of the run.
        workload: that was run.
        options: engine options by arm, as they were set.
        provenance: from `engine.provenance`.
    """
    arms = [arm for arm in options if any(block.arm == arm for block in outcome.blocks)]
    plain_bytes = outcome.memory_bytes.get(PLAIN)
    return {
        "kind": "published",
        "workload": asdict(workload),
        "arms": {arm: _arm(options[arm], outcome.memory_bytes.get(arm), plain_bytes) for arm in arms},
        "not_run": dict(outcome.not_run),
        "rows": _rows(outcome.blocks, arms, workload),
        "provenance": dict(provenance),
    }


def _arm(options: Mapping[str, Any], used_bytes: int | None, plain_bytes: int | None) -> dict[str, Any]:
    overhead = None if used_bytes is None or plain_bytes is None else used_bytes - plain_bytes
    return {"options": dict(options), "memory_bytes": used_bytes, "memory_overhead_bytes": overhead}


def _rows(blocks: Sequence[Block], arms: Sequence[str], workload: Workload) -> list[dict[str, Any]]:
    references = reference_texts(blocks, PLAIN)
    rows = []
    for kind in workload.kinds:
        for concurrency in workload.concurrency:
            cell = [block for block in blocks if (block.kind, block.concurrency) == (kind, concurrency)]
            for arm in arms:
                own = [block for block in cell if block.arm == arm]
                if own:
                    row = {"prompts": kind, "concurrency": concurrency, "arm": arm, **asdict(figures(own, references))}
                    rows.append(row | {"speedup": _speedup(arm, own, cell, workload.seed)})
    return rows


def _speedup(arm: str, own: Sequence[Block], cell: Sequence[Block], seed: int) -> dict[str, float] | None:
    """Against the plain blocks that were run in turns with this arm, or, where none were, all of them."""
    if arm == PLAIN:
        return None
    plain = [block for block in cell if block.arm == PLAIN and block.group in (arm, PLAIN)]
    ratio = tit_ratio(plain, own, seed)
    return None if ratio is None else asdict(ratio)


def table(found: Mapping[str, Any], machine: str) -> str:
    """A document as text.

    Args:
        found: from `document`.
        machine: what it was measured on, in words.
    """
    work = found["workload"]
    turns = "blocks A B B A against plain decoding" if work["resident_pairs"] else "ONE AFTER THE OTHER, not in turns"
    lines = [
        f"machine: {machine}",
        f"run: {turns}; {work['prompts']} dialogues a kind, at most {work['reply_tokens']} tokens a reply, "
        f"temperature 0, {_types(found)}",
        "",
        " ".join(_cell(name, width) for name, width in _COLUMNS).rstrip(),
    ]
    previous = None
    for row in found["rows"]:
        if previous not in (None, cell := (row["prompts"], row["concurrency"])):
            lines.append("")
        previous = cell
        lines.append(_line(row, found["arms"][row["arm"]]["memory_overhead_bytes"]))
    lines += ["", *(f"{arm}: not run{_partly(arm, found)}: {reason}" for arm, reason in found["not_run"].items())]
    return "\n".join([*lines, *_notes(found)])


def _line(row: Mapping[str, Any], overhead_bytes: int | None) -> str:
    speedup = row["speedup"]
    quick = "" if speedup is None else "{value:.2f} [{low:.2f} {high:.2f}]".format(**speedup)
    depth = " ".join(f"{100 * share:.0f}%" for share in row["acceptance_by_depth"])
    values = (
        *(row["prompts"], str(row["concurrency"]), row["arm"], f"{row['tokens'] / row['blocks']:.0f}"),
        f"{row['time_s'] / row['blocks']:.1f}",
        *(_number(row["ttft_ms"], 0), _number(row["ttft_p99_ms"], 0), _number(row["tit_ms"], 1)),
        *(_number(row["tit_p99_ms"], 1), _number(row["tokens_per_second"], 1), _number(row["tokens_per_step"], 2)),
        *(quick, "?" if overhead_bytes is None else f"{overhead_bytes / 2**20:+.0f}"),
        *(f"{row['differing']}/{row['replies']}", f" {depth}" if depth else ""),
    )
    return " ".join(_cell(value, width) for value, (_, width) in zip(values, _COLUMNS, strict=True)).rstrip()


def _notes(found: Mapping[str, Any]) -> list[str]:
    plain = found["arms"].get(PLAIN, {}).get("memory_bytes")
    notes = [
        "tokens, time: of one pass over the prompts, on average. kept by depth: of drafts that long, in steps with drafts.",
        "TIT: engine's, step gap / tokens of the step. Times as quick: plain TIT / its TIT. +MiB: resident memory of",
        "the engine core's processes, against plain decoding's"
        + ("" if plain is None else f" {plain / 2**20:.0f} MiB")
        + " (on a GPU: host memory only).",
        "differ: replies whose text is not plain decoding's; in plain's own rows, what batching alone does to it.",
    ]
    if "float32" not in _types(found):
        notes.append("Only float32 promises the same text: rounding decides near-ties in shorter types.")
    return notes


def _types(found: Mapping[str, Any]) -> str:
    return " ".join(sorted({str(arm["options"].get("dtype", "auto")) for arm in found["arms"].values()}))


def _partly(arm: str, found: Mapping[str, Any]) -> str:
    return " to the end" if arm in found["arms"] else ""


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _cell(text: str, width: int) -> str:
    return text.ljust(-width) if width < 0 else text.rjust(width)
