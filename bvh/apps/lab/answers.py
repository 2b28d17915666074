"""Answers of the ray lab as HTML: the exact one, its chart, and the naive ones."""

from html import escape
from importlib.resources import files

import numpy as np

from bvh.apps.lab.naive import ROUNDED, SAME, WRONG, claims, verdict
from bvh.apps.lab.state import AXES, LabState, at, interval, nearest, number, slabs, text_of
from bvh.apps.viewer.readouts import table

MARKS = {SAME: "\N{CHECK MARK}", ROUNDED: "\N{ALMOST EQUAL TO}", WRONG: "\N{MULTIPLICATION SIGN}"}
# The chart shows t = 0 if it is within this many lengths of the box.
START_WITHIN = 60.0
# Ends of the chart are clamped to this, close to the largest double.
LARGEST = 1.7e308

STYLE = f"<style>{files(__package__).joinpath('answers.css').read_text('utf-8')}</style>"


def exact_reason(state: LabState) -> str:
    """Return in words why the ray hits the closest box, or misses the first one."""
    if not state.is_ray:
        if state.t_range[0] > state.t_range[1]:
            return "no ray: t_min > t_max"
        return "no ray: not finite" if any(state.direction) else "no ray: the direction is zero"
    index = nearest(state)
    if index is None:
        return _miss_reason(state)
    span, ranges = interval(state, index), slabs(state, index)
    # The planes that bound the range of t; there are none at an end that is t_min or t_max.
    enters = [_plane(state, index, slab.axis, True) for slab in ranges if slab.near == span.near]
    leaves = [_plane(state, index, slab.axis, False) for slab in ranges if slab.far == span.far]
    if span.near == span.far and enters and leaves:
        return f"touches the box at {', '.join(sorted({*enters, *leaves}))}"
    start = f"enters at {', '.join(enters)}" if enters else "starts inside"
    end = f"leaves at {', '.join(leaves)}" if leaves else "ends inside"
    return f"{start}; {end}"


def exact_answer(state: LabState) -> str:
    """Return the exact answer as HTML, with both ends to the last digit, and the reason."""
    index = nearest(state)
    word, rows = "miss", []
    if index is not None:
        word, (_, near, far) = "hit", interval(state, index)
        for name, t in (("near", near), ("far", far)):
            rows.append((f"t_{name}", f"t_{name}", number(t)))
            rows.append(("point", f"point_{name}", text_of(at(state, t))))
    return (
        '<div class="lab"><h4>Exact answer <span class="grey">bvh.ray_box</span></h4>'
        f'<div id="bvh-exact" class="answer {word}">{word}{_box_text(state, index)}</div>'
        f'{table(rows)}<div id="bvh-reason">{escape(exact_reason(state))}</div></div>'
    )


def short_answer(state: LabState) -> str:
    """Return the exact answer and its reason in one line, for phones."""
    index = nearest(state)
    word = "miss" if index is None else f"hit, t = {number(interval(state, index).near)}"
    return f'<div class="short"><b>{word}</b>: {escape(exact_reason(state))}</div>'


def chart(state: LabState) -> str:
    """Return bars, as HTML, of t in a box and in its slabs: the box that is hit, else the first."""
    index = nearest(state) or 0
    span, scale = interval(state, index), scale_of(state, index)
    rows = []
    for axis, kind, near, far in slabs(state, index):
        text = "" if kind == "crossed" else f"parallel, {kind}"
        rows.append(_bar(AXES[axis], near, far, scale, text))
    rows.append(_bar("box", span.near, span.far, scale, "" if span.hit else "no t"))
    return (
        f'<div class="lab"><h4>Intervals of t{_box_text(state, index)}</h4>'
        f'<div id="bvh-chart" class="numbers">{"".join(rows)}</div></div>'
    )


def scale_of(state: LabState, index: int) -> tuple[float, float]:
    """Return the range (low, high) of t that the chart of a box shows.

    It is around the latest entry into a slab and the earliest exit, and includes t = 0 if that is
    not far away.
    """
    crossed = [slab for slab in slabs(state, index) if slab.kind == "crossed"]
    if not crossed:
        return -1.0, 1.0
    low, high = sorted((max(slab.near for slab in crossed), min(slab.far for slab in crossed)))
    size = high - low or abs(high) or 1.0
    if min(abs(low), abs(high)) <= START_WITHIN * size:
        low, high = min(low, 0.0), max(high, 0.0)
    return max(low - size / 2, -LARGEST), min(high + size / 2, LARGEST)


def percent(t: float, scale: tuple[float, float]) -> float:
    """Return the place of a t on a chart of range `scale`, in percent, clamped to 0 and 100."""
    # Halves, because the difference of two doubles may overflow.
    return float(np.interp(t / 2, (scale[0] / 2, scale[1] / 2), (0.0, 100.0)))


def naive_answers(state: LabState) -> str:
    """Return a line for each naive test as HTML, with a second one for its error."""
    rows, wrong = [], 0
    for claim in claims(state):
        kind, text = verdict(state, claim)
        wrong += kind == WRONG
        which = f"box {claim.box + 1}, " if state.second else ""
        answer = "miss" if claim.t is None else f"{which}t = {number(claim.t)}"
        rows.append(
            f'<div id="bvh-{claim.naive.name}" data-kind="{kind}" class="naive"><div class="row">'
            f'<b class="{kind}">{MARKS[kind]}</b><span style="flex:1">{escape(claim.naive.title)}'
            f'</span><span class="numbers {kind}">{answer}</span></div>'
            f'<div class="{kind}">{escape(text)}</div></div>'
        )
    return (
        f'<div class="lab"><h4>Common box tests: '
        f'<span id="bvh-count">{wrong} of {len(rows)} wrong</span></h4>{"".join(rows)}</div>'
    )


def _box_text(state: LabState, index: int | None) -> str:
    """Return ", box 1" or ", box 2" for the box `index` if there are two; else ""."""
    return f", box {index + 1}" if index is not None and state.second else ""


def _miss_reason(state: LabState) -> str:
    ranges = slabs(state)
    outside = [slab for slab in ranges if slab.kind == "outside"]
    crossed = [slab for slab in ranges if slab.kind == "crossed"]
    if outside:
        return f"parallel to the {AXES[outside[0].axis]} slab and outside it"
    if not crossed:
        return "the box is empty"
    latest = max(crossed, key=lambda slab: slab.near)
    earliest = min(crossed, key=lambda slab: slab.far)
    near, far = number(latest.near), number(earliest.far)
    if latest.near <= earliest.far and earliest.far < state.t_range[0]:
        return f"the line leaves the box at {far}, before t_min"
    if latest.near <= earliest.far and latest.near > state.t_range[1]:
        return f"the line enters the box at {near}, after t_max"
    equal = " (by less than a rounding error)" if near == far else ""
    into, out = AXES[latest.axis], AXES[earliest.axis]
    return f"leaves {out} at {far}, before it enters {into} at {near}{equal}"


def _plane(state: LabState, index: int, axis: int, entering: bool) -> str:
    """Return, as "x = 0.5", the plane across `axis` where the ray enters or leaves box `index`."""
    lower, upper = state.boxes[index]
    level = lower[axis] if (state.direction[axis] > 0.0) == entering else upper[axis]
    return f"{AXES[axis]} = {number(level)}"


def _bar(name: str, near: float, far: float, scale: tuple[float, float], text: str) -> str:
    """Return a row of the chart: a name, and a bar from near to far with a mark at t = 0.

    `scale` is the range of t of the chart; `text`, if not empty, replaces the numbers.
    """
    left, right, start = (percent(t, scale) for t in (near, far, 0.0))
    # Widths in percent: short ranges stay visible, and 0 hides empty ones and a mark out of range.
    width = max(right - left, 0.5) if near <= far else 0.0
    mark = 0.25 if scale[0] <= 0.0 <= scale[1] else 0.0
    return (
        f'<div class="row" style="align-items:end;padding-top:4px"><b class="{name}" '
        f'style="width:24px">{name}</b><div style="flex:1">'
        f'<div>{text or f"{number(near)} to {number(far)}"}</div><div class="bar">'
        f'<div class="{name}" style="left:{left:.2f}%;width:{width:.2f}%"></div>'
        f'<div class="start" style="left:{start:.2f}%;width:{mark}%"></div></div></div></div>'
    )
