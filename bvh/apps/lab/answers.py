"""Answers of the ray lab as HTML: the exact one, its chart, and the naive ones."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from bvh.apps.lab.fields import number, text_of
from bvh.apps.lab.naive import Claim, claims, flaw, local
from bvh.apps.lab.state import AXES, LabState, Slab, at, in_plane, interval, nearest, slabs

SAME, ROUNDED, WRONG = "same", "rounded", "wrong"
# The largest error, as a share of t and of the length in the box, that counts as rounding.
ROUNDING = 1e-6

GREEN, GREY, AMBER, RED, GOLD = "#1f8a4c", "#6b7280", "#b7791f", "#c53030", "#e8a317"
MARKS = {SAME: ("\N{CHECK MARK}", GREEN), ROUNDED: ("\N{ALMOST EQUAL TO}", AMBER),
         WRONG: ("\N{MULTIPLICATION SIGN}", RED)}  # fmt: skip
# Red, green and blue are x, y and z here and in the scene.
AXIS_COLOURS = ("#d64545", "#2f9e58", "#3b6fd4")
MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"

# The chart shows what is within this many lengths of the box, and t = 0 where it is not far.
BESIDE, START_WITHIN = 1.5, 60.0


class Verdict(NamedTuple):
    """Comparison of a naive claim with the exact answer: a kind, and what is wrong."""

    kind: str
    text: str


class Scale(NamedTuple):
    """Range of t on the chart."""

    low: float
    high: float

    def percent(self, t: float) -> float:
        """Return where a t is, clamped to 0 and 100."""
        # Halves, because the difference of two doubles may overflow.
        share = (t / 2 - self.low / 2) / (self.high / 2 - self.low / 2) if math.isfinite(t) else t
        return 100.0 * min(max(share, 0.0), 1.0)


def verdict(state: LabState, claim: Claim) -> Verdict:
    """Compare a naive claim with the exact answer."""
    closest = nearest(state)
    if claim.t is None and closest is None:
        return Verdict(SAME, "")
    if claim.t is None or closest is None or claim.box != closest:
        return Verdict(WRONG, flaw(state, claim, closest))
    stay = interval(state, closest)
    error = abs(claim.t - stay.near)
    if claim.t == stay.near:
        return Verdict(SAME, "")
    # Relative to the length in the box, too: half a box is no rounding error, however large t is.
    if error <= ROUNDING * min(max(stay.near, stay.far - stay.near), stay.far) and error < math.inf:
        ulps = error / math.ulp(stay.near)
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
        return _miss(state, slabs(state, 0))
    stay, found = interval(state, index), slabs(state, index)
    enters = [_plane(state, index, s.axis, True) for s in found if s.near == stay.near]
    leaves = [_plane(state, index, s.axis, False) for s in found if s.far == stay.far]
    if stay.near == stay.far and enters and leaves:
        return f"touches the box at {', '.join(sorted({*enters, *leaves}))}"
    start = f"enters at {', '.join(enters)}" if enters else "starts inside"
    end = f"leaves at {', '.join(leaves)}" if leaves else "ends inside"
    return f"{start}; {end}"


def shown_box(state: LabState) -> int:
    """Return the index of the box in the chart: the closest that is hit, or else the first."""
    return nearest(state) or 0


def exact_answer(state: LabState) -> str:
    """Return the exact answer as HTML, with both ends to the last digit, and the reason."""
    index = nearest(state)
    word, colour = ("miss", GREY) if index is None else ("hit", GREEN)
    rows = []
    if index is not None:
        stay = interval(state, index)
        for name, t in (("t_near", stay.near), ("t_far", stay.far)):
            rows += [(name, number(t)), ("at", text_of(at(state, t)[: state.dimensions].tolist()))]
        word += f", box {index + 1}" if len(state.boxes) > 1 else ""
    lines = "".join(
        f'<div style="display:flex;gap:8px"><span style="color:{GREY};width:46px">{name}</span>'
        f'<span data-lab="{name}">{escape(text)}</span></div>'
        for name, text in rows
    )
    function = "ray_obb" if any(box.turned for box in state.boxes) else "ray_box"
    return (
        f'<div style="padding:8px 12px 0 12px;font-size:13px;line-height:1.45">'
        f'<div style="font-size:12px;color:{GREY}">exact: bvh.{function}</div>'
        f'<div data-lab="exact" style="font-size:22px;font-weight:700;color:{colour}">{word}</div>'
        f'<div style="{MONO};font-size:12px">{lines}</div>'
        f'<div data-lab="reason" style="padding-top:2px">{escape(exact_reason(state))}</div></div>'
    )


def chart(state: LabState) -> str:
    """Return a bar for the range of t in each slab, and one for that in the box, as HTML."""
    index = shown_box(state)
    found, stay = slabs(state, index), interval(state, index)
    scale = scale_of(state, found)
    rows = []
    for slab in found:
        text = None if slab.kind == "crossed" else f"parallel, {slab.kind}"
        rows.append(
            _bar(AXES[slab.axis], slab.near, slab.far, scale, AXIS_COLOURS[slab.axis], text)
        )
    rows.append(_bar("box", stay.near, stay.far, scale, GOLD, None if stay.hit else "no t"))
    which = f" of box {index + 1}" if len(state.boxes) > 1 else ""
    return (
        f'<div style="padding:8px 12px 0 12px;font-size:12px;color:{GREY}">'
        f"t between the planes of each axis{which}, and in the box</div>"
        f'<div data-lab="chart" style="padding:0 12px;{MONO};font-size:11px">{"".join(rows)}</div>'
    )


def scale_of(state: LabState, found: tuple[Slab, ...]) -> Scale:
    """Choose the range of t to show: the latest entry, the earliest exit, and what is near."""
    crossed = [slab for slab in found if slab.kind == "crossed"]
    if not crossed:
        return Scale(-1.0, 1.0)
    low, high = sorted((max(s.near for s in crossed), min(s.far for s in crossed)))
    # In units of the larger one, so that nothing below overflows.
    unit = max(abs(low), abs(high)) or 1.0
    low, high = low / unit, high / unit
    if min(abs(low), abs(high)) <= START_WITHIN * (high - low) or high == low:
        low, high = min(low, 0.0), max(high, 0.0)
    size = (high - low) or 1.0
    ends = [t / unit for slab in crossed for t in (slab.near, slab.far)]
    ends += [state.t_min / unit, state.t_max / unit]
    shown = [t for t in ends if low - BESIDE * size <= t <= high + BESIDE * size] + [low, high]
    margin = 0.06 * (max(shown) - min(shown) or 1.0)
    largest = 1.7e308
    first, last = (min(shown) - margin) * unit, (max(shown) + margin) * unit
    return Scale(max(first, -largest), min(last, largest))


def naive_answers(state: LabState) -> str:
    """Return a line for each naive test as HTML, with a second one for what is wrong."""
    judged = [(claim, verdict(state, claim)) for claim in claims(state)]
    wrong = sum(judgement.kind == WRONG for _, judgement in judged)
    rows = []
    for claim, (kind, text) in judged:
        mark, colour = MARKS[kind]
        note = f'<div style="color:{colour};padding-left:18px">{escape(text)}</div>' if text else ""
        which = f"box {claim.box + 1}, " if len(state.boxes) > 1 else ""
        answer = "miss" if claim.t is None else f"{which}t = {number(claim.t)}"
        rows.append(
            f'<div data-lab="{claim.naive.name}" data-kind="{kind}" '
            f'style="padding:3px 0;border-top:1px solid rgba(128,128,128,.2)">'
            f'<div style="display:flex;gap:6px;justify-content:space-between">'
            f'<span><b style="color:{colour};display:inline-block;width:12px">{mark}</b> '
            f"{escape(claim.naive.title)}</span>"
            f'<span style="{MONO};font-size:11px;white-space:nowrap;color:{colour}">'
            f"{answer}</span></div>{note}</div>"
        )
    return (
        f'<div style="padding:8px 12px 12px 12px;font-size:12px;line-height:1.4">'
        f'<div style="color:{GREY};padding-bottom:3px">as in articles: '
        f'<span data-lab="count">{wrong} of {len(judged)} wrong</span></div>{"".join(rows)}</div>'
    )


def _miss(state: LabState, found: tuple[Slab, ...]) -> str:
    outside = next((slab for slab in found if slab.kind == "outside"), None)
    if outside is not None:
        return f"parallel to the {AXES[outside.axis]} slab and outside it"
    crossed = [slab for slab in found if slab.kind == "crossed"]
    if not crossed:
        return "the box is empty"
    latest = max(crossed, key=lambda slab: slab.near)
    earliest = min(crossed, key=lambda slab: slab.far)
    into, out = AXES[latest.axis], AXES[earliest.axis]
    if latest.near <= earliest.far and earliest.far < state.t_min:
        return f"the line leaves the box at {number(earliest.far)}, before t_min"
    if latest.near <= earliest.far and latest.near > state.t_max:
        return f"the line enters the box at {number(latest.near)}, after t_max"
    near, far = number(latest.near), number(earliest.far)
    equal = " (by less than a rounding error)" if near == far else ""
    return f"leaves {out} at {far}, before it enters {into} at {near}{equal}"


def _plane(state: LabState, index: int, axis: int, entering: bool) -> str:
    """Return the equation of the plane where the ray enters or leaves a slab."""
    _, d, lower, upper = local(state, index)
    turned = in_plane(state).boxes[index].turned
    level = lower[axis] if (d[axis] > 0.0) == entering else upper[axis]
    return f"{'its ' if turned else ''}{AXES[axis]} = {number(level)}"


def _bar(name: str, near: float, far: float, scale: Scale, colour: str, text: str | None) -> str:
    """Return a row of the chart: a name, a bar with a mark at t = 0, and its ends or a text."""
    if text is None:
        text = f"{number(near)} .. {number(far)}"
    left, right = scale.percent(near), scale.percent(far)
    bars = [(left, max(right - left, 0.5), colour)] if near <= far else []
    bars += [(scale.percent(0.0), 0.25, "#777")] if scale.low <= 0.0 <= scale.high else []
    inner = "".join(
        f'<div style="position:absolute;left:{start:.2f}%;width:{width:.2f}%;height:100%;'
        f'background:{paint}"></div>'
        for start, width, paint in bars
    )
    return (
        f'<div style="display:flex;gap:6px;align-items:end;padding-top:4px">'
        f'<b style="color:{colour};width:24px">{name}</b><div style="flex:1"><div>{text}</div>'
        f'<div style="position:relative;overflow:hidden;height:12px;border-radius:2px;'
        f'background:rgba(128,128,128,.15)">{inner}</div></div></div>'
    )
