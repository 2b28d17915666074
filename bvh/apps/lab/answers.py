"""Answers of the ray lab as HTML: the exact one, its chart, and the naive ones."""

import math
from html import escape
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from bvh.apps.lab.naive import Claim, claims, flaw, local
from bvh.apps.lab.state import AXES, LabState, at, interval, nearest, number, slabs

SAME, ROUNDED, WRONG = "same", "rounded", "wrong"
MARKS = {SAME: "\N{CHECK MARK}", ROUNDED: "\N{ALMOST EQUAL TO}", WRONG: "\N{MULTIPLICATION SIGN}"}
# The largest error, as a share of t and of the length in the box, that counts as rounding.
ROUNDING = 1e-6

# The chart shows t = 0 if it is within this many lengths of the box.
START_WITHIN = 60.0
LARGEST = 1.7e308

STYLE = f"<style>{files(__package__).joinpath('answers.css').read_text('utf-8')}</style>"


class Verdict(NamedTuple):
    """Comparison of a naive claim with the exact answer: a kind, and what is wrong."""

    kind: str
    text: str


def verdict(state: LabState, claim: Claim) -> Verdict:
    """Compare a naive claim with the exact answer."""
    closest = nearest(state)
    if claim.t is None and closest is None:
        return Verdict(SAME, "")
    if claim.t is None or closest is None or claim.box != closest:
        return Verdict(WRONG, flaw(state, claim, closest))
    span = interval(state, closest)
    if claim.t == span.near:
        return Verdict(SAME, "")
    error = abs(claim.t - span.near)
    # Relative to the length in the box, too: half a box is not rounding, however large t is.
    if error <= ROUNDING * min(max(span.near, span.far - span.near), span.far) and error < math.inf:
        ulps = error / math.ulp(span.near)
        return Verdict(ROUNDED, f"off by {f'{ulps:.0f} ulp' if ulps < 1000 else f'{error:.1e}'}")
    return Verdict(WRONG, flaw(state, claim, closest))


def exact_reason(state: LabState) -> str:
    """Return why the ray hits the closest box, or misses the first one."""
    if not state.is_ray:
        if state.t_min > state.t_max:
            return "no ray: t_min > t_max"
        zero = not any(state.direction[: state.dimensions])
        return "no ray: the direction is zero" if zero else "no ray: not finite"
    index = nearest(state)
    if index is None:
        return _miss(state)
    span, found = interval(state, index), slabs(state, index)
    enters = [_plane(state, index, s.axis, True) for s in found if s.near == span.near]
    leaves = [_plane(state, index, s.axis, False) for s in found if s.far == span.far]
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
        span, word = interval(state, index), "hit"
        for name, t in (("t_near", span.near), ("t_far", span.far)):
            point = at(state, t)[: state.dimensions]
            rows += [(name, number(t)), ("point", ", ".join(map(number, point)))]
    which = f", box {index + 1}" if index is not None and len(state.boxes) > 1 else ""
    lines = "".join(
        f'<div class="row"><span class="grey" style="width:46px">{name}</span>'
        f'<span data-lab="{name}">{escape(text)}</span></div>'
        for name, text in rows
    )
    function = "ray_obb" if any(box.turned for box in state.boxes) else "ray_box"
    return (
        f'<div class="lab"><h4>Exact answer <span class="grey">bvh.{function}</span></h4>'
        f'<div data-lab="exact" class="answer {word}">{word}{which}</div>'
        f'<div class="numbers">{lines}</div>'
        f'<div data-lab="reason">{escape(exact_reason(state))}</div></div>'
    )


def chart(state: LabState) -> str:
    """Return bars, as HTML, of t in the slabs and in all of the box that is hit, or the first."""
    index = nearest(state) or 0
    span, scale = interval(state, index), scale_of(state, index)
    rows = []
    for axis, kind, near, far in slabs(state, index):
        text = "" if kind == "crossed" else f"parallel, {kind}"
        rows.append(_bar(AXES[axis], near, far, scale, text))
    rows.append(_bar("box", span.near, span.far, scale, "" if span.hit else "no t"))
    which = f", box {index + 1}" if len(state.boxes) > 1 else ""
    return (
        f'<div class="lab"><h4>Intervals of t{which}</h4>'
        f'<div data-lab="chart" class="numbers">{"".join(rows)}</div></div>'
    )


def scale_of(state: LabState, index: int) -> tuple[float, float]:
    """Return the range of t to show: around a box's latest entry and earliest exit."""
    crossed = [slab for slab in slabs(state, index) if slab.kind == "crossed"]
    if not crossed:
        return -1.0, 1.0
    low, high = sorted((max(s.near for s in crossed), min(s.far for s in crossed)))
    # Divide by the larger size, so that nothing below overflows.
    unit = max(abs(low), abs(high)) or 1.0
    low, high = low / unit, high / unit
    size = high - low or 1.0
    if min(abs(low), abs(high)) <= START_WITHIN * size:
        low, high = min(low, 0.0), max(high, 0.0)
    return max((low - size / 2) * unit, -LARGEST), min((high + size / 2) * unit, LARGEST)


def percent(t: float, scale: tuple[float, float]) -> float:
    """Return where a t is on the chart, clamped to 0 and 100."""
    # Halves, because the difference of two doubles may overflow.
    return float(np.interp(t / 2, (scale[0] / 2, scale[1] / 2), (0.0, 100.0)))


def naive_answers(state: LabState) -> str:
    """Return a line for each naive test as HTML, with a second one for what is wrong."""
    rows, wrong = [], 0
    for claim in claims(state):
        kind, text = verdict(state, claim)
        wrong += kind == WRONG
        which = f"box {claim.box + 1}, " if len(state.boxes) > 1 else ""
        answer = "miss" if claim.t is None else f"{which}t = {number(claim.t)}"
        rows.append(
            f'<div data-lab="{claim.naive.name}" data-kind="{kind}" class="naive"><div class="row">'
            f'<b class="{kind}">{MARKS[kind]}</b><span style="flex:1">{escape(claim.naive.title)}'
            f'</span><span class="numbers {kind}">{answer}</span></div>'
            f'<div class="{kind}">{escape(text)}</div></div>'
        )
    return (
        f'<div class="lab"><h4>Common box tests: '
        f'<span data-lab="count">{wrong} of {len(rows)} wrong</span></h4>{"".join(rows)}</div>'
    )


def _miss(state: LabState) -> str:
    """Return why the ray misses the first box."""
    found = slabs(state)
    outside = [slab for slab in found if slab.kind == "outside"]
    crossed = [slab for slab in found if slab.kind == "crossed"]
    if outside:
        return f"parallel to the {AXES[outside[0].axis]} slab and outside it"
    if not crossed:
        return "the box is empty"
    latest = max(crossed, key=lambda slab: slab.near)
    earliest = min(crossed, key=lambda slab: slab.far)
    near, far = number(latest.near), number(earliest.far)
    if latest.near <= earliest.far and earliest.far < state.t_min:
        return f"the line leaves the box at {far}, before t_min"
    if latest.near <= earliest.far and latest.near > state.t_max:
        return f"the line enters the box at {near}, after t_max"
    into, out = AXES[latest.axis], AXES[earliest.axis]
    equal = " (by less than a rounding error)" if near == far else ""
    return f"leaves {out} at {far}, before it enters {into} at {near}{equal}"


def _plane(state: LabState, index: int, axis: int, entering: bool) -> str:
    """Return the equation of the plane where the ray enters or leaves a slab."""
    _, d, lower, upper = local(state, index)
    level = lower[axis] if (d[axis] > 0.0) == entering else upper[axis]
    whose = "its " if state.seen.boxes[index].turned else ""
    return f"{whose}{AXES[axis]} = {number(level)}"


def _bar(name: str, near: float, far: float, scale: tuple[float, float], text: str) -> str:
    """Return a row of the chart: a name, its ends or a text, and a bar with a mark at t = 0."""
    left, right, start = (percent(t, scale) for t in (near, far, 0.0))
    width = max(right - left, 0.5) if near <= far else 0.0
    mark = 0.25 if scale[0] <= 0.0 <= scale[1] else 0.0
    return (
        f'<div class="row" style="align-items:end;padding-top:4px"><b class="{name}" '
        f'style="width:24px">{name}</b><div style="flex:1">'
        f'<div>{text or f"{number(near)} to {number(far)}"}</div><div class="bar">'
        f'<div class="{name}" style="left:{left:.2f}%;width:{width:.2f}%"></div>'
        f'<div class="start" style="left:{start:.2f}%;width:{mark}%"></div></div></div></div>'
    )
