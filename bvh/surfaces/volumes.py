"""Volume, centroid and area of a solid: sums over its faces; the volume is correctly rounded."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import Corners, cross, dot, less, scaled
from bvh.surfaces import overlap_terms
from bvh.surfaces.overlap_terms import ROUNDING, SHARES, SIZE, SUMS
from bvh.surfaces.surface import Reals, Surface

Vector = list[Fraction]

# Underflow loses less than 2**-940 in all, in the units of `frame_of`. That does not matter in a
# volume and its moments if the volume, times the shortest side of the box, is at least this.
LEAST = 2.0**-800


def solid_sums(surface: Surface) -> tuple[float, Reals]:
    """Return the volume and the centroid of a solid, (0, NaN) if it has no volume."""
    faces = np.flatnonzero(surface.outward)
    corners, outward = surface.corners[faces], surface.outward[faces]
    low, high = surface.bounds
    origin, e, shortest = frame_of(low, high, surface.bounds)
    sums = np.zeros(SUMS)
    point_ids = np.arange(3 * len(faces)).reshape(-1, 3)
    every = point_ids.reshape(-1)
    # Sum the terms of whole faces: all edges are inside, at the depth 1, and cross no faces. Each
    # corner is a point of its own.
    overlap_terms.add_faces(
        corners, outward, point_ids, np.ones_like(every), every, np.full_like(every, -1),
        np.zeros((1, SHARES)), origin, e, sums,
    )  # fmt: skip
    # Both ends of the interval that holds the exact sum must have the same nearest double; else the
    # sum is repeated in integers, as it is where underflow may matter.
    total = Fraction(sums[0]) + Fraction(sums[1])
    error = Fraction(sums[SIZE]) * Fraction(rounding_of(len(faces)))
    unit = Fraction(2) ** (3 * e) / 6
    volume = nearest((total - error) * unit)
    if sums[0] * shortest < LEAST or total <= error or volume != nearest((total + error) * unit):
        return _exact_solid_sums(corners, outward)
    return volume, origin + np.ldexp(sums[2:8:2] / (4.0 * sums[0]), e)


def rounding_of(faces: int) -> float:
    """Return a bound of the rounding of sums over a number of faces, as a share of their sizes."""
    # Up to three terms a face are added, each with an error below 3 * 2**-106 of all sizes, so that
    # ROUNDING suffices for 2**18 faces.
    return ROUNDING * max(1.0, faces / 2.0**18)


def _exact_solid_sums(corners: Reals, outward: NDArray[np.int8]) -> tuple[float, Reals]:
    """Return the volume and the centroid of a solid by sums in integers.

    `corners` (m, 3, 3) are those of its faces; `outward` (m,) is 1 if a normal points out, else -1.
    """
    if not len(corners):
        return 0.0, np.full(3, np.nan)
    rows, scale = scaled(corners.reshape(-1, 3).tolist())
    volume, moment = 0, [0, 0, 0]
    for a, b, c, turn in zip(rows[::3], rows[1::3], rows[2::3], outward.tolist(), strict=True):
        weight = turn * dot(a, cross(b, c))
        volume += weight
        for k in range(3):
            moment[k] += weight * (a[k] + b[k] + c[k])
    if volume == 0:
        return 0.0, np.full(3, np.nan)
    centroid = [nearest(Fraction(m, 4 * volume * scale)) for m in moment]
    return nearest(Fraction(volume, 6 * scale**3)), np.array(centroid)


def area_of(corners: Reals) -> float:
    """Return the sum of the areas of the finite faces among those with corners (m, 3, 3)."""
    corners = np.ascontiguousarray(corners[np.isfinite(corners).all(axis=(1, 2))])
    if not len(corners):
        return 0.0
    # Half the differences of corners, which do not overflow.
    halves = corners[:, 1:] / 2.0 - corners[:, :1] / 2.0
    sums, e = np.zeros(2), exponent_of(np.abs(halves)) + 1
    # Faces whose terms underflow, or whose sides overflow, are summed exactly.
    extreme = _may_underflow(corners, halves, e) | (np.abs(halves) >= 2.0**1023).any(axis=(1, 2))
    overlap_terms.sum_areas(corners[~extreme] if extreme.any() else corners, e, sums)
    total = Fraction(sums[0]) / 2 * Fraction(4) ** e
    return nearest(total + sum(map(_exact_area, corners[extreme].tolist())))


def _may_underflow(corners: Reals, halves: Reals, e: int) -> NDArray[np.bool_]:
    """Return which faces (m,) `sum_areas` may lose, because terms of their areas underflow.

    `halves` (m, 2, 3) are half the differences of each face's corners from its first one. The unit
    of length in `sum_areas` is 2**e.
    """
    # Where all differences are 0 or at least 2**-200 units, no products or squares of these do.
    tiny = (np.abs(halves) < 2.0 ** (e - 200)) & (corners[:, 1:] != corners[:, :1])
    result = tiny.any(axis=(1, 2))
    rows = np.flatnonzero(result)
    with np.errstate(under="ignore"):
        u, v = np.moveaxis(np.ldexp(halves[rows], -e), 1, 0)
        # An area that is large, and no rounding error of its terms, loses nothing that matters.
        size = np.abs(u).max(axis=1) * np.abs(v).max(axis=1)
        area = np.abs(np.cross(u, v)).max(axis=1)
    result[rows] = area <= np.maximum(2.0**-40 * size, 2.0**-400)
    return np.asarray(result)


def _exact_area(face: Corners) -> Fraction:
    """Return the area of a face from its corners, with a relative error of at most 2**-64."""
    (a, b, c), scale = scaled(face)
    normal = cross(less(b, a), less(c, a))
    return Fraction(isqrt(dot(normal, normal) << 128), scale**2 << 65)


def nearest(x: Fraction) -> float:
    """Return the nearest double; infinity beyond the largest."""
    try:
        return float(x)
    except OverflowError:
        return np.inf if x > 0 else -np.inf


def scaled_back(x: float, e: int) -> float:
    """Return x * 2**e; infinity beyond the largest double."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(x, e))


def exponent_of(sizes: Reals) -> int:
    """Return an exponent e, clipped to +-1000, such that 2**e is larger than all sizes >= 0."""
    return int(np.clip(np.frexp(sizes.max(initial=0.0))[1] + 1, -1000, 1000))


def frame_of(low: Reals, high: Reals, corners: Reals) -> tuple[Reals, int, float]:
    """Return (origin, e, shortest): a frame whose origin is the middle of the box low..high.

    All `corners` are within 2**e of it; `shortest` is half the shortest side of the box, over 2**e.
    """
    origin, shortest = low / 2.0 + high / 2.0, float((high / 2.0 - low / 2.0).min())
    e = exponent_of(np.abs(corners / 2.0 - origin / 2.0)) + 1
    return origin, e, scaled_back(shortest, -e)


def vectors(points: Reals) -> list[Vector]:
    """Return points (n, 3) as lists of three rational numbers."""
    return [[Fraction(x) for x in point] for point in points.tolist()]


def minus_of(a: Vector, b: Vector) -> Vector:
    """Return the difference of two vectors."""
    return [x - y for x, y in zip(a, b, strict=True)]


def dot_of(a: Vector, b: Vector) -> Fraction:
    """Return the dot product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross_of(a: Vector, b: Vector) -> Vector:
    """Return the cross product of two vectors of rational numbers."""
    # Indices k - 2 and k - 1 wrap around: they stand for k + 1 and k + 2.
    return [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]
