"""Plot the dashboards' main panels from the same queries, over a real load test: `python -m deploy.grafana.pictures`.

Starts the service (flags after `--` are its own), a real Prometheus and simulated callers, then asks what Grafana asks.
The pictures are drawn by matplotlib and say so: they are no screenshots of Grafana.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from deploy.grafana.boards import call_quality, capacity, speculation
from deploy.grafana.boards.panel import Board, Panel
from deploy.prometheus.local import Labels, Prometheus
from deploy.prometheus.under_load import under_load

FOLDER = Path(__file__).with_name("pictures")
SCALES = {"s": (1000.0, "ms"), "percentunit": (100.0, "%"), "bytes": (1e-6, "MB"), "cps": (1.0, "per second")}
WINDOW = "15s"
STEP_S = 2.0


def draw(board: Board, prometheus: Prometheus, start: float, end: float, note: str) -> Path:
    """One picture of all panels of a board that have a course over time; its path."""
    from matplotlib.figure import Figure

    panels = [panel for panel in board.panels if not panel.needs_gpu and panel.kind != "number"]
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(14, 3.4 * rows + 0.6), layout="constrained")
    figure.suptitle(f"{board.title}\n{note}", fontsize=10)
    for place, panel in enumerate(panels, start=1):
        _draw_panel(figure.add_subplot(rows, 2, place), panel, prometheus, start, end)
    path = FOLDER / f"{board.uid}.png"
    figure.savefig(path, dpi=75)
    return path


def _draw_panel(axes: Any, panel: Panel, prometheus: Prometheus, start: float, end: float) -> None:
    axes.set_title(panel.question, fontsize=10)
    axes.set_xlabel("seconds", fontsize=8)
    axes.tick_params(labelsize=8)
    if panel.kind == "heatmap":
        _heatmap(axes, panel, prometheus.query_range(panel.queries[0].filled(window=WINDOW), start, end, STEP_S), start)
        return
    scale, unit = SCALES.get(panel.unit, (1.0, ""))
    right = axes.twinx() if any(query.right_axis for query in panel.queries) else None
    for query in panel.queries:
        target = right if query.right_axis else axes
        factor = SCALES.get(panel.right_unit or "", (1.0, ""))[0] if query.right_axis else scale
        for labels, points in prometheus.query_range(query.filled(window=WINDOW), start, end, STEP_S):
            seconds, values = zip(*((at - start, value * factor) for at, value in points), strict=True)
            target.plot(
                seconds,
                values,
                linewidth=1,
                linestyle="--" if query.right_axis else "-",
                label=_legend(query.legend, labels),
            )
    if panel.line is not None:
        axes.axhline(panel.line * scale, color="red", linewidth=0.8)
    axes.set_ylabel(unit, fontsize=8)
    axes.set_ylim(bottom=0)
    for each in (axes, right):
        if each is not None and each.get_legend_handles_labels()[0]:
            each.legend(fontsize=7, loc="upper left" if each is axes else "upper right")


def _heatmap(axes: Any, panel: Panel, series: list[tuple[Labels, Any]], start: float) -> None:
    """Cumulative buckets by `le` become the count of each bucket, one column per point in time."""
    import numpy as np

    scale, unit = SCALES.get(panel.unit, (1.0, panel.unit.replace("none", "tokens")))
    finite = sorted(
        ((float(labels["le"]), points) for labels, points in series if labels["le"] != "+Inf"), key=lambda one: one[0]
    )
    if not finite:
        return
    times = sorted({at for _, points in finite for at, _ in points})
    counts = np.array([[dict(points).get(at, 0.0) for at in times] for _, points in finite])
    counts = np.diff(counts, axis=0, prepend=np.zeros((1, len(times))))
    shown = [row for row in range(len(finite)) if counts[row].any()]
    lowest, highest = shown[0], shown[-1]
    axes.imshow(
        counts[lowest : highest + 1],
        origin="lower",
        aspect="auto",
        cmap="viridis",
        extent=(0, times[-1] - start, 0, highest - lowest + 1),
    )
    edges = [f"≤ {finite[row][0] * scale:g}" for row in range(lowest, highest + 1)]
    axes.set_yticks([row + 0.5 for row in range(len(edges))], edges, fontsize=7)
    axes.set_ylabel(unit, fontsize=8)


def _legend(template: str, labels: Labels) -> str:
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def main() -> int:
    """Load, draw, and write down how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text-calls", type=int, default=2)
    parser.add_argument("--audio-calls", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("flags", nargs="*", help="of the service")
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    note = (
        f"drawn by matplotlib from the dashboard's queries, no screenshot; voicepace serve {' '.join(args.flags)}; "
        f"{args.text_calls} text and {args.audio_calls} audio calls; {platform.machine()}, {_cores()} cores"
    )
    calls = {"text_calls": args.text_calls, "audio_calls": args.audio_calls, "seconds": args.seconds}
    with (
        tempfile.TemporaryDirectory() as scratch,
        under_load(args.flags, Path(scratch), **calls) as (prometheus, _),
    ):
        end = time.time()
        for board in (call_quality.BOARD, speculation.BOARD, capacity.BOARD):
            print(draw(board, prometheus, end - args.seconds - 5, end, note))
    about = {
        "argv": sys.argv[1:],
        "made": time.strftime("%Y-%m-%d"),
        "cores": _cores(),
        "python": platform.python_version(),
    }
    (FOLDER / "provenance.json").write_text(json.dumps(about, indent=2) + "\n")
    return 0


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    sys.exit(main())
