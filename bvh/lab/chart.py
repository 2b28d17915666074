"""The ray lab's bar chart: when the ray is in each slab, and when in all of them, as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bvh.lab.state import AXES, Interval, LabState, Slab, interval, slabs
from bvh.lab.words import number

# Red, green and blue are x, y and z here and in the scene; gold is the box.
COLOURS = ("#d64545", "#2f9e58", "#3b6fd4")
GOLD = "#e8a317"

WIDTH, LEFT, RIGHT = 380.0, 26.0, 372.0
ROW, BAR, TOP = 40.0, 14.0, 16.0

# How much of what lies beside the box is shown, in lengths of what is of interest.
BESIDE, START_WITHIN = 1.5, 60.0
# Shares of t that no screen can show.
POINT = 1e-6


@dataclass(frozen=True)
class Ruler:
    """Where t lies on the chart."""

    low: float
    high: float

    def place(self, t: float) -> float:
        """Return x of a t, at the border for what lies beyond; halves, lest a span overflows."""
        span = self.high / 2 - self.low / 2
        share = (t / 2 - self.low / 2) / span if math.isfinite(t) else math.copysign(2.0, t)
        return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)

    def shows(self, t: float) -> bool:
        """Tell whether a t is on the chart."""
        return self.low <= t <= self.high


def ruler(state: LabState, found: tuple[Slab, ...]) -> Ruler:
    """Choose what part of t is shown: the latest entry, the earliest exit, and what is near."""
    crossed = [slab for slab in found if slab.kind == "crossed"]
    if not crossed:
        return Ruler(-1.0, 1.0)
    ends = max(slab.near for slab in crossed), min(slab.far for slab in crossed)
    low, high = min(ends), max(ends)
    # One unit of the chart is the largest of these, so that nothing below overflows.
    unit = max(abs(low), abs(high)) or 1.0
    low, high = low / unit, high / unit
    size = high - low
    if size < POINT or min(abs(low), abs(high)) <= START_WITHIN * size:
        low, high = min(low, 0.0), max(high, 0.0)
    size = (high - low) or 1.0
    others = [t / unit for slab in crossed for t in (slab.near, slab.far)]
    others += [t / unit for t in (state.t_min, state.t_max, 1.0)]
    window = low - BESIDE * size, high + BESIDE * size
    shown = [t for t in others if window[0] <= t <= window[1]] + [low, high]
    pad = 0.06 * (max(shown) - min(shown) or 1.0)
    return Ruler(_times(min(shown) - pad, unit), _times(max(shown) + pad, unit))


def chart(state: LabState, index: int = 0) -> str:
    """Return the bars of a box as an SVG element.

    Parameters
    ----------
    state : LabState
    index : int
        Which box.

    Returns
    -------
    str
        One bar for each axis, from where the line enters the slab to where it leaves it, and one
        for the ray in the box; the numbers beside them are exact, to the last digit.
    """
    found, stay = slabs(state, index), interval(state, index)
    scale = ruler(state, found)
    height = TOP + ROW * (len(found) + 1) + 22.0
    bottom = height - 20.0
    parts = [_before(state, scale, bottom)]
    if stay.hit:
        x0, x1 = scale.place(stay.near), scale.place(stay.far)
        parts.append(_rect(x0, TOP - 4.0, max(x1 - x0, 1.5), bottom - TOP + 4.0, GOLD, 0.2))
    for row, slab in enumerate(found):
        parts.append(_slab(slab, scale, TOP + ROW * row))
    parts.append(_box(stay, scale, TOP + ROW * len(found)))
    parts.append(_axis(scale, bottom))
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" width="100%" role="img" '
        f'aria-label="t in each slab" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">{body}</svg>'
    )


def _times(x: float, unit: float) -> float:
    """Return a product that stops at the largest finite double."""
    return min(max(x * unit, -1.7e308), 1.7e308)


def _rect(x: float, y: float, width: float, height: float, colour: str, opacity: float) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" rx="2" '
        f'fill="{colour}" fill-opacity="{opacity:g}"/>'
    )


def _line(x: float, y0: float, y1: float, colour: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x:.2f} {y0:.2f}V{y1:.2f}" stroke="{colour}"{dashed}/>'


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" fill="{colour}" text-anchor="{anchor}">{text}</text>'


def _arrow(x: float, y: float, way: float, colour: str) -> str:
    """Return the sign that a bar goes on beyond the chart."""
    return (
        f'<path d="M{x - 5 * way:.2f} {y:.2f}l{5 * way:g} {BAR / 2:g}l{-5 * way:g} {BAR / 2:g}" '
        f'fill="none" stroke="{colour}" stroke-width="1.5"/>'
    )


def _bar(near: float, far: float, scale: Ruler, y: float, colour: str, opacity: float) -> str:
    """Return a bar whose ends are marked, by a stroke or by an arrow where they are not shown."""
    x0, x1 = scale.place(near), scale.place(far)
    parts = [_rect(x0, y, max(x1 - x0, 1.5), BAR, colour, opacity)]
    for x, t, way in ((x0, near, -1.0), (x1, far, 1.0)):
        if scale.shows(t):
            parts.append(_line(x, y - 1.0, y + BAR + 1.0, colour))
        elif (t < scale.low) == (way < 0.0):
            parts.append(_arrow(x, y, way, "#fff"))
    return "".join(parts)


def _slab(slab: Slab, scale: Ruler, y: float) -> str:
    """Return the row of one axis."""
    colour, name = COLOURS[slab.axis], AXES[slab.axis]
    label = _text(4.0, y + 25.0, name, colour)
    if slab.kind == "outside":
        return label + _text(LEFT + 4.0, y + 11.0, "parallel and outside: never", "#777")
    if slab.kind == "inside":
        words = "parallel and inside: always"
        return (
            label
            + _text(LEFT + 4.0, y + 11.0, words, "#777")
            + _bar(-math.inf, math.inf, scale, y + 15.0, colour, 0.3)
        )
    words = f"{number(slab.near)} .. {number(slab.far)}"
    bar = _bar(slab.near, slab.far, scale, y + 15.0, colour, 0.65)
    return label + _text(LEFT + 4.0, y + 11.0, words, "#444") + bar


def _box(stay: Interval, scale: Ruler, y: float) -> str:
    """Return the row of the ray in the box."""
    if not stay.hit:
        return _text(4.0, y + 25.0, "all", "#777") + _text(LEFT + 8.0, y + 25.0, "no t", "#777")
    words = f"{number(stay.near)} .. {number(stay.far)}"
    label = _text(4.0, y + 25.0, "all", "#9a6a00")
    return (
        label
        + _text(LEFT + 4.0, y + 11.0, words, "#222")
        + _bar(stay.near, stay.far, scale, y + 15.0, GOLD, 1.0)
    )


def _before(state: LabState, scale: Ruler, bottom: float) -> str:
    """Return the shade over what is not in the ray's range."""
    start, end = scale.place(state.t_min), scale.place(state.t_max)
    parts = [_rect(LEFT, TOP - 4.0, RIGHT - LEFT, bottom - TOP + 4.0, "#000", 0.025)]
    if start > LEFT:
        parts.append(_rect(LEFT, TOP - 4.0, start - LEFT, bottom - TOP + 4.0, "#000", 0.07))
    if end < RIGHT:
        parts.append(_rect(end, TOP - 4.0, RIGHT - end, bottom - TOP + 4.0, "#000", 0.07))
    return "".join(parts)


def _axis(scale: Ruler, y: float) -> str:
    """Return the axis of t, with round numbers below it."""
    parts = [f'<path d="M{LEFT:g} {y:g}H{RIGHT:g}" stroke="#999"/>']
    for t in ticks(scale):
        x = scale.place(t)
        parts.append(_line(x, TOP - 4.0 if t == 0.0 else y - 3.0, y + 3.0, "#999"))
        parts.append(_text(x, y + 15.0, f"{t:.9g}", "#777", "middle"))
    parts.append(_text(4.0, y + 4.0, "t", "#777"))
    return "".join(parts)


def ticks(scale: Ruler) -> list[float]:
    """Return some four round numbers on a ruler."""
    quarter = scale.high / 4 - scale.low / 4
    power = 10.0 ** math.floor(math.log10(quarter))
    step = next((k * power for k in (1.0, 2.0, 5.0) if k * power >= quarter), 10.0 * power)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    # Long numbers stay away from the borders, where they would be cut.
    return [k * step for k in range(first, last + 1) if 0.04 < _share(scale, k * step) < 0.96]


def _share(scale: Ruler, t: float) -> float:
    return (scale.place(t) - LEFT) / (RIGHT - LEFT)
