"""Naive box tests, as they are often published, and their errors.

Each is the published code in a short form (`tests/promises/test_articles.py` tests the flaws
themselves): from origin, direction and corners to the t of a hit, or None.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bvh.apps.lab.state import Array, LabState, interval, nearest

SAME, ROUNDED, WRONG = "same", "rounded", "wrong"
# The largest error that counts as rounding, as a share of t or of the length in the box.
ROUNDING = 1e-6


class Naive(NamedTuple):
    """A naive test, and its title on the page."""

    name: str
    title: str
    test: Callable[[Array, Array, Array, Array], float | None]


class Claim(NamedTuple):
    """Answer of a naive test: t and the index of the box; None and -1 for a miss."""

    naive: Naive
    t: float | None
    box: int


def entry_and_exit(o: Array, d: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """Return t of the latest entry into a slab and of the earliest exit; NaN where it is 0 / 0."""
    t0, t1 = (lower - o) / d, (upper - o) / d
    return float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())


def divide(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return t of a hit, or None, by the slab test with divisions: min and max order crossings."""
    near, far = entry_and_exit(o, d, lower, upper)
    return max(near, 0.0) if near <= far and far >= 0.0 else None


def reciprocal(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return t of a hit, or None, by the slab test with 1 / d: the test d >= 0 orders crossings."""
    t_near, t_far = -math.inf, math.inf
    for axis in range(3):
        inverse = 1.0 / d[axis]
        t0, t1 = (lower[axis] - o[axis]) * inverse, (upper[axis] - o[axis]) * inverse
        if not d[axis] >= 0.0:
            t0, t1 = t1, t0
        if t0 > t_far or t1 < t_near:
            return None
        t_near, t_far = max(t_near, float(t0)), min(t_far, float(t1))
    return max(t_near, 0.0) if t_near <= t_far and t_far >= 0.0 else None


def leaving(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return t of a hit, or None, by the slab test; for rays that start inside, t of the exit."""
    near, far = entry_and_exit(o, d, lower, upper)
    if not (near <= far and far >= 0.0):
        return None
    return far if near < 0.0 else near


def unchecked(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return t of a hit, or None, by the slab test, which also hits boxes behind the origin."""
    near, far = entry_and_exit(o, d, lower, upper)
    return near if near <= far else None


def single(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return t of a hit, or None, by `divide` in float32."""
    return divide(*(a.astype(np.float32) for a in (o, d, lower, upper)))  # type: ignore[arg-type]


NAIVES = (
    Naive("divide", "Slab test by division", divide),
    Naive("reciprocal", "Slab test with 1 / d", reciprocal),
    Naive("leaving", "Returns t_far if t_near < 0", leaving),
    Naive("unchecked", "No check that t_near >= 0", unchecked),
    Naive("float32", "Slab test in float32", single),
)
FIRST = Naive("first", "Returns the first box that is hit", divide)


# Division by zero and overflow are the subject here: no warnings.
@np.errstate(all="ignore")
def claims(state: LabState) -> list[Claim]:
    """Return each naive test's answer; with two boxes, also that of a loop that stops at a hit."""
    answers = []
    # For `FIRST`, the loop, the first box in order counts, else the one with the least t.
    for naive in NAIVES if len(state.boxes) == 1 else (*NAIVES, FIRST):
        hits = []
        for index in range(len(state.boxes)):
            t = naive.test(*_arrays(state, index))
            hits += [] if t is None else [(t, index)]
        best = hits[:1] if naive is FIRST else sorted(hits)
        answers.append(Claim(naive, *(best[0] if best else (None, -1))))
    return answers


def verdict(state: LabState, claim: Claim) -> tuple[str, str]:
    """Compare a claim with the exact answer; return SAME, ROUNDED or WRONG, and a text about it."""
    closest = nearest(state)
    if claim.t is None and closest is None:
        return SAME, ""
    if claim.t is not None and closest is not None and claim.box == closest:
        _, near, far = interval(state, closest)
        if claim.t == near:
            return SAME, ""
        error = abs(claim.t - near)
        # ROUNDING is a share of the larger of t and the length in the box, or of t_far if less.
        if error <= ROUNDING * min(max(near, far - near), far) and error < math.inf:
            ulps = error / math.ulp(near)
            text = f"{ulps:.0f} ulp" if ulps < 1000 else f"{error:.1e}"
            return ROUNDED, f"off by {text}"
    return WRONG, _flaw(state, claim, closest)


@np.errstate(all="ignore")
def _flaw(state: LabState, claim: Claim, closest: int | None) -> str:
    """Return the error of a wrong claim in words; `closest` is the box that is hit, or None."""
    name, t = claim.naive.name, claim.t
    if not state.is_ray:
        return "accepts an invalid ray"
    if name == "first":
        return f"stops at box {claim.box + 1}; box {(closest or 0) + 1} is closer"
    if t is not None and t > state.t_range[1]:
        return "ignores t_max"
    if t is not None and t < 0.0:
        return "behind the origin" if closest is None else "the origin is inside: t should be 0"
    index = closest if closest is not None else max(claim.box, 0)
    o, d, lower, upper = _arrays(state, index)
    # Whether the ray is in the plane of a face.
    in_face = bool(((d == 0.0) & ((o == lower) | (o == upper))).any())
    if name == "reciprocal":
        if (np.signbit(d) & (d == 0.0)).any():
            return "1 / -0.0 = -inf, but -0.0 >= 0"
        if in_face:
            return "0 * (1 / 0) = NaN"
        if np.isinf(1.0 / d[d != 0.0]).any():
            return "1 / d overflows"
    if name == "float32":
        if not d.astype(np.float32).any():
            return "the direction underflows to 0 in float32"
        points = np.concatenate([o, lower, upper])
        if (points.astype(np.float32) != points).any():
            return "float32 rounds the coordinates"
    if name == "leaving" and t is not None and interval(state, index).near <= 0.0:
        return "returns t_far, not the entry"
    return "0 / 0 = NaN" if in_face else "rounding of 1 / d or of a t moves the ray past the edge"


def _arrays(state: LabState, index: int) -> tuple[Array, Array, Array, Array]:
    """Return the arguments of a naive test: origin, direction, and both corners of box `index`."""
    lower, upper = state.boxes[index]
    return np.array(state.origin), np.array(state.direction), np.array(lower), np.array(upper)
