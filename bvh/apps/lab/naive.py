"""Naive box tests, as they are often published, and their errors.

Each is the published code in a short form (`tests/promises/test_articles.py` tests the flaws
themselves): from origin, direction and corners in the box's own coordinates, in two or three
dimensions, to the t of a hit, or None.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bvh.apps.lab.state import Array, LabState, interval, rotation

Test = Callable[[Array, Array, Array, Array], float | None]

# The largest t that an article's test of oriented boxes finds, and slopes that articles treat as
# parallel.
CAP, PARALLEL, FACE_PARALLEL = 100000.0, 0.001, 1e-6
# The error if there is no other.
ROUNDED = "rounding of 1 / d or of a t moves the ray past the edge"


class Naive(NamedTuple):
    """A naive test, and its title on the page."""

    name: str
    title: str
    test: Test


class Claim(NamedTuple):
    """Answer of a naive test: t and the index of the box; None and -1 for a miss."""

    naive: Naive
    t: float | None
    box: int


def entry_and_exit(o: Array, d: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """Return the latest entry and earliest exit by division, NaN where 0 / 0 occurs."""
    t0, t1 = (lower - o) / d, (upper - o) / d
    return float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())


def divide(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Divide, and sort the two crossings of each slab by min and max."""
    near, far = entry_and_exit(o, d, lower, upper)
    return max(near, 0.0) if near <= far and far >= 0.0 else None


def reciprocal(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Multiply by 1 / d, and choose near and far by d >= 0."""
    t_near, t_far = -math.inf, math.inf
    for axis in range(len(o)):
        inverse = 1.0 / d[axis]
        t0, t1 = (lower[axis] - o[axis]) * inverse, (upper[axis] - o[axis]) * inverse
        if not d[axis] >= 0.0:
            t0, t1 = t1, t0
        if t0 > t_far or t1 < t_near:
            return None
        t_near, t_far = max(t_near, float(t0)), min(t_far, float(t1))
    return max(t_near, 0.0) if t_near <= t_far and t_far >= 0.0 else None


def leaving(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return the exit where the entry is negative."""
    near, far = entry_and_exit(o, d, lower, upper)
    if not (near <= far and far >= 0.0):
        return None
    return far if near < 0.0 else near


def unchecked(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return the entry without a check against the ray's start."""
    near, far = entry_and_exit(o, d, lower, upper)
    return near if near <= far else None


def capped(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Search up to t = 100000, and take slopes below 0.001 for parallel."""
    t_near, t_far = 0.0, CAP
    for axis in range(len(o)):
        if abs(d[axis]) > PARALLEL:
            ends = (lower[axis] - o[axis]) / d[axis], (upper[axis] - o[axis]) / d[axis]
            t_near, t_far = max(t_near, float(min(ends))), min(t_far, float(max(ends)))
            if t_far < t_near:
                return None
        elif lower[axis] - o[axis] > 0.0 or upper[axis] - o[axis] < 0.0:
            return None
    return t_near


def one_sided(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Intersect each face from its front, then check that the point is on the face."""
    best = math.inf
    for axis in range(len(o)):
        for side, plane in ((-1.0, lower[axis]), (1.0, upper[axis])):
            denominator = -side * d[axis]
            if denominator > FACE_PARALLEL:
                t = side * (o[axis] - plane) / denominator
                point = o + t * d
                others = np.arange(len(o)) != axis
                if t >= 0.0 and ((lower <= point) & (point <= upper))[others].all():
                    best = min(best, float(t))
    return best if best < math.inf else None


def mixed(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Use the corners of x for the y slab, as after copying its code."""
    copied = [0, 0, 2][: len(o)]
    return divide(o, d, lower[copied], upper[copied])


def single(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Divide in float32."""
    return divide(*(a.astype(np.float32) for a in (o, d, lower, upper)))  # type: ignore[arg-type]


NAIVES = (
    Naive("divide", "Slab test by division", divide),
    Naive("reciprocal", "Slab test with 1 / d", reciprocal),
    Naive("leaving", "Returns t_far if t_near < 0", leaving),
    Naive("unchecked", "No check that t_near >= 0", unchecked),
    Naive("capped", "Fixed limits on t and |d|", capped),
    Naive("one-sided", "Six faces with back-face culling", one_sided),
    Naive("mixed", "Slab test with the axes swapped", mixed),
    Naive("float32", "Slab test in float32", single),
)

FIRST = Naive("first", "Returns the first box that is hit", divide)


# Division by zero and overflow are the subject here: no warnings.
@np.errstate(all="ignore")
def local(state: LabState, index: int) -> tuple[Array, Array, Array, Array]:
    """Return origin, direction and corners in a box's own coordinates, with rounding."""
    n, seen = state.dimensions, state.seen
    box, o, d = seen.boxes[index], np.array(seen.origin), np.array(seen.direction)
    lower, upper = np.array(box.lower), np.array(box.upper)
    if box.turned:
        inverse = rotation(box.turn).T
        o, d = inverse @ (o - box.centre), inverse @ d
        lower, upper = -box.half, box.half
    return o[:n], d[:n], lower[:n], upper[:n]


@np.errstate(all="ignore")
def claims(state: LabState) -> list[Claim]:
    """Return the answer of each naive test; with two boxes, also of a loop that stops at a hit."""
    boxes = [local(state, index) for index in range(len(state.boxes))]
    found = []
    for naive in NAIVES if len(boxes) == 1 else (*NAIVES, FIRST):
        answers = [(naive.test(*box), index) for index, box in enumerate(boxes)]
        hits = [answer for answer in answers if answer[0] is not None]
        best = hits[:1] if naive is FIRST else sorted(hits)
        found.append(Claim(naive, *(best[0] if best else (None, -1))))
    return found


@np.errstate(all="ignore")
def flaw(state: LabState, claim: Claim, closest: int | None) -> str:
    """Return the error of a claim in a few words; `closest` is the box that is hit, or None."""
    name, t = claim.naive.name, claim.t
    if not state.is_ray:
        return "accepts an invalid ray"
    if name == "first":
        return f"stops at box {claim.box + 1}; box {(closest or 0) + 1} is closer"
    if t is not None and t > state.t_max:
        return "ignores t_max"
    if t is not None and t < 0.0:
        return "behind the origin" if closest is None else "the origin is inside: t should be 0"
    index = closest if closest is not None else max(claim.box, 0)
    o, d, lower, upper = local(state, index)
    span = interval(state, index)
    slope = np.abs(d[d != 0.0]).min(initial=math.inf)
    in_face = (d == 0.0) & ((o == lower) | (o == upper))
    points = np.concatenate([o, lower, upper])
    # The flaws of each test, and whether they may apply here; the first that does is shown.
    known: dict[str, list[tuple[Any, str]]] = {
        "reciprocal": [
            ((np.signbit(d) & (d == 0.0)).any(), "1 / -0.0 = -inf, but -0.0 >= 0"),
            (in_face.any(), "0 * (1 / 0) = NaN"),
            (np.isinf(1.0 / slope), "1 / d overflows"),
        ],
        "capped": [
            (slope <= PARALLEL, f"treats a slope of {slope:g} as parallel"),
            (span.hit and span.near > CAP, "the search ends at t = 100000"),
        ],
        "one-sided": [
            (span.near == max(state.t_min, 0.0), "from inside, all faces are culled"),
            (slope <= FACE_PARALLEL, f"treats a slope of {slope:g} as parallel"),
            (True, "rounding puts the point outside the face"),
        ],
        "mixed": [((lower[0], upper[0]) != (lower[1], upper[1]), "the y slab uses the x bounds")],
        "float32": [
            (not d.astype(np.float32).any(), "the direction underflows to 0 in float32"),
            ((points.astype(np.float32) != points).any(), "float32 rounds the coordinates"),
        ],
        "leaving": [
            (t is not None and span.hit and span.near <= 0.0, "returns t_far, not the entry")
        ],
    }
    found = [*known.get(name, []), (in_face.any(), "0 / 0 = NaN"), (True, ROUNDED)]
    return next(text for applies, text in found if applies)
