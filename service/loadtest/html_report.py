"""The outcome of a load as one HTML page that needs nothing else. Pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from service.loadtest.plots import Curve, Tick, line_plot
from service.loadtest.summary import LATENCIES, facts

STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--dim:#5d6878;--paper:#fff;--grid:#dfe4ea;--bad:#b3261e;--good:#1b6e3c;
--c1:#1f5fbf;--c2:#c05a00;--c3:#1b7f4b;--c4:#7b3fb0}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--dim:#9aa6b6;--paper:#14181f;--grid:#2c3440;--bad:#ff8a80;
--good:#7fd8a0;--c1:#7db3ff;--c2:#ffb066;--c3:#7fd8a0;--c4:#cba2f2}}
body{margin:2rem auto;max-width:44rem;padding:0 1rem;background:var(--paper);color:var(--ink);font:16px/1.5 sans-serif}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.2rem .6rem .2rem 0;border-bottom:1px solid var(--grid);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:var(--bad)}.good{color:var(--good)}
svg{width:100%;height:auto}svg text{font:12px sans-serif;fill:var(--dim)}svg path{fill:none;stroke-width:1.6}
svg path.grid{stroke:var(--grid);stroke-width:1}svg path.rule{stroke:var(--bad);stroke-dasharray:5 4}
svg text.rule{fill:var(--bad);paint-order:stroke;stroke:var(--paper);stroke-width:4px}
.legend{color:var(--dim);font-size:.9rem;margin:.2rem 0 1.2rem}.legend span{margin-right:1rem}
.legend span::before{content:"\\2014\\2009"}pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}
""" + "".join(f"path.c{n}{{stroke:var(--c{n})}}span.c{n}{{color:var(--c{n})}}" for n in range(1, 5))

PERCENTILES = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]


def html_report(outcome: Mapping[str, Any]) -> str:
    """The page."""
    found = outcome["figures"]
    verdict = "The objective was met." if outcome["met"] else "The objective was missed."
    calls, audio = outcome["scenario"]["calls"], outcome["audio"]
    title = f"{calls} {'audio' if audio else 'text'} calls ({outcome['dialect']})"
    how = json.dumps({key: outcome[key] for key in ("scenario", "machine")}, indent=1)
    sections = [
        f"<h1>Load test: {title}</h1>",
        f'<p class="{"good" if outcome["met"] else "bad"}">{verdict}</p>',
        _most(outcome),
        _objective(outcome["objective"]),
        "<h2>What happened</h2>" + _table([[escape(name), escape(text)] for name, text in facts(found)]),
        "<h2>Latencies (ms)</h2>" + _latencies(found),
        *_distributions(outcome["distributions"]),
        *_timeline(outcome["timeline"], outcome["scenario"]["ramp_s"]),
        f"<h2>How</h2><pre>{escape(how)}</pre>",
        "<p>Latencies count from the time at which a caller was due to speak, also where the service made that caller "
        "late. “Corrected” gaps add the samples that a long gap has swallowed.</p>",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "".join(sections)
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>'


def _most(outcome: Mapping[str, Any]) -> str:
    if "most_calls" not in outcome:
        return ""
    rows = [[str(run["calls"]), _mark(run["met"])] for run in outcome["tried"]]
    return (
        f"<p>The most calls that meet the objective: <strong>{outcome['most_calls']}</strong>. Runs, in order:</p>"
        + _table(rows)
    )


def _objective(verdicts: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for verdict in verdicts:
        value = "not measured" if verdict["value"] is None else f"{verdict['value']:.4g}"
        rows.append([escape(verdict["limit"]), value, _mark(verdict["met"])])
    return "<h2>Objective</h2>" + _table(rows)


def _mark(met: bool) -> str:
    return f'<span class="{"good" if met else "bad"}">{"met" if met else "missed"}</span>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    return (
        "<table>" + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows) + "</table>"
    )


def _latencies(found: Mapping[str, Any]) -> str:
    columns = ("p50", "p95", "p99", "max")
    rows = ["<tr><th></th>" + "".join(f'<th class="n">{column}</th>' for column in columns) + "</tr>"]
    for key, name in LATENCIES.items():
        if found[key]["p50"] is not None:
            cells = "".join(f'<td class="n">{found[key][column]:.1f}</td>' for column in columns)
            rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return "<table>" + "".join(rows) + "</table>"


def _distributions(known: Mapping[str, Sequence[tuple[float, float]]]) -> Iterator[str]:
    gaps = [name for name in ("delivered_gap_ms", "delivered_gap_corrected_ms") if name in known]
    if gaps:
        yield "<h2>Gaps between tokens</h2>" + _percentile_plot(known, gaps, (20.0, "20 ms"))
    if "frame_lateness_ms" in known:
        yield "<h2>Lateness of audio frames</h2>" + _percentile_plot(known, ["frame_lateness_ms"], (10.0, "10 ms"))
    starts = [name for name in ("ttft_ms", "first_audio_ms", "barge_in_ms") if name in known]
    if starts:
        yield "<h2>Beginnings and interruptions</h2>" + _percentile_plot(known, starts, None)


def _percentile_plot(
    known: Mapping[str, Sequence[tuple[float, float]]], names: Sequence[str], rule: tuple[float, str] | None
) -> str:
    """Milliseconds by percentile, the last ones spread out: 90, 99 and 99.9 % are equally far apart."""
    curves = [Curve(LATENCIES[name], _by_nines(known[name]), f"c{number}") for number, name in enumerate(names, 1)]
    reach = max(x for curve in curves for x, _ in curve.points)
    ticks = [Tick(_nines(share), f"{100 * share:g} %") for share in PERCENTILES if _nines(share) <= reach]
    return line_plot(curves, ticks, "percentile", "ms", rule)


def _by_nines(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float | None]]:
    """The maximum stands just beyond the last percentile that the samples can tell."""
    points: list[tuple[float, float | None]] = [(_nines(share), ms) for share, ms in pairs if share < 1]
    last = points[-1][0] if points else 0.0
    return [*points, *((last + 0.1, ms) for share, ms in pairs if share == 1)]


def _nines(share: float) -> float:
    return -math.log10(1 - share)


def _timeline(seconds: Sequence[Mapping[str, Any]], ramp_s: float) -> Iterator[str]:
    if not seconds:
        return
    every = max(1, len(seconds) // 8)
    ticks = [Tick(s["second"], str(s["second"])) for s in seconds if s["second"] % every == 0]
    axis = f"seconds (the first {ramp_s:g} do not count)"

    def curve(name: str, key: str, style: str) -> Curve:
        return Curve(name, [(s["second"], s[key]) for s in seconds], style)

    yield "<h2>Calls held</h2>" + line_plot([curve("calls", "calls", "c3")], ticks, axis, "calls")
    for title, key, level in (("gap", "gap_p99_ms", 20.0), ("frame lateness", "lateness_p99_ms", 10.0)):
        if any(s[key] is not None for s in seconds):
            plot = line_plot([curve("p99", key, "c1")], ticks, axis, "ms", (level, f"{level:g} ms"))
            yield f"<h2>p99 {title} by second</h2>{plot}"
