"""Primitives of a tree: triangles, boxes, oriented boxes and users' own, with one ray test.

`intersect` is the test that every traversal and every brute-force check shares. It is chosen by
type, so a traversal over triangles compiles no box code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, NAN, can_hit, finite, vector
from bvh.geometry.boxes import box_interval, read_box
from bvh.geometry.obbs import obb_bounds, obb_interval, read_obb
from bvh.geometry.triangles import barycentrics, distance, sides
from bvh.runtime.jit import by_type, entry, inlined, types
from bvh.runtime.simd import peek, pointer
from bvh.runtime.tuple_references import borrowed, pointers_of
from bvh.runtime.user_calls import call_intersect
from bvh.tree.instanced import (
    TRIANGLES,
    Instanced,
    instanced_corners,
    instanced_interval,
    kind_of,
    leaf_of,
)

FRONT, BACK, MISS = -1, 1, 0


class Triangles(NamedTuple):
    """Triangles by vertices (n, 3) and faces (m, 3)."""

    points: NDArray[np.float64]
    faces: NDArray[np.int32]


class Boxes(NamedTuple):
    """Axis-aligned boxes by lower and upper corners (n, 6)."""

    points: NDArray[np.float64]


class Obbs(NamedTuple):
    """Oriented boxes by corners and three rows of the inverse transform (n, 18)."""

    points: NDArray[np.float64]


class Custom(NamedTuple):
    """A user's primitives by their bounding boxes (n, 6), and the test of a ray against one.

    Kernels of this package take the function and its data by their addresses (see `UserCall`).
    """

    points: NDArray[np.float64]
    intersect: Any
    data: Any


Primitives = Triangles | Boxes | Obbs | Custom


@pointers_of(Custom)
def _custom_pointers(arrays):
    return Custom(pointer(arrays.points), arrays.intersect, borrowed(arrays.data))


def count_of(primitives: Primitives) -> int:
    """Return the number of primitives."""
    return len(primitives.faces) if isinstance(primitives, Triangles) else len(primitives.points)


def arrays_of(primitives: Primitives | Instanced) -> list[NDArray[Any]]:
    """Return the arrays of primitives that the tree owns."""
    if isinstance(primitives, Triangles):
        return [primitives.points, primitives.faces]
    if isinstance(primitives, Instanced):
        return list(primitives)
    return [primitives.points]


def corners(triangles, prim):
    """Return the three vertices of a triangle, in a scene in world coordinates."""


def _own_corners(triangles, prim):
    faces, points = triangles.faces, triangles.points
    return (
        vector(points, np.int64(peek(faces, 3 * prim))),
        vector(points, np.int64(peek(faces, 3 * prim + 1))),
        vector(points, np.int64(peek(faces, 3 * prim + 2))),
    )


@by_type(corners, inline=True)
def _choose_corners(triangles, prim):
    if triangles.instance_class is Instanced:
        return lambda triangles, prim: instanced_corners(triangles, prim)
    return _own_corners


def intersect(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) where a ray meets a primitive in t_min..t_max; side MISS where not.

    `scaled` is what `triangles.scaled_ray` returns for the ray.
    """
    return INTERSECTIONS[type(primitives)](primitives, prim, o, d, scaled, t_min, t_max, cull)


def _intersect_triangle(primitives, prim, o, d, scaled, t_min, t_max, cull):
    return _intersect_corners(corners(primitives, prim), o, d, scaled, t_min, t_max, cull)


@inlined
def _intersect_corners(vertices, o, d, scaled, t_min, t_max, cull):
    d_scaled, floor, e, k = scaled
    v0, v1, v2 = vertices
    side = sides(o, d, d_scaled, floor, v0, v1, v2)
    if side == MISS or side == cull:
        return INF, MISS
    t = distance(o, d, e, k, v0, v1, v2)
    return t, (side if t_min <= t <= t_max else MISS)


def _intersect_box(primitives, prim, o, d, scaled, t_min, t_max, cull):
    lower, upper = read_box(primitives.points, prim)
    return _stay(box_interval(o, d, lower, upper), t_min, t_max)


def _intersect_obb(primitives, prim, o, d, scaled, t_min, t_max, cull):
    lower, upper, rows = read_obb(primitives.points, prim)
    return _stay(obb_interval(o, d, lower, upper, rows), t_min, t_max)


def _intersect_instanced(primitives, prim, o, d, scaled, t_min, t_max, cull):
    if kind_of(primitives, leaf_of(prim)) == TRIANGLES:
        vertices = instanced_corners(primitives, prim)
        return _intersect_corners(vertices, o, d, scaled, t_min, t_max, cull)
    return _stay(instanced_interval(primitives, prim, o, d), t_min, t_max)


def _call_user(function, prim, o, d, t_min, t_max, data):
    """Return (t, u, v) of a ray and a user's primitive."""


@by_type(_call_user, inline=True)
def _choose_call(function, prim, o, d, t_min, t_max, data):
    if isinstance(function, types.Dispatcher):
        return lambda function, prim, o, d, t_min, t_max, data: function(
            prim, o, d, t_min, t_max, data
        )
    return lambda function, prim, o, d, t_min, t_max, data: call_intersect(
        function, (prim, o, d, t_min, t_max, data)
    )


def _intersect_custom(primitives, prim, o, d, scaled, t_min, t_max, cull):
    t, _, _ = _call_user(primitives.intersect, prim, o, d, t_min, t_max, primitives.data)
    # A NaN fails here, as a miss does.
    return t, (FRONT if t_min <= t <= t_max and abs(t) < INF else MISS)


@inlined
def _stay(interval, t_min, t_max):
    """Return (t, side) of a ray's interval in a box; it begins at t_min when it starts inside."""
    hit, near, far = interval
    if not hit or near > t_max or far < t_min:
        return INF, MISS
    return max(t_min, near), (FRONT if near >= t_min else BACK)


INTERSECTIONS = {
    Triangles: _intersect_triangle,
    Boxes: _intersect_box,
    Obbs: _intersect_obb,
    Custom: _intersect_custom,
    Instanced: _intersect_instanced,
}


@by_type(intersect)
def _choose_intersection(primitives, prim, o, d, scaled, t_min, t_max, cull):
    return INTERSECTIONS[primitives.instance_class]


def weights(primitives, prim, o, d, scaled, t_min, t_max):
    """Return (u, v) where a ray meets a primitive; NaN for boxes."""
    return WEIGHTS[type(primitives)](primitives, prim, o, d, scaled, t_min, t_max)


def _weights_of_triangle(primitives, prim, o, d, scaled, t_min, t_max):
    v0, v1, v2 = corners(primitives, prim)
    return barycentrics(o, d, v0, v1, v2)


def _no_weights(primitives, prim, o, d, scaled, t_min, t_max):
    return NAN, NAN


def _placed_weights(primitives, prim, o, d, scaled, t_min, t_max):
    if kind_of(primitives, leaf_of(prim)) != TRIANGLES:
        return NAN, NAN
    v0, v1, v2 = instanced_corners(primitives, prim)
    return barycentrics(o, d, v0, v1, v2)


def _custom_weights(primitives, prim, o, d, scaled, t_min, t_max):
    _, u, v = _call_user(primitives.intersect, prim, o, d, t_min, t_max, primitives.data)
    return u, v


WEIGHTS = {
    Triangles: _weights_of_triangle,
    Boxes: _no_weights,
    Obbs: _no_weights,
    Custom: _custom_weights,
    Instanced: _placed_weights,
}


@by_type(weights)
def _choose_weights(primitives, prim, o, d, scaled, t_min, t_max):
    return WEIGHTS[primitives.instance_class]


@inlined
def is_ray(o, d, t_min, t_max):
    """Return whether a ray is valid: finite, with a direction, and t_min <= t_max."""
    return can_hit(o, d) and t_min <= t_max


@entry
def _triangle_bounds(points, faces, lower, upper, valid):
    """Bound each triangle; mark those with a vertex that is not finite as invalid."""
    for i in range(len(faces)):
        a = vector(points, np.int64(faces[i, 0]))
        b = vector(points, np.int64(faces[i, 1]))
        c = vector(points, np.int64(faces[i, 2]))
        valid[i] = finite(a) and finite(b) and finite(c)
        for axis in range(3):
            lower[i, axis] = min(a[axis], min(b[axis], c[axis]))
            upper[i, axis] = max(a[axis], max(b[axis], c[axis]))


def world_bounds(
    primitives: Primitives,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Bound every primitive: lower and upper corners, (n, 3), and which of them can be hit."""
    points = primitives.points
    if isinstance(primitives, Triangles):
        faces = primitives.faces
        lower, upper = np.empty((len(faces), 3)), np.empty((len(faces), 3))
        valid = np.empty(len(faces), np.bool_)
        _triangle_bounds(points, faces, lower, upper, valid)
        return lower, upper, valid
    lower, upper = points[:, 0:3].copy(), points[:, 3:6].copy()
    solid = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
    valid = np.asarray(solid.all(axis=1))
    lower[~valid] = upper[~valid] = 0.0
    if isinstance(primitives, Obbs):
        rows = np.ascontiguousarray(points[:, 6:18]).reshape(-1, 3, 4)
        lower, upper = obb_bounds(lower, upper, rows)
    valid &= np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)
    return lower, upper, valid
