"""What the ray lab says: the exact answer in words, and what went wrong with a naive one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bvh.lab.naive import CAP, PARALLEL, Claim, local, slab_ends
from bvh.lab.state import AXES, LabState, Slab, in_plane, interval, nearest, slabs

SAME, ROUNDED, WRONG = "same", "rounded", "wrong"

# A figure that is this much off, of the size of t and of the stay, is wrong and not just rounded.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Verdict:
    """How a naive claim compares with the exact answer.

    Attributes
    ----------
    kind : {"same", "rounded", "wrong"}
        "rounded" for another double that is near enough.
    words : str
        Why; empty for the same answer.
    """

    kind: str
    words: str


def headline(state: LabState) -> str:
    """Return hit or miss in a few words, t to the last digit."""
    met = nearest(state)
    if met is None:
        return "miss"
    stay = interval(state, met)
    which = f" box {met + 1}" if len(state.boxes) > 1 else ""
    return f"hit{which}: t_near = {number(stay.near)}, t_far = {number(stay.far)}"


def exact_words(state: LabState) -> str:
    """Return a sentence that tells why the ray hits the nearest box, or misses the first one."""
    if not state.is_ray:
        return _no_ray(state)
    met = nearest(state)
    if met is None:
        return _miss(state, slabs(state, 0))
    stay, found = interval(state, met), slabs(state, met)
    enters = [_plane(state, met, s.axis, True) for s in found if s.near == stay.near]
    leaves = [_plane(state, met, s.axis, False) for s in found if s.far == stay.far]
    if stay.near == stay.far and enters and leaves:
        return f"It touches the box at a single t, where {_list(sorted({*enters, *leaves}))}."
    begins = f"enters where {_list(enters)}" if enters else "is inside from the start"
    ends = f"leaves where {_list(leaves)}" if leaves else "is inside to the end of its range"
    return f"The ray {begins}, and {ends}."


def verdict(state: LabState, claim: Claim) -> Verdict:
    """Compare a naive claim with the exact answer."""
    met = nearest(state)
    if claim.t is None or met is None:
        same = claim.t is None and met is None
        return Verdict(SAME, "") if same else Verdict(WRONG, _reason(state, claim, met))
    stay = interval(state, met)
    if claim.box != met:
        return Verdict(WRONG, _reason(state, claim, met))
    if claim.t == stay.near:
        return Verdict(SAME, "")
    off = abs(claim.t - stay.near)
    # The stay, not only t: half a box too early is wrong however far away the box is.
    if off <= ROUNDING * min(max(stay.near, stay.far - stay.near), stay.far) and off < math.inf:
        why = "as float32 goes" if claim.naive.name == "float32" else "rounded more than once"
        return Verdict(ROUNDED, f"{_off(claim.t, stay.near)} off, {why}")
    return Verdict(WRONG, _reason(state, claim, met))


def number(x: float) -> str:
    """Return a double in the fewest digits that tell it from all others."""
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


@np.errstate(all="ignore")
def _reason(state: LabState, claim: Claim, met: int | None) -> str:
    """Say what went wrong, by what the naive test has computed."""
    name = claim.naive.name
    if not state.is_ray:
        return "nobody asked whether this is a ray at all"
    if name == "first":
        return f"it stops at box {claim.box + 1}; box {(met or 0) + 1} is nearer"
    if claim.t is not None and claim.t > state.t_max:
        return f"it knows no t_max: t = {number(claim.t)} is beyond {number(state.t_max)}"
    if claim.t is not None and claim.t < 0.0:
        where = "behind the origin" if met is None else "before the start: the origin is inside"
        return f"t = {number(claim.t)} is {where}"
    index = met if met is not None else max(claim.box, 0)
    reasons = {
        "reciprocal": _of_reciprocals,
        "capped": _of_caps,
        "one-sided": _of_sides,
        "mixed": _of_names,
        "float32": _of_singles,
        "leaving": _of_exits,
    }
    own = reasons[name](state, claim, index) if name in reasons else ""
    return own or _of_divisions(state, index) or _of_rounding(state, index, claim.t is None)


def _of_divisions(state: LabState, index: int) -> str:
    """Look for 0/0."""
    o, d, lower, upper = local(state, index)
    ends = slab_ends(o, d, lower, upper)
    for axis in range(state.dimensions):
        for t, plane in zip(ends, (lower, upper), strict=True):
            if math.isnan(t[axis]):
                b, x, v = (number(a[axis]) for a in (plane, o, d))
                return f"{AXES[axis]}: ({b} - {x}) / {v} is NaN, and comparisons with NaN fail"
    return ""


def _of_reciprocals(state: LabState, claim: Claim, index: int) -> str:
    """Look for -0.0, 1/0 times 0, and a reciprocal that overflows."""
    o, d, lower, upper = local(state, index)
    for axis in range(state.dimensions):
        name = AXES[axis]
        if d[axis] == 0.0 and math.copysign(1.0, d[axis]) < 0.0:
            return f"{name}: -0.0 >= 0 is true, yet 1/-0.0 is -inf: near and far change places"
        if d[axis] == 0.0 and o[axis] in (lower[axis], upper[axis]):
            return f"{name}: 0 * (1/0) = 0 * inf is NaN, and comparisons with NaN fail"
        if d[axis] != 0.0 and math.isinf(1.0 / d[axis]):
            return f"{name}: 1 / {number(d[axis])} overflows to inf"
    return ""


def _of_caps(state: LabState, claim: Claim, index: int) -> str:
    """Look for boxes beyond the cap, and slopes below the tolerance."""
    _, d, _, _ = local(state, index)
    stay = interval(state, index)
    for axis in range(state.dimensions):
        if 0.0 < abs(d[axis]) <= PARALLEL:
            return f"{AXES[axis]}: a slope of {number(d[axis])} is taken for parallel"
    if stay.hit and stay.near > CAP:
        return f"the search ends at t = 100000, the box begins at {number(stay.near)}"
    return ""


def _of_sides(state: LabState, claim: Claim, index: int) -> str:
    """Look for an origin inside, and slopes below the tolerance."""
    _, d, _, _ = local(state, index)
    if interval(state, index).near == max(state.t_min, 0.0):
        return "from inside all planes are seen from behind, and skipped"
    for axis in range(state.dimensions):
        if 0.0 < abs(d[axis]) <= 1e-6:
            return f"{AXES[axis]}: a slope of {number(d[axis])} is taken for parallel"
    return "the rounded point on the plane lies beside the face"


def _of_names(state: LabState, claim: Claim, index: int) -> str:
    """Tell where y differs from x."""
    _, _, lower, upper = local(state, index)
    if lower[0] == lower[1] and upper[0] == upper[1]:
        return ""
    read = f"{number(lower[0])} to {number(upper[0])}"
    return f"y: it looks from {read}, the box is from {number(lower[1])} to {number(upper[1])}"


def _of_singles(state: LabState, claim: Claim, index: int) -> str:
    """Tell the coordinate that float32 bends most."""
    o, d, lower, upper = local(state, index)
    if not d.astype(np.float32).any():
        return f"float32 has no {number(float(np.abs(d).max()))}: the direction becomes 0"
    names = [f"{what}.{AXES[k]}" for what in ("origin", "lower", "upper") for k in range(len(o))]
    values = np.concatenate([o, lower, upper])
    bent = np.nan_to_num(np.abs(values.astype(np.float32).astype(np.float64) - values))
    worst = int(bent.argmax())
    if not bent[worst]:
        return ""
    single = float(np.float32(values[worst]))
    return f"float32 makes {number(single)} of {names[worst]} = {number(values[worst])}"


def _of_exits(state: LabState, claim: Claim, index: int) -> str:
    """Tell an exit that is called a hit."""
    stay = interval(state, index)
    if claim.t is not None and stay.hit and stay.near <= 0.0:
        return "from inside it calls the exit the hit"
    return ""


def _of_rounding(state: LabState, index: int, lost: bool) -> str:
    """Tell entries and exits that rounding has turned around."""
    latest, earliest = _limits(slabs(state, index))
    if latest is None or earliest is None:
        return "rounding decides"
    out, into = f"the exit from {AXES[earliest.axis]}", f"the entry into {AXES[latest.axis]}"
    far, near = number(earliest.far), number(latest.near)
    if not lost:
        return f"rounding makes {out} ({far}) equal to {into} ({near})"
    both = f"both are at {near}" if far == near else f"they are at {far} and {near}"
    return f"rounding puts {out} before {into}; {both}"


def _miss(state: LabState, found: tuple[Slab, ...]) -> str:
    for slab in found:
        if slab.kind == "outside":
            return f"The ray is parallel to the {AXES[slab.axis]} slab and beside it."
    latest, earliest = _limits(found)
    if latest is None or earliest is None:
        return "The box is empty."
    near, far = number(latest.near), number(earliest.far)
    enters, leaves = AXES[latest.axis], AXES[earliest.axis]
    if latest.near > earliest.far:
        left, entered = f"the {leaves} slab at {far}", f"the {enters} slab at {near}"
        return f"It leaves {left}, before it enters {entered}."
    if earliest.far < state.t_min:
        return f"The line has left the box at {far}, before the ray begins at t_min."
    if latest.near > state.t_max:
        return f"The line enters the box at {near}, after the ray ends at t_max."
    return (
        f"In truth it leaves the {leaves} slab before it enters the {enters} slab; "
        f"both are {near} when rounded, so exact arithmetic decides."
    )


def _limits(found: tuple[Slab, ...]) -> tuple[Slab | None, Slab | None]:
    """Return the slab that is entered last and the one that is left first."""
    crossed = [slab for slab in found if slab.kind == "crossed"]
    latest = max(crossed, key=lambda slab: slab.near, default=None)
    earliest = min(crossed, key=lambda slab: slab.far, default=None)
    return latest, earliest


def _no_ray(state: LabState) -> str:
    if state.t_min > state.t_max:
        return "The range of t is empty, so there is no ray."
    if not any(state.direction[: state.dimensions]):
        return "The direction is zero, so there is no ray."
    return "The ray is not finite."


def _off(a: float, b: float) -> str:
    """Return a difference in units in the last place, or in digits where that is a long number."""
    ulps = abs(a - b) / math.ulp(b)
    return f"{ulps:.0f} ulp" if ulps < 1000 else f"{abs(a - b):.1e}"


def _plane(state: LabState, index: int, axis: int, entering: bool) -> str:
    """Return the equation of the plane where the ray enters or leaves a slab."""
    _, d, lower, upper = local(state, index)
    turned = in_plane(state).boxes[index].turned
    level = lower[axis] if (d[axis] > 0.0) == entering else upper[axis]
    return f"{'its ' if turned else ''}{AXES[axis]} = {number(level)}"


def _list(names: list[str]) -> str:
    """Return names with commas and an "and"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
