"""A document of `voicepace bench published` as one SVG file that needs nothing else. Pure.

One row of panels a kind of prompt: mean engine TIT, with the 20 ms objective, and tokens per second; a group of bars a
concurrency, a bar an arm.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

OBJECTIVE_MS = 20.0
_PANEL_W, _PANEL_H = 460, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 30, 34
_HEAD = 64
_COLOURS = ("#6b7280", "#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#0891b2")
_STYLE = (
    "text{font:11px sans-serif;fill:#111827}.small{font-size:9px}.title{font-weight:bold}.grid{stroke:#d1d5db}"
    ".rule{stroke:#dc2626;stroke-dasharray:5 4}.page{fill:#ffffff}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.grid{stroke:#374151}.page{fill:#111827}}"
)


def svg(found: Mapping[str, Any], machine: str) -> str:
    """The file's content.

    Args:
        found: from `engine.bench.published_report.document`.
        machine: what it was measured on, in words.
    """
    kinds = list(dict.fromkeys(row["prompts"] for row in found["rows"]))
    arms = list(found["arms"])
    width, height = 2 * _PANEL_W, _HEAD + len(kinds) * _PANEL_H
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="TIT and tokens per second by strategy"><style>{_STYLE}</style>',
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text x="{_LEFT}" y="18">{escape(machine)}</text>',
        *_legend(arms),
    ]
    for number, kind in enumerate(kinds):
        rows = [row for row in found["rows"] if row["prompts"] == kind]
        y = _HEAD + number * _PANEL_H
        parts += _panel(rows, arms, "tit_ms", f"{kind}: mean engine TIT, ms", 0, y, OBJECTIVE_MS)
        parts += _panel(rows, arms, "tokens_per_second", f"{kind}: tokens per second", _PANEL_W, y, None)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(arms: Sequence[str]) -> list[str]:
    parts = []
    for number, arm in enumerate(arms):
        x = _LEFT + 120 * number
        parts.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{x + 15}" y="41">{escape(arm)}</text>')
    return parts


def _panel(
    rows: Sequence[Mapping[str, Any]], arms: Sequence[str], key: str, title: str, x: int, y: int, rule: float | None
) -> list[str]:
    values: list[float] = [row[key] for row in rows if row[key] is not None]
    step = _step(max([*values, rule or 0.0, 1e-9]))
    top = step * math.ceil(max([*values, rule or 0.0, step]) / step)
    low, high = y + _PANEL_H - _BOTTOM, y + _TOP
    right = x + _PANEL_W - _RIGHT

    def y_px(value: float) -> float:
        return low - (low - high) * value / top

    parts = [f'<text class="title" x="{x + _LEFT}" y="{y + 16}">{escape(title)}</text>']
    for level in range(round(top / step) + 1):
        at = y_px(level * step)
        parts.append(f'<line class="grid" x1="{x + _LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{x + _LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{level * step:g}</text>')
    groups = list(dict.fromkeys(row["concurrency"] for row in rows))
    room = (_PANEL_W - _LEFT - _RIGHT) / max(1, len(groups))
    bar = 0.8 * room / max(1, len(arms))
    for place, concurrency in enumerate(groups):
        begin = x + _LEFT + place * room
        parts.append(
            f'<text x="{begin + room / 2:.1f}" y="{low + 16}" text-anchor="middle">{concurrency} at once</text>'
        )
        for row in rows:
            if row["concurrency"] == concurrency and row[key] is not None:
                number = arms.index(row["arm"])
                parts += _bar(begin + 0.1 * room + number * bar, bar, y_px(row[key]), low, row[key], number)
    if rule is not None:
        at = y_px(rule)
        parts.append(f'<line class="rule" x1="{x + _LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
    return parts


def _bar(x: float, width: float, top: float, low: float, value: float, number: int) -> list[str]:
    return [
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{0.92 * width:.1f}" height="{low - top:.1f}" fill="{_colour(number)}"/>',
        f'<text class="small" x="{x + 0.46 * width:.1f}" y="{top - 3:.1f}" text-anchor="middle">{value:.1f}</text>',
    ]


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _step(highest: float) -> float:
    """A round distance of grid lines: three to six of them."""
    power = 10.0 ** math.floor(math.log10(highest))
    return next(power * factor for factor in (0.2, 0.5, 1.0, 2.0) if highest / (power * factor) <= 5)
