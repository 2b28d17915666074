"""The closest triangle of points, in a tree or a scene, and the k nearest triangles.

Points that are not too far (see `point_bounds`) are bounded in float32 alone: each group of
triangles gives an upper bound of the distance, and candidates, whose lower bounds do not exceed the
best upper bound. Those left at the end, usually one, are measured exactly. Ties remain until then,
so that the lowest id is the result.

The name of a triangle is its id in a tree, its code in a scene (see `point_walks`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, NAN, finite, vector
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, pointer, poke, shifted
from bvh.runtime.tuple_references import as_pointers, makes_pointers_of
from bvh.traversal.points import point_bounds, point_walks
from bvh.traversal.points.point_bounds import BOX_ERROR, EVEN, FAR, LEAF_ERROR, UP
from bvh.traversal.points.point_walks import NO_TRIANGLE, Candidates, DoubleSpace, Rows, TreeSpace
from bvh.tree import frame as frames
from bvh.tree.arrays import TreePointers, TreeRow, is_empty
from bvh.tree.primitives import corners


class TreeTarget(NamedTuple):
    """A tree, as point queries take it."""

    tree: TreeRow | TreePointers
    mask: int  # groups of faces that count


class Nearest(NamedTuple):
    """Results: the nearest primitives, n rows in all; pointers inside kernels.

    Each point has one row or, for k nearest primitives, k rows, in order of distance and name.
    """

    distance: NDArray[np.float64]  # inf for none
    names: NDArray[np.int64]  # -1 for none
    weights: NDArray[np.float64]  # (n, 2), or empty: not written
    position: NDArray[np.float64]  # (n, 3), or empty


# Functions that return the spaces of a target for `walk_float32` and `walk_float64`, by its class.
# `instanced_closest_point` adds those of scenes.
SPACES: dict[type, tuple[Callable[..., object], Callable[..., object]]] = {}


@by_type(inline=True)
def space_of(target, x, reach):
    """Return the space for `walk_float32`: a tree or scene, seen from the point x.

    x is in the frame of the target's tree; `reach` is its largest absolute coordinate. The class of
    the target chooses the function, at compile time.
    """
    return SPACES[target.instance_class][0]


@by_type(inline=True)
def double_space_of(target, x, reach):
    """Return the space for `walk_float64`; x and `reach` are as for `space_of`."""
    return SPACES[target.instance_class][1]


@makes_pointers_of(TreeTarget)
def _tree_pointers(arrays):
    """Return a `TreeTarget` of pointers, as kernels read it."""
    return TreeTarget(as_pointers(arrays.tree), arrays.mask)


def _tree_space(target, x, reach):
    """Return the `TreeSpace` of a `TreeTarget`, for the point x in its frame.

    `reach` is the largest absolute coordinate of x.
    """
    tree = target.tree
    # The error of distances to triangles, in doubles: float32 would lose small terms of the sum.
    error = np.float32((LEAF_ERROR * (reach + frames.bound(tree.frame))) * UP + 1e-30)
    return TreeSpace(
        tree, np.int64(0), frames.scale(tree.frame), point_bounds.spread_point(x),
        BOX_ERROR * reach + 1e-30, error, target.mask, None,
    )  # fmt: skip


def _tree_double_space(target, x, reach):
    """Return the `DoubleSpace` of a `TreeTarget`; x and `reach` are as in `_tree_space`."""
    tree, scale = target.tree, frames.scale(target.tree.frame)
    return DoubleSpace(tree, np.int64(0), scale, x, EVEN, 2.0**-49 * reach, target.mask)


SPACES[TreeTarget] = _tree_space, _tree_double_space


@kernel
def _closest(target, scratch, p, x, reach, limit):
    """Return (distance, name, u, v) of the triangle closest to p, its name NO_TRIANGLE for none.

    Only triangles within `limit` count; u and v are the weights of the second and third corner. x
    is p in the frame of the target's tree, and `reach` its largest absolute coordinate, at most
    FAR, so that float32 is accurate enough.
    """
    goal = Candidates(np.int64(0), (limit, np.int64(NO_TRIANGLE), NAN, NAN))
    space = space_of(target, x, reach)
    near, limits, goal = point_walks.walk_float32(space, goal, limit, scratch, p, np.int64(0))
    count = point_walks.keep_near(space, scratch, goal.stored, near, limits[0])
    return point_walks.measure(target.tree.primitives, scratch, count, p, goal.so_far)


@kernel
def _nearest_in_doubles(target, scratch, p, x, reach, rows):
    """Replace `rows`, which `_clear` has set, by the triangles nearest to p, in float64.

    x is p in the frame of the target's tree, and `reach` its largest absolute coordinate.
    """
    stay_outlined()
    limit = peek(rows.distance, rows.k - 1)
    point_walks.walk_float64(
        double_space_of(target, x, reach), rows, limit, scratch, p, np.int64(0)
    )


@inlined
def _clear(rows, limit):
    """Set all rows to (limit, NO_TRIANGLE), to be replaced by triangles within the limit."""
    for i in range(rows.k):
        poke(rows.distance, i, limit)
        poke(rows.names, i, np.int64(NO_TRIANGLE))


@inlined
def nearest_to(target, scratch, p, limit):
    """Return (distance, name, u, v) of the triangle closest to p, at most `limit` from it.

    u and v are the weights of the second and third corner. If there is no triangle, or p is not
    finite, the name is NO_TRIANGLE, u and v are NaN, and the distance is meaningless.
    """
    d, name, u, v = INF, np.int64(NO_TRIANGLE), NAN, NAN
    if finite(p) and limit >= 0.0:
        x, reach = point_bounds.local_point(target.tree.frame, p)
        if reach <= FAR:
            d, name, u, v = _closest(target, scratch, p, x, reach, limit)
        else:
            # A single row, in scratch memory.
            rows = Rows(np.int64(1), scratch.lows, scratch.closest)
            _clear(rows, limit)
            _nearest_in_doubles(target, scratch, p, x, reach, rows)
            name = peek(rows.names, 0)
            if name != NO_TRIANGLE:
                d, u, v = nearest_on_triangle(p, *corners(target.tree.primitives, name))
    return d, name, u, v


@kernel
def _k_nearest(target, scratch, p, limit, rows):
    """Fill all `rows` with the triangles nearest to p within a limit, NO_TRIANGLE for none."""
    _clear(rows, limit)
    if finite(p) and limit >= 0.0:
        x, reach = point_bounds.local_point(target.tree.frame, p)
        if reach <= FAR:
            point_walks.walk_float32(
                space_of(target, x, reach), rows, limit, scratch, p, np.int64(0)
            )
        else:
            _nearest_in_doubles(target, scratch, p, x, reach, rows)


@inlined
def weighed(corners, u, v):
    """Return the point of a triangle with the weights u of its second and v of its third corner."""
    a, b, c = corners
    w = (1.0 - u) - v
    return (
        (w * a[0] + u * b[0]) + v * c[0], (w * a[1] + u * b[1]) + v * c[1],
        (w * a[2] + u * b[2]) + v * c[2],
    )  # fmt: skip


@kernel
def point_on(corners, p):
    """Return (point, u, v): the point of a triangle that is nearest to p, and its weights."""
    stay_outlined()
    _, u, v = nearest_on_triangle(p, *corners)
    return weighed(corners, u, v), u, v


@inlined
def _write(primitives, found, i, d, closest, whole):
    """Write row i of the results: the distance d and `closest`, a tuple (name, u, v).

    If `whole`, the weights u and v and the point of the triangle are written as well.
    """
    name, u, v = closest
    missed, x = name == NO_TRIANGLE, (NAN, NAN, NAN)
    poke(found.distance, i, INF if missed else d)
    poke(found.names, i, np.int64(-1) if missed else name)
    if whole:
        poke(found.weights, 2 * i, u)
        poke(found.weights, 2 * i + 1, v)
        if not missed:
            x = weighed(corners(primitives, name), u, v)
        for axis in range(3):
            poke(found.position, 3 * i + axis, x[axis])


@entry
def closest_points(target, points, limits, scratch, begin, end, found):
    """Write to row i of `found` the triangle closest to point i, for begin <= i < end.

    `limits` has one largest distance for all points, or one for each; `scratch` is for one thread.
    """
    # A step of 0 gives all points the same limit; the limit -1, of an empty tree, finds nothing.
    aim, memory, out = as_pointers(target), as_pointers(scratch), as_pointers(found)
    where, within, step = pointer(points), pointer(limits), np.int64(len(limits) > 1)
    whole, empty = len(found.position) > 0, is_empty(target.tree)
    for i in range(begin, end):
        p, limit = vector(where, i), -1.0 if empty else peek(within, i * step)
        d, name, u, v = nearest_to(aim, memory, p, limit)
        _write(aim.tree.primitives, out, i, d, (name, u, v), whole)


@entry
def nearest_points(target, points, limits, scratch, begin, end, count, found):
    """Find the `count` triangles nearest to each of the points begin..end-1.

    Those of point i are written to rows i * count to (i + 1) * count - 1 of `found`. `limits` has
    one largest distance for all points, or one for each; `scratch` is for one thread.
    """
    aim, memory, out = as_pointers(target), as_pointers(scratch), as_pointers(found)
    where, within, step = pointer(points), pointer(limits), np.int64(len(limits) > 1)
    primitives, empty = aim.tree.primitives, is_empty(target.tree)
    for i in range(begin, end):
        p, limit, at = vector(where, i), -1.0 if empty else peek(within, i * step), i * count
        rows = Rows(count, shifted(out.distance, at), shifted(out.names, at))
        _k_nearest(aim, memory, p, limit, rows)
        for j in range(at, at + count):
            name, u, v = peek(out.names, j), NAN, NAN
            if name != NO_TRIANGLE:
                _, u, v = nearest_on_triangle(p, *corners(primitives, name))
            _write(primitives, out, j, peek(out.distance, j), (name, u, v), True)
