"""The slow truth of the ray lab: slabs and stays in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

from bvh.apps.lab.state import LabState
from tests.oracles.rays import round_fraction

Ends = tuple[Fraction | float, Fraction | float]


def slab(state: LabState, index: int, axis: int) -> Ends | None:
    """Return when the line is in a slab: exact ends, infinite if parallel, None for never."""
    low, high = (Fraction(corner[axis]) for corner in state.boxes[index])
    height, slope = Fraction(state.origin[axis]), Fraction(state.direction[axis])
    if low > high:
        return None
    if slope == 0:
        return (-math.inf, math.inf) if low <= height <= high else None
    first, last = (low, high) if slope > 0 else (high, low)
    return (first - height) / slope, (last - height) / slope


def stay(state: LabState, index: int) -> tuple[float, float] | None:
    """Return the rounded ends of the ray's stay in a box, clipped to its range, or None."""
    t_min, t_max = state.t_range
    if not any(state.direction) or t_min > t_max:
        return None
    found = [slab(state, index, axis) for axis in range(3)]
    if None in found:
        return None
    near = max(ends[0] for ends in found if ends)
    far = min(ends[1] for ends in found if ends)
    if near > far:
        return None
    low, high = rounded(near), rounded(far)
    if low > t_max or high < t_min:
        return None
    return max(low, t_min), min(high, t_max)


def rounded(t: Fraction | float) -> float:
    """Return the nearest double, as `oracle.round_fraction` does; infinities stay."""
    return round_fraction(t) if isinstance(t, Fraction) else t
