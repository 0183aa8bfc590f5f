"""Line plots as inline SVG, coloured by the page's own CSS variables. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 40

Point = tuple[float, float | None]
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line; a point whose y is None interrupts it. `style` is a CSS class: c1 to c4."""

    name: str
    points: Sequence[Point]
    style: str = "c1"


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the x axis."""

    at: float
    text: str


def line_plot(
    curves: Sequence[Curve],
    x_ticks: Sequence[Tick],
    x_name: str,
    y_name: str,
    rule: tuple[float, str] | None = None,
) -> str:
    """One plot. `rule` draws a level, with its name."""
    ys = [y for curve in curves for _, y in curve.points if y is not None] + ([rule[0]] if rule else [])
    xs = [x for curve in curves for x, _ in curve.points] + [tick.at for tick in x_ticks]
    y_step = _step(max(ys, default=1.0))
    top = y_step * max(1, math.ceil(max(ys, default=1.0) / y_step))
    low, high = min(xs, default=0.0), max(xs, default=1.0)

    def x_px(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - low) / ((high - low) or 1.0)

    def y_px(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_name)} by {escape(x_name)}">']
    for level in range(round(top / y_step) + 1):
        y = y_px(level * y_step)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{level * y_step:g}</text>')
    for tick in x_ticks:
        parts.append(_x_tick(x_px(tick.at), tick.text))
    if rule:
        y = y_px(rule[0])
        parts.append(f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    for curve in curves:
        parts.append(f'<path class="{curve.style}" d="{_path(curve.points, x_px, y_px)}"/>')
    if rule:
        y = y_px(rule[0]) - 4
        parts.append(
            f'<text class="rule" x="{WIDTH - RIGHT - 4}" y="{y:.1f}" text-anchor="end">{escape(rule[1])}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text></svg>')
    return "".join(parts) + _legend(curves, y_name)


def _x_tick(x: float, text: str) -> str:
    low = HEIGHT - BOTTOM
    label = f'<text x="{x:.1f}" y="{low + 16}" text-anchor="middle">{escape(text)}</text>'
    return f'<path class="grid" d="M{x:.1f} {TOP}V{low}"/>{label}'


def _path(points: Sequence[Point], x_px: Scale, y_px: Scale) -> str:
    path, pen_down = [], False
    for x, y in points:
        if y is not None:
            path.append(f"{'L' if pen_down else 'M'}{x_px(x):.1f} {y_px(y):.1f}")
        pen_down = y is not None
    return "".join(path)


def _legend(curves: Sequence[Curve], y_name: str) -> str:
    names = "".join(f'<span class="{curve.style}">{escape(curve.name)}</span>' for curve in curves)
    return f'<p class="legend">{escape(y_name)}: {names}</p>'


def _step(largest: float) -> float:
    """A round step that makes four to ten of the axis."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    steps = (power / 10, power / 5, power / 2, power, 2 * power)
    return next(step for step in steps if largest / step <= 8)
