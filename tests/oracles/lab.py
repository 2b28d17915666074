"""The slow truth of the ray lab: slabs and stays in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

from bvh.apps.lab.state import LabBox, LabState
from bvh.geometry.obbs import local_frames
from tests.oracles.rays import round_fraction

Ends = tuple[Fraction | float, Fraction | float]


def planes(box: LabBox, flat: bool) -> list[tuple[list[Fraction], float, float]]:
    """Return the coefficients of each axis, and between which levels the box lies.

    A turned box is what the rounded rows of its inverse say, as `ray_obb` has it.
    """
    axes = range(2 if flat else 3)
    turn = (0.0, 0.0, box.turn[2]) if flat else box.turn
    if not any(turn):
        unit = [[Fraction(int(i == k)) for i in range(4)] for k in range(3)]
        return [(unit[k], box.lower[k], box.upper[k]) for k in axes]
    upright = LabBox((*box.lower[:2], 0.0), (*box.upper[:2], 0.0), turn) if flat else box
    rows = local_frames("matrix", upright.matrix).tolist()
    half = upright.half.tolist()
    return [([Fraction(x) for x in rows[k]], -half[k], half[k]) for k in axes]


def slab(state: LabState, index: int, axis: int) -> Ends | None:
    """Return when the line is in a slab: exact ends, infinite if parallel, None for never."""
    row, low, high = planes(state.boxes[index], state.flat)[axis]
    o, d = [list(map(Fraction, v)) for v in (state.origin, state.direction)]
    if state.flat:
        o[2] = d[2] = Fraction(0)
    height = sum((a * x for a, x in zip(row, o, strict=False)), row[3])
    slope = sum((a * x for a, x in zip(row, d, strict=False)), Fraction(0))
    if low > high:
        return None
    if slope == 0:
        return (-math.inf, math.inf) if low <= height <= high else None
    first, last = (low, high) if slope > 0 else (high, low)
    return (Fraction(first) - height) / slope, (Fraction(last) - height) / slope


def stay(state: LabState, index: int) -> tuple[float, float] | None:
    """Return the rounded ends of the ray's stay in a box, clipped to its range, or None."""
    d = state.direction[: state.dimensions]
    if not any(d) or state.t_min > state.t_max:
        return None
    found = [slab(state, index, axis) for axis in range(state.dimensions)]
    if None in found:
        return None
    near = max(ends[0] for ends in found if ends)
    far = min(ends[1] for ends in found if ends)
    if near > far:
        return None
    low, high = rounded(near), rounded(far)
    if low > state.t_max or high < state.t_min:
        return None
    return max(low, state.t_min), min(high, state.t_max)


def rounded(t: Fraction | float) -> float:
    """Return the nearest double, as `oracle.round_fraction` does; infinities stay."""
    return round_fraction(t) if isinstance(t, Fraction) else t
