"""The box tests that articles teach, flaws included, as plain numpy: the lab's other column.

Each is the code as it is printed in such articles, reduced to its point; `tests/test_articles.py`
holds the flaws themselves. They see the ray in the box's own coordinates, in two or three
dimensions, and return the distance at which they claim a hit, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvh.lab.state import LabState, in_plane, rotation

Array = NDArray[np.float64]
# From origin, direction and corners to the distance of a hit.
Test = Callable[[Array, Array, Array, Array], float | None]

# What the oriented boxes of articles take for far away, and for parallel.
CAP = 100000.0
PARALLEL = 0.001


@dataclass(frozen=True)
class Naive:
    """One way that articles test a box.

    Attributes
    ----------
    name : str
        One word to know it by.
    title : str
        What it does, in the words of its code.
    test : callable
    """

    name: str
    title: str
    test: Test


@dataclass(frozen=True)
class Claim:
    """What a naive test answers: the distance of a hit, None for a miss, and of which box."""

    naive: Naive
    t: float | None
    box: int


def slab_ends(o: Array, d: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the crossings of lower and upper planes as a division gives them: inf, NaN and all."""
    return (lower - o) / d, (upper - o) / d


def divide(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Order both crossings of each slab by min and max."""
    t0, t1 = slab_ends(o, d, lower, upper)
    near, far = float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())
    return max(near, 0.0) if near <= far and far >= 0.0 else None


def reciprocal(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Multiply by 1/d, and choose near and far by d >= 0."""
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
    t0, t1 = slab_ends(o, d, lower, upper)
    near, far = float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())
    if not (near <= far and far >= 0.0):
        return None
    return far if near < 0.0 else near


def unchecked(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Return the entry without asking where the ray begins."""
    t0, t1 = slab_ends(o, d, lower, upper)
    near, far = float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())
    return near if near <= far else None


def capped(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Search from 0 to 100000, and take slopes below 0.001 for parallel."""
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
    """Meet each face's plane from its front, then ask whether the point is on the face."""
    best = math.inf
    for axis in range(len(o)):
        for side, plane in ((-1.0, lower[axis]), (1.0, upper[axis])):
            denominator = -side * d[axis]
            if denominator > 1e-6:
                t = side * (o[axis] - plane) / denominator
                point = o + t * d
                others = np.arange(len(o)) != axis
                on_face = ((lower <= point) & (point <= upper))[others].all()
                if t >= 0.0 and on_face:
                    best = min(best, float(t))
    return best if best < math.inf else None


def mixed(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Copy the x slab for y, and forget to rename the corners."""
    bound = [0, 0, 2][: len(o)]
    t0, t1 = slab_ends(o, d, lower[bound], upper[bound])
    near, far = float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())
    return max(near, 0.0) if near <= far and far >= 0.0 else None


def single(o: Array, d: Array, lower: Array, upper: Array) -> float | None:
    """Do it in float32, as graphics cards do."""
    o4, d4, low, high = (a.astype(np.float32) for a in (o, d, lower, upper))
    t0, t1 = (low - o4) / d4, (high - o4) / d4
    near, far = float(np.minimum(t0, t1).max()), float(np.maximum(t0, t1).min())
    return max(near, 0.0) if near <= far and far >= 0.0 else None


NAIVES = (
    Naive("divide", "(b - o) / d, min and max", divide),
    Naive("reciprocal", "(b - o) * (1 / d), d >= 0", reciprocal),
    Naive("leaving", "t_near < 0 ? t_far : t_near", leaving),
    Naive("unchecked", "t_near, never t >= 0", unchecked),
    Naive("capped", "t up to 100000, |d| > 0.001", capped),
    Naive("one-sided", "six planes, seen from the front", one_sided),
    Naive("mixed", "a y slab that reads x", mixed),
    Naive("float32", "the same in float32", single),
)

FIRST = Naive("first", "the first box in the list", divide)


# Division by zero and overflow are what this is about: no warnings.
@np.errstate(all="ignore")
def local(state: LabState, index: int) -> tuple[Array, Array, Array, Array]:
    """Return origin, direction and corners in a box's own coordinates, rounded as anyone would."""
    n = state.dimensions
    seen = in_plane(state)
    box = seen.boxes[index]
    o, d = np.array(seen.origin), np.array(seen.direction)
    lower, upper = np.array(box.lower), np.array(box.upper)
    if box.turned:
        inverse = rotation(box.turn).T
        o, d = inverse @ (o - box.centre), inverse @ d
        lower, upper = -box.half, box.half
    return o[:n], d[:n], lower[:n], upper[:n]


@np.errstate(all="ignore")
def claims(state: LabState) -> list[Claim]:
    """Return what each naive test says of all boxes, the nearest by its own figures.

    The last one, where there are two boxes, is the loop that stops at the first box it hits.
    """
    found = []
    for naive in NAIVES:
        answers = [naive.test(*local(state, index)) for index in range(len(state.boxes))]
        hits = [(t, index) for index, t in enumerate(answers) if t is not None]
        t, index = min(hits, default=(None, -1))
        found.append(Claim(naive, t, index))
    if len(state.boxes) > 1:
        first = Claim(FIRST, None, -1)
        for index in range(len(state.boxes)):
            t = FIRST.test(*local(state, index))
            if t is not None:
                first = Claim(FIRST, t, index)
                break
        found.append(first)
    return found
