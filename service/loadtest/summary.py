"""The outcome of a load as text. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

LATENCIES = {
    "ready_ms": "call accepted",
    "ttft_ms": "TTFT",
    "ttft_sent_ms": "TTFT from sending",
    "delivered_gap_ms": "delivered gap",
    "delivered_gap_corrected_ms": "delivered gap, corrected",
    "first_audio_ms": "first audio",
    "frame_lateness_ms": "frame lateness",
    "barge_in_ms": "barge-in to silence",
}


def summary_lines(outcome: Mapping[str, Any]) -> list[str]:
    """A table of the figures, and the objective."""
    found = outcome["figures"]
    lines = [f"{name:<26}{value}" for name, value in facts(found)]
    lines.append(f"\n{'milliseconds':<26}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}")
    for key, name in LATENCIES.items():
        if found[key]["p50"] is not None:
            lines.append(
                f"{name:<26}" + "".join(f"{found[key][column]:>10.1f}" for column in ("p50", "p95", "p99", "max"))
            )
    lines.append("")
    for verdict in outcome["objective"]:
        value = "not measured" if verdict["value"] is None else f"{verdict['value']:.4g}"
        lines.append(f"{'met   ' if verdict['met'] else 'MISSED'}  {verdict['limit']}  ({value})")
    return lines


def facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Everything that is no latency: (name, text)."""
    calls = found["calls"]
    yield "calls held", f"{calls['held_mean']:g} on average, {calls['held_max']} at most; {calls['arrived']} arrived"
    other = [
        f"{calls[name]} {name.replace('_', ' ')}" for name in ("refused", "lost", "failed", "hung_up", "unfinished")
    ]
    yield "of them", ", ".join(other)
    yield "replies", f"{found['replies']}, {found['replies_at_a_time']:g} at a time; {found['tokens_per_s']:g} tokens/s"
    if found["within_objective"] is not None:
        yield "gaps within 20 ms", f"{100 * found['within_objective']:.2f} %"
        yield "starved time", f"{found['starved_ms_per_minute']:g} ms per minute of replies"
    if found["underruns"] is not None:
        yield (
            "audio",
            f"{found['frames_per_s']:g} frames/s, {found['underruns']} underruns, {found['silence_ms']:g} ms silence",
        )
    if found["output_after_end"]:
        yield "AFTER THE END", f"{found['output_after_end']} tokens or frames came after their turn had ended"
    for name in ("disordered", "faults"):
        if found[name]:
            yield name, ", ".join(f"{count} x {what}" for what, count in found[name].items())
    client = found["client"]
    lag_ms = client["loop_lag_ms"]["p99"]
    yield "callers' own CPU", f"{client['cpu_share']:.2f} cores; p99 lag {0.0 if lag_ms is None else lag_ms:.1f} ms"
    if found["service"]["cpu_share"] is not None:
        yield "service's CPU", f"{found['service']['cpu_share']:.2f} cores"
