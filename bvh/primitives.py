"""What a leaf can hold, under one test: triangles, boxes, and oriented boxes.

`Primitives` is their storage, the same arrays for every kind, so that one compiled traversal
serves all. `test` is the leaf test that every traversal and every brute-force check shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.boxes import box_interval
from bvh.jit import entry, inlined, kernel
from bvh.numerics import INF, NAN, finite, largest, vector
from bvh.obbs import obb_bounds, obb_interval
from bvh.triangles import barycentrics, distance, sides

TRIANGLES, BOXES, OBBS = 0, 1, 2
KINDS = ("triangles", "boxes", "obbs")

FRONT, BACK, MISS = -1, 1, 0


class Primitives(NamedTuple):
    """The geometry of a tree's primitives.

    Attributes
    ----------
    kind : int
        TRIANGLES, BOXES or OBBS.
    points : ndarray of float64
        Vertices (n, 3); lower and upper corners (n, 6); or those, three rows of the inverse
        transform and three rows of the transform (n, 30).
    faces : ndarray of int32, shape (m, 3)
        Vertices of each triangle; empty for the other kinds.
    """

    kind: int
    points: NDArray[np.float64]
    faces: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Number of primitives."""
        return len(self.faces) if self.kind == TRIANGLES else len(self.points)


@inlined
def corners(primitives, prim):
    """Return the three vertices of a triangle."""
    faces, points = primitives.faces, primitives.points
    return (
        vector(points, faces[prim, 0]),
        vector(points, faces[prim, 1]),
        vector(points, faces[prim, 2]),
    )


@inlined
def _row(points, i, first):
    """Return three numbers of a row."""
    return (points[i, first], points[i, first + 1], points[i, first + 2])


@kernel
def _interval(primitives, prim, o, d):
    """Return (hit, near, far) of a ray's stay in a box or an oriented box."""
    points = primitives.points
    lower, upper = _row(points, prim, 0), _row(points, prim, 3)
    if primitives.kind == BOXES:
        return box_interval(o, d, lower, upper)
    rows = (
        (points[prim, 6], points[prim, 7], points[prim, 8], points[prim, 9]),
        (points[prim, 10], points[prim, 11], points[prim, 12], points[prim, 13]),
        (points[prim, 14], points[prim, 15], points[prim, 16], points[prim, 17]),
    )
    return obb_interval(o, d, lower, upper, rows)


@inlined
def test(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) where a ray meets a primitive in t_min..t_max; side MISS where not.

    `scaled` is what `triangles.scaled_ray` returns for the ray.
    """
    if primitives.kind == TRIANGLES:
        d_scaled, floor, e, k = scaled
        v0, v1, v2 = corners(primitives, prim)
        side = sides(o, d, d_scaled, floor, v0, v1, v2)
        if side in (MISS, cull):
            return INF, MISS
        t = distance(o, d, e, k, v0, v1, v2)
        return t, (side if t_min <= t <= t_max else MISS)
    hit, near, far = _interval(primitives, prim, o, d)
    if not hit or near > t_max or far < t_min:
        return INF, MISS
    # A box is solid: from inside, it is met at the start of the range.
    return max(t_min, near), (FRONT if near >= t_min else BACK)


@inlined
def weights(primitives, prim, o, d, scaled):
    """Return (u, v) where a ray meets a primitive; NaN for boxes."""
    if primitives.kind != TRIANGLES:
        return NAN, NAN
    _, _, e, k = scaled
    v0, v1, v2 = corners(primitives, prim)
    return barycentrics(o, d, e, k, v0, v1, v2)


@inlined
def is_ray(o, d, t_min, t_max):
    """Tell a ray that can hit from one that can only miss."""
    return finite(o) and finite(d) and largest(d) > 0.0 and t_min <= t_max


@entry
def _triangle_bounds(points, faces, lower, upper, valid):
    """Bound each triangle; mark those with a vertex that is not finite as invalid."""
    for i in range(len(faces)):
        a = vector(points, faces[i, 0])
        b = vector(points, faces[i, 1])
        c = vector(points, faces[i, 2])
        valid[i] = finite(a) and finite(b) and finite(c)
        for axis in range(3):
            lower[i, axis] = min(a[axis], min(b[axis], c[axis]))
            upper[i, axis] = max(a[axis], max(b[axis], c[axis]))


def world_bounds(
    primitives: Primitives,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Bound every primitive: lower and upper corners, (n, 3), and which of them can be hit."""
    points, faces = primitives.points, primitives.faces
    if primitives.kind == TRIANGLES:
        lower, upper = np.empty((len(faces), 3)), np.empty((len(faces), 3))
        valid = np.empty(len(faces), np.bool_)
        _triangle_bounds(points, faces, lower, upper, valid)
        return lower, upper, valid
    lower, upper = points[:, 0:3].copy(), points[:, 3:6].copy()
    solid = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
    valid = np.asarray(solid.all(axis=1))
    lower[~valid] = upper[~valid] = 0.0
    if primitives.kind == OBBS:
        transforms = np.tile(np.eye(4), (len(points), 1, 1))
        transforms[:, :3] = points[:, 18:30].reshape(-1, 3, 4)
        rows = np.ascontiguousarray(points[:, 6:18]).reshape(-1, 3, 4)
        lower, upper = obb_bounds(lower, upper, transforms, rows)
    valid &= np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)
    return lower, upper, valid
