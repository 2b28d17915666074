"""Primitives of a tree: triangles, shapes and users' own, with one ray test.

`intersect` is the test that every traversal and every brute-force check shares. It is chosen by
type, so a traversal over triangles compiles no box code.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.edge_sides import NO_VERTEX, sides
from bvh.geometry.arithmetic.floats import INF, NAN, can_hit
from bvh.geometry.triangles import distance, exact_details
from bvh.runtime.calls.user_calls import call_intersect
from bvh.runtime.compiler.lazy_modules import types
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import pointer
from bvh.runtime.tuple_references import borrowed, makes_pointers_of
from bvh.tree import instanced
from bvh.tree.instanced import Instanced
from bvh.tree.rows import TRIANGLES
from bvh.tree.shapes import SHAPES, Boxes, Capsules, Obbs, Spheres, shape_of

FRONT, BACK, MISS = -1, 1, 0
# Kinds of trees over triangles that have no area.
THIN = ("points", "segments")


class Triangles(NamedTuple):
    """Triangles by vertices (n, 3) and faces (m, 3)."""

    points: NDArray[np.float64]
    faces: NDArray[np.int32]


class Custom(NamedTuple):
    """A user's primitives by their bounding boxes (n, 6), and the test of a ray against one."""

    points: NDArray[np.float64]
    # In kernels both are given by address (see `UserCall`).
    intersect: object
    data: object


Primitives = Triangles | Boxes | Obbs | Spheres | Capsules | Custom


@makes_pointers_of(Custom)
def _custom_pointers(arrays):
    """Return a `Custom` with a pointer to its boxes, and with data that counts no references."""
    return Custom(pointer(arrays.points), arrays.intersect, borrowed(arrays.data))


def count_of(primitives: Primitives) -> int:
    """Return the number of primitives."""
    return len(primitives.faces) if isinstance(primitives, Triangles) else len(primitives.points)


def kind_of_faces(faces: NDArray[np.int32]) -> str:
    """Return "points" if all faces are (a, a, a), "segments" if (a, b, b), else "triangles"."""
    a, b, c = faces.T
    # The first face alone rules out points and segments for nearly all meshes.
    if len(faces) == 0 or b[0] != c[0] or not np.array_equal(b, c):
        return "triangles"
    return "points" if np.array_equal(a, b) else "segments"


def arrays_of(primitives: Primitives | Instanced) -> list[NDArray[Any]]:
    """Return the arrays of primitives that the tree owns: all but the data of users' primitives."""
    return [primitives.points] if isinstance(primitives, Custom) else list(primitives)


@by_type(inline=True)
def corners(triangles, prim):
    """Return the three vertices of triangle `prim`; in a scene, by its code, in the world."""
    # Like all functions `by_type`, it takes Numba's types; a call compiles to what it returns.
    if triangles.instance_class is Instanced:
        return lambda triangles, prim: instanced.instanced_corners(triangles, prim)
    return lambda triangles, prim: instanced.face_corners(triangles.points, triangles.faces, prim)


@inlined
def _intersect_corners(vertices, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) where a ray meets a triangle of three vertices, or side MISS.

    `cull` is the side that is not hit, 0 for none.
    """
    # Of `triangles.scaled_ray`: d times a power of two, so that side tests do not overflow; a bound
    # of what underflows in them; the exponents of the largest coordinate and of d.
    d_scaled, floor, e, k = scaled
    side, vertex = sides(o, d, d_scaled, floor, vertices)
    if side == MISS or side == cull:
        return INF, MISS
    t = distance(o, d, e, k, vertices, vertex)
    return t, (side if t_min <= t <= t_max else MISS)


def _shape_test(shape):
    """Return the function that `intersect` compiles to for `shape`, a subclass of `Shape`.

    A ray that starts inside hits the surface of a hollow shape, and a solid one at t_min. Solid
    shapes are not culled. The argument `scaled` is unused: it is for triangles alone.
    """
    interval = shape.interval
    if shape.hollow:
        return lambda primitives, prim, o, d, scaled, t_min, t_max, cull: _surface_hit(
            interval(primitives.points, prim, o, d), t_min, t_max, cull
        )
    return lambda primitives, prim, o, d, scaled, t_min, t_max, cull: _solid_hit(
        interval(primitives.points, prim, o, d), t_min, t_max
    )


def _intersect_instanced(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) where a ray meets the primitive of a scene with code `prim`, or MISS."""
    # `scaled` and `cull` are as in `intersect`; solid shapes use neither.
    kind = instanced.kind_of(primitives, instanced.leaf_of(prim))
    if kind == TRIANGLES:
        return _intersect_corners(corners(primitives, prim), o, d, scaled, t_min, t_max, cull)
    if kind >= instanced.SPHERES:
        return _surface_hit(instanced.instanced_round(primitives, prim, o, d), t_min, t_max, cull)
    return _solid_hit(instanced.instanced_interval(primitives, prim, o, d), t_min, t_max)


@by_type(inline=True)
def _call_user(function, prim, o, d, t_min, t_max, data):
    """Return (t, u, v) of the user's test of a ray and a primitive."""
    # `function` is a compiled function, or the address of one (see `user_calls`).
    if isinstance(function, types.Dispatcher):
        return lambda function, prim, o, d, t_min, t_max, data: function(
            prim, o, d, t_min, t_max, data
        )
    return lambda function, prim, o, d, t_min, t_max, data: call_intersect(
        function, (prim, o, d, t_min, t_max, data)
    )


def _intersect_custom(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) by a user's test: FRONT for all hits, none of which is culled, or MISS."""
    # `scaled` and `cull` are unused: all functions of `intersect` take them.
    t, _, _ = _call_user(primitives.intersect, prim, o, d, t_min, t_max, primitives.data)
    # A NaN fails here, as a miss does.
    return t, (FRONT if t_min <= t <= t_max and abs(t) < INF else MISS)


@inlined
def _solid_hit(interval, t_min, t_max):
    """Return (t, side) where a ray meets a solid shape, for t in t_min..t_max.

    `interval` is (hit, near, far): whether the ray's line meets the shape, and then the t at which
    it enters and leaves. A ray that starts inside the shape meets it at t_min, on the side BACK. A
    miss is (inf, MISS).
    """
    hit, near, far = interval
    if not hit or near > t_max or far < t_min:
        return INF, MISS
    return max(t_min, near), (FRONT if near >= t_min else BACK)


@inlined
def _surface_hit(interval, t_min, t_max, cull):
    """Return (t, side) where a ray first crosses the surface of a shape in t_min..t_max.

    `interval` is (hit, near, far): whether the ray's line meets the shape, and then the t at which
    it enters and leaves. If `cull` is FRONT, only leaving the shape counts; if it is BACK, only
    entering it. A miss is (inf, MISS).
    """
    hit, near, far = interval
    if hit and cull != FRONT and t_min <= near <= t_max:
        return near, FRONT
    leaves = hit and cull != BACK and t_min <= far <= t_max
    return (far, BACK) if leaves else (INF, MISS)


@by_type()
def intersect(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return (t, side) where a ray (o, d) meets a primitive in t_min..t_max; side MISS where not.

    The side is FRONT or BACK. `prim` is the primitive's id, in a scene its code; `scaled` is what
    `triangles.scaled_ray` returns for the ray. `cull` is the side from which triangles and round
    shapes are not hit, FRONT or BACK, 0 for none.
    """
    return {
        Triangles: lambda primitives, prim, o, d, scaled, t_min, t_max, cull: _intersect_corners(
            corners(primitives, prim), o, d, scaled, t_min, t_max, cull
        ),
        Custom: _intersect_custom,
        Instanced: _intersect_instanced,
        **{shape.arrays: _shape_test(shape) for shape in SHAPES},
    }[primitives.instance_class]


@by_type(inline=True)
def is_triangle(primitives, prim):
    """Return whether a primitive is a triangle; in a scene, by its code."""
    if primitives.instance_class is Instanced:
        return lambda primitives, prim: (
            instanced.kind_of(primitives, instanced.leaf_of(prim)) == TRIANGLES
        )
    answer = primitives.instance_class is Triangles
    return lambda primitives, prim: answer


def _triangle_weights(primitives, prim, o, d, scaled, t_min, t_max):
    """Return the weights (u, v) of the vertices v1 and v2 where a ray hits a triangle; else NaN."""
    if not is_triangle(primitives, prim):
        return NAN, NAN
    _, u, v, _ = exact_details(o, d, *corners(primitives, prim))
    return u, v


def _custom_weights(primitives, prim, o, d, scaled, t_min, t_max):
    """Return the weights (u, v) that a user's test returns for a hit."""
    _, u, v = _call_user(primitives.intersect, prim, o, d, t_min, t_max, primitives.data)
    return u, v


@by_type()
def weights(primitives, prim, o, d, scaled, t_min, t_max):
    """Return (u, v) of a hit: a triangle's weights of v1 and v2, or a user's u and v; else NaN."""
    # `scaled` is unused: it gives this function the arguments of `intersect`.
    kind = primitives.instance_class
    if kind in (Triangles, Instanced):
        return _triangle_weights
    if kind is Custom:
        return _custom_weights
    return lambda primitives, prim, o, d, scaled, t_min, t_max: (NAN, NAN)


@inlined
def corner_at(vertices, point):
    """Return the index, 0 to 2, of the first vertex of a triangle at a point, or NO_VERTEX."""
    v0, v1, v2 = vertices
    if v0 == point:
        return 0
    if v1 == point:
        return 1
    return 2 if v2 == point else NO_VERTEX


@by_type()
def distance_of(primitives, prim, o, d, scaled, t_min, t_max, cull):
    """Return t where a ray hits primitive `prim`, which it must hit; arguments: see `intersect`."""
    # A triangle that is known to be hit needs no test of its edges. `scaled` ends with exponents
    # that `distance` takes; NO_VERTEX: it is not known that the ray passes through a vertex.
    if primitives.instance_class is Triangles:
        return lambda primitives, prim, o, d, scaled, t_min, t_max, cull: distance(
            o, d, scaled[2], scaled[3], corners(primitives, prim), NO_VERTEX
        )
    return lambda primitives, prim, o, d, scaled, t_min, t_max, cull: intersect(
        primitives, prim, o, d, scaled, t_min, t_max, cull
    )[0]


@kernel
def meets(primitives, prim, point):
    """Return whether a point is a vertex of triangle `prim`; False for other primitives."""
    return (
        is_triangle(primitives, prim) and corner_at(corners(primitives, prim), point) != NO_VERTEX
    )


# Whether a ray is valid: finite, with a direction, and t_min <= t_max.
is_ray = inlined(lambda o, d, t_min, t_max: can_hit(o, d) and t_min <= t_max)


def world_bounds(
    primitives: Primitives,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return (lower, upper, valid): corners (n, 3) of primitives' boxes, and which can be hit."""
    points = primitives.points
    if isinstance(primitives, Triangles):
        a, b, c = (points[column] for column in primitives.faces.T)
        valid = (np.isfinite(a) & np.isfinite(b) & np.isfinite(c)).all(axis=1)
        return np.minimum(a, np.minimum(b, c)), np.maximum(a, np.maximum(b, c)), valid
    return shape_of(primitives).bounds(points)
