"""The slow truth: every query answered in exact arithmetic, one ray and one primitive at a time.

A double is an integer over a power of two. Brought to one common power, coordinates and directions
become Python integers, and all decisions below are signs and comparisons of integers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.oracles.vectors import cross, dot, minus

LARGEST = sys.float_info.max
SMALLEST = math.ulp(0.0)

Vector = Sequence[float]
Integers = Sequence[int]
Floats = NDArray[np.float64]


class Hit(NamedTuple):
    """Where a ray meets one triangle."""

    t: float
    u: float
    v: float
    front: bool


class Hits(NamedTuple):
    """The nearest hit of each ray; t = inf, prim_id = -1, u = v = NaN for a miss."""

    t: Floats
    prim_id: NDArray[np.int32]
    u: Floats
    v: Floats
    front: NDArray[np.bool_]


class AllHits(NamedTuple):
    """All hits of all rays, sorted by (ray_id, t, prim_id)."""

    ray_id: NDArray[np.int64]
    prim_id: NDArray[np.int32]
    t: Floats
    u: Floats
    v: Floats


def integers(numbers: Iterable[float]) -> tuple[list[int], int]:
    """Return finite numbers times the least power of two that makes them integers; that power."""
    ratios = [float(x).as_integer_ratio() for x in numbers]
    unit = max(q for _, q in ratios)
    return [p * (unit // q) for p, q in ratios], unit


def round_quotient(n: int, d: int) -> float:
    """Round n/d to the nearest double (ties to even); non-zero never becomes 0 or infinite."""
    if n == 0:
        return 0.0
    negative = (n < 0) != (d < 0)
    try:
        # Python rounds the quotient of two integers once, denormal results included.
        t = abs(n) / abs(d)
    except OverflowError:
        t = LARGEST
    t = max(t, SMALLEST)
    return -t if negative else t


def round_fraction(fraction: Fraction) -> float:
    """Round a fraction like `round_quotient`."""
    return round_quotient(fraction.numerator, fraction.denominator)


def triple_sign(o: Vector, d: Vector, a: Vector, b: Vector) -> int:
    """Return the sign of d . ((a-o) x (b-o))."""
    points, _ = integers([*o, *a, *b])
    direction, _ = integers(d)
    volume = dot(direction, cross(minus(points[3:6], points[:3]), minus(points[6:], points[:3])))
    return (volume > 0) - (volume < 0)


def is_ray(o: Vector, d: Vector, t_min: float, t_max: float) -> bool:
    """Tell a ray that can hit from one that can only miss."""
    return all(map(math.isfinite, [*o, *d])) and any(d) and t_min <= t_max


def ray_triangle(
    o: Vector,
    d: Vector,
    v0: Vector,
    v1: Vector,
    v2: Vector,
    t_min: float = 0.0,
    t_max: float = math.inf,
    cull: str | None = None,
) -> Hit | None:
    """Return where a ray hits a triangle, or None."""
    if not (is_ray(o, d, t_min, t_max) and all(map(math.isfinite, [*v0, *v1, *v2]))):
        return None
    points, unit = integers([*o, *v0, *v1, *v2])
    direction, direction_unit = integers(d)
    a, b, c = (minus(points[i : i + 3], points[:3]) for i in (3, 6, 9))
    s01 = dot(direction, cross(a, b))
    s12 = dot(direction, cross(b, c))
    s20 = dot(direction, cross(c, a))
    if min(s01, s12, s20) < 0 < max(s01, s12, s20) or s01 == s12 == s20 == 0:
        return None
    normal = cross(minus(b, a), minus(c, a))
    slope = dot(normal, direction)
    if (cull == "back" and slope > 0) or (cull == "front" and slope < 0):
        return None
    # Undo the units: the numerator has three factors `unit`, the slope two and a direction's.
    t = round_quotient(dot(normal, a) * direction_unit, slope * unit)
    if not t_min <= t <= t_max:
        return None
    volume = s01 + s12 + s20
    return Hit(t, round_quotient(s20, volume), round_quotient(s01, volume), slope < 0)


def hits_of_rays(
    vertices: ArrayLike,
    faces: ArrayLike,
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike = 0.0,
    t_max: ArrayLike = math.inf,
    cull: str | None = None,
) -> Iterator[list[tuple[int, Hit]]]:
    """Yield each ray's hits as (prim_id, Hit), in the order of prim_id."""
    if cull not in (None, "back", "front"):
        raise ValueError(f"cull must be None, 'back' or 'front', got {cull!r}")
    corners = np.asarray(vertices, np.float64)[np.asarray(faces, np.int64).reshape(-1, 3)]
    finite = np.isfinite(corners).all(axis=(1, 2))
    for o, d, begin, end in _rays(origins, directions, t_min, t_max):
        found = []
        if is_ray(o, d, begin, end):
            prims = np.flatnonzero(finite)
            prims = prims[~surely_missed(o, d, corners[prims])]
            for prim in prims.tolist():
                hit = ray_triangle(o, d, *corners[prim].tolist(), begin, end, cull)
                if hit is not None:
                    found.append((prim, hit))
        yield found


def closest_hit(*question: Any, **options: Any) -> Hits:
    """Return the least (t, prim_id) of the hits of each ray, asked as `hits_of_rays` is."""
    miss = (-1, Hit(math.inf, math.nan, math.nan, False))
    best = [min(hits, key=_order, default=miss) for hits in hits_of_rays(*question, **options)]
    return _as_hits([(hit.t, prim, hit.u, hit.v, hit.front) for prim, hit in best])


def any_hit(*question: Any, **options: Any) -> NDArray[np.bool_]:
    """Tell for each ray whether it hits anything."""
    return np.array([bool(hits) for hits in hits_of_rays(*question, **options)], np.bool_)


def all_hits(*question: Any, **options: Any) -> AllHits:
    """Return every hit of every ray; each face that touches the ray counts."""
    found = enumerate(hits_of_rays(*question, **options))
    rows = [(i, prim, *hit[:3]) for i, hits in found for prim, hit in sorted(hits, key=_order)]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    kinds = np.int64, np.int32, np.float64, np.float64, np.float64
    return AllHits(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def surely_missed(o: ArrayLike, d: ArrayLike, corners: Floats) -> NDArray[np.bool_]:
    """Tell which triangles, (n, 3, 3) and finite, a finite ray certainly misses, in float64.

    Each S = d . (p x q) is evaluated with p = a-o, q = b-o after coordinates and direction are
    scaled by powers of two below 1. Seven roundings of u = 2**-53 lie on every path from an input
    to S (two differences, product, difference, product, two sums): with size = the sum of the
    absolute products, the error is below ((1+u)**7 - 1) size < 8 u size, and size itself is
    computed to 8 u. Underflow adds at most 2**-1074 in each operation, scaling included, times
    factors below 2**4: far below 2**-1060 in sum. 2**-49 size + 2**-1000 covers both with room to
    spare. A sign that it does not decide never discards.
    """
    origin, direction = np.asarray(o, np.float64), np.asarray(d, np.float64)
    top = np.frexp(max(np.abs(origin).max(), np.abs(corners).max(initial=0.0)))[1]
    origin, points = np.ldexp(origin, -top), np.ldexp(corners, -top)
    direction = np.ldexp(direction, -np.frexp(np.abs(direction).max())[1])
    p = points - origin
    signs = []
    for a, b in ((0, 1), (1, 2), (2, 0)):
        value, size = np.zeros(len(p)), np.zeros(len(p))
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            yz, zy = p[:, a, y] * p[:, b, z], p[:, a, z] * p[:, b, y]
            value += direction[x] * (yz - zy)
            size += np.abs(direction[x]) * (np.abs(yz) + np.abs(zy))
        signs.append(np.where(np.abs(value) > 2.0**-49 * size + 2.0**-1000, np.sign(value), 0.0))
    return np.min(signs, axis=0) * np.max(signs, axis=0) < 0.0


def ray_box(
    o: Vector, d: Vector, lower: Vector, upper: Vector, t_min: float = 0.0, t_max: float = math.inf
) -> tuple[bool, float, float]:
    """Return (hit, t_near, t_far) of a ray in a box; NaN for a miss. Bounds may be infinite."""
    stay = box_interval(o, d, lower, upper) if is_ray(o, d, t_min, t_max) else None
    if stay is None or stay[0] > t_max or stay[1] < t_min:
        return False, math.nan, math.nan
    return True, max(t_min, stay[0]), min(t_max, stay[1])


def box_interval(o: Vector, d: Vector, lower: Vector, upper: Vector) -> tuple[float, float] | None:
    """Return the rounded ends of {t : lower <= o + t d <= upper}, or None if it is empty."""
    direction, direction_unit = integers(d)
    near: Fraction | float = -math.inf
    far: Fraction | float = math.inf
    for axis in range(3):
        low, high = lower[axis], upper[axis]
        # A NaN bound fails this comparison; nothing lies beyond an infinite one.
        if not low <= high or low == math.inf or high == -math.inf:
            return None
        slope = direction[axis]
        if slope == 0:
            if not low <= o[axis] <= high:
                return None
            continue
        first, last = (low, high) if slope > 0 else (high, low)
        if math.isfinite(first):
            near = max(near, _crossing(o[axis], slope, direction_unit, first))
        if math.isfinite(last):
            far = min(far, _crossing(o[axis], slope, direction_unit, last))
    if near > far:
        return None
    ends = [round_fraction(t) if isinstance(t, Fraction) else t for t in (near, far)]
    return ends[0], ends[1]


def closest_hit_boxes(
    lower: ArrayLike,
    upper: ArrayLike,
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike = 0.0,
    t_max: ArrayLike = math.inf,
) -> Hits:
    """Return the nearest box of each ray: t is where it enters, or t_min from inside.

    Boxes without finite corners are ignored, as a tree does.
    """
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    prims = np.flatnonzero(np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)).tolist()
    best = []
    for o, d, begin, end in _rays(origins, directions, t_min, t_max):
        nearest = (math.inf, -1, math.nan, math.nan, False)
        for prim in prims if is_ray(o, d, begin, end) else []:
            stay = box_interval(o, d, low[prim].tolist(), high[prim].tolist())
            if stay is None or stay[0] > end or stay[1] < begin:
                continue
            t = max(begin, stay[0])
            # Ids rise, so a later equal t never wins.
            if nearest[1] < 0 or t < nearest[0]:
                nearest = (t, prim, math.nan, math.nan, stay[0] >= begin)
        best.append(nearest)
    return _as_hits(best)


def closest_hit_float(
    vertices: ArrayLike,
    faces: ArrayLike,
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike = 0.0,
    t_max: ArrayLike = math.inf,
) -> Hits:
    """Return nearest hits by Möller and Trumbore's float64 test: NOT exact, for checks at scale.

    Möller and Trumbore 1997, "Fast, minimum storage ray/triangle intersection".
    """
    corners = np.asarray(vertices, np.float64)[np.asarray(faces, np.int64).reshape(-1, 3)]
    v0, e1, e2 = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    best = []
    for o, d, begin, end in _rays(origins, directions, t_min, t_max):
        with np.errstate(all="ignore"):
            p = np.cross(d, e2)
            det = np.sum(e1 * p, axis=1)
            s = np.subtract(o, v0)
            q = np.cross(s, e1)
            u, v = np.sum(s * p, axis=1) / det, np.sum(d * q, axis=1) / det
            t = np.sum(e2 * q, axis=1) / det
            t[~((u >= 0) & (v >= 0) & (u + v <= 1) & (begin <= t) & (t <= end))] = np.inf
        i = int(np.argmin(t)) if len(t) else -1
        hit = i >= 0 and t[i] < np.inf
        miss = (math.inf, -1, math.nan, math.nan, False)
        best.append((t[i], i, u[i], v[i], det[i] > 0) if hit else miss)
    return _as_hits(best)


def _rays(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike
) -> Iterator[tuple[list[float], list[float], float, float]]:
    """Yield (origin, direction, t_min, t_max) of each ray of a flat batch."""
    o, d = np.broadcast_arrays(np.asarray(origins, np.float64), np.asarray(directions, np.float64))
    begin = np.broadcast_to(np.asarray(t_min, np.float64), len(o))
    end = np.broadcast_to(np.asarray(t_max, np.float64), len(o))
    yield from zip(o.tolist(), d.tolist(), begin.tolist(), end.tolist(), strict=True)


def _as_hits(rows: list[tuple[float, int, float, float, bool]]) -> Hits:
    return Hits(
        np.array([row[0] for row in rows], np.float64),
        np.array([row[1] for row in rows], np.int32),
        np.array([row[2] for row in rows], np.float64),
        np.array([row[3] for row in rows], np.float64),
        np.array([row[4] for row in rows], np.bool_),
    )


def _order(item: tuple[int, Hit]) -> tuple[float, int]:
    """Return what hits are sorted by."""
    return item[1].t, item[0]


def _crossing(o: float, slope: int, slope_unit: int, plane: float) -> Fraction:
    """Return t where a coordinate o + t slope/slope_unit equals plane."""
    return (Fraction(plane) - Fraction(o)) * slope_unit / slope
