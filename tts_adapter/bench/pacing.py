"""`voicepace bench pacing`: the pacer against the best possible schedule, on recorded and generated engine traces."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tts_adapter.bench.replay import Outcome, best, measure, paced
from tts_adapter.bench.traces import Trace, generated, load, recorded
from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel

SHARE_BAR = 0.01  # short of the optimum's share
STARVED_BAR = 1.10  # of its starved time, on
STARVED_FLOOR_S = 0.010  # where there is next to none
HOLDS_MS = (0.0, 20.0, 45.0, 90.0, 120.0, 180.0, 250.0)
_WARM_REPLIES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which traces, and how."""
    parser.add_argument("traces", nargs="*", type=Path, help="trace files; the recorded and generated ones if none")
    parser.add_argument("--hold-ms", type=float, default=PacingOptions().max_first_hold_ms, help="longest first hold")
    parser.add_argument("--timer-ms", type=float, default=0.0, help="wake up late by up to this (uniform)")
    parser.add_argument("--replies", type=int, default=200, help="replies per generated trace")
    parser.add_argument("--seed", type=int, default=1, help="of the generated traces")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print a table and, with `--json`, one JSON document as the last line. Returns the exit code."""
    options = PacingOptions(max_first_hold_ms=arguments.hold_ms)
    try:
        traces = [load(path) for path in arguments.traces] or [
            *recorded(),
            *generated(arguments.replies, arguments.seed),
        ]
    except (OSError, ValueError) as error:
        print(f"error: {error}")
        return 2
    results = [result(trace, options, arguments.timer_ms, arguments.seed) for trace in traces]
    print(table(results))
    if arguments.json:
        print(json.dumps({"options": options.model_dump(), "timer_ms": arguments.timer_ms, "traces": results}))
    return 0


def result(trace: Trace, options: PacingOptions, timer_ms: float = 0.0, seed: int = 1) -> dict[str, Any]:
    """Figures of one trace at `options`, and the curve of hold against share."""
    outcome, best_share, best_starved_s = outcome_of(trace, options, timer_ms, seed)
    curve = {}
    for hold_ms in HOLDS_MS:
        held = options.model_copy(update={"max_first_hold_ms": hold_ms})
        curve[f"{hold_ms:g}"] = round(outcome_of(trace, held, timer_ms, seed)[0].share, 5)
    return {
        "name": trace.name,
        "description": trace.description,
        "step_ms": round(trace.step_s * 1000, 2),
        "tokens_per_step": round(trace.tokens_per_step, 3),
        "is_slow": trace.token_s > options.slo_ms / 1000,
        **{name: round(value, 5) for name, value in asdict(outcome).items()},
        "best_share": round(best_share, 5),
        "best_starved_s": round(best_starved_s, 5),
        "close_to_best": is_close(outcome, best_share, best_starved_s),
        "share_by_hold_ms": curve,
    }


def outcome_of(trace: Trace, options: PacingOptions, timer_ms: float, seed: int) -> tuple[Outcome, float, float]:
    """The pacer on `trace` with a model that has seen the first replies before, as a running service's has; and share and
    starved seconds of the optimum.

    A caller whose timers are late by up to `timer_ms`, it never knows by how much, has to aim that much early to be sure
    of a gap: on average its gaps are half of that short of the SLO, and no schedule can do better. So the optimum with
    which it is compared keeps such gaps.
    """
    rng = Random(seed)
    model = PaceModel(options.slo_ms / 1000)
    slo_s = options.slo_ms / 1000
    for reply in trace.replies[:_WARM_REPLIES]:
        paced(reply, model, options)
    releases = [paced(reply, model, options, lambda: rng.uniform(0, timer_ms / 1000)) for reply in trace.replies]
    share, starved_s = best(trace.replies, releases, slo_s - timer_ms / 2000)
    return measure(trace.replies, releases, slo_s), share, starved_s


def is_close(outcome: Outcome, best_share: float, best_starved_s: float) -> bool:
    """Within one percentage point of the optimum's share and 10 % of its starved time."""
    starved_bar_s = best_starved_s * STARVED_BAR + STARVED_FLOOR_S
    return outcome.share >= best_share - SHARE_BAR and outcome.starved_s <= starved_bar_s


def table(results: Sequence[dict[str, Any]]) -> str:
    """The results for people."""
    lines = [
        f"{'trace':28} {'step':>6} {'tok':>5} {'<=SLO':>7} {'best':>7} {'starved':>8} {'best':>8} "
        f"{'close':>5} {'p50':>5} {'p99':>6} {'free':>5} {'first':>6} {'mean':>6}  share by longest hold (ms)",
        f"{'':28} {'ms':>6} {'/step':>5} {'%':>7} {'%':>7} {'s':>8} {'s':>8} {'':>5} {'ms':>5} {'ms':>6} {'%':>5} "
        f"{'ms':>6} {'ms':>6}",
    ]
    for row in results:
        curve = " ".join(f"{hold}:{100 * share:.1f}" for hold, share in row["share_by_hold_ms"].items())
        lines.append(
            f"{row['name']:28} {row['step_ms']:6.1f} {row['tokens_per_step']:5.2f} {100 * row['share']:7.2f} "
            f"{100 * row['best_share']:7.2f} {row['starved_s']:8.3f} {row['best_starved_s']:8.3f} "
            f"{verdict(row):>5} {1000 * row['p50_gap_s']:5.1f} {1000 * row['p99_gap_s']:6.1f} "
            f"{100 * row['free_replies']:5.1f} {1000 * row['first_delay_s']:6.1f} {1000 * row['mean_delay_s']:6.1f}  {curve}"
        )
    lines.append(
        "close: within 1 point of the best share and 10 % of the best starved time. The best schedule knows the future, has "
        "the same first hold and starves\nleast, then has the fewest late gaps; an engine under one token per SLO (slow) is "
        "followed evenly instead."
    )
    return "\n".join(lines)


def verdict(row: dict[str, Any]) -> str:
    """One word."""
    return "slow" if row["is_slow"] else "yes" if row["close_to_best"] else "NO"
