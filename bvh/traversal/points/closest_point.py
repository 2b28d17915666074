"""The closest triangle and the k nearest triangles of points, in a tree or a scene.

Points that are not too far (see `point_bounds`) are bounded in float32 alone: each group of
triangles gives an upper bound of the distance, and candidates, whose lower bounds do not exceed the
best upper bound. Those left at the end, usually one, are measured exactly. Ties are kept until
then, so that the lowest id is the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, NAN, finite, vector
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.jit import by_type, entry, inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, pointer, poke, shifted
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.points.double_bounds import EVEN
from bvh.traversal.points.point_bounds import (
    BOX_ERROR,
    FAR,
    LEAF_ERROR,
    UP,
    local_point,
    spread_point,
)
from bvh.traversal.points.point_walks import (
    NO_TRIANGLE,
    Candidates,
    DoubleSpace,
    Rows,
    TreeSpace,
    keep_near,
    measure,
    walk_float32,
    walk_float64,
)
from bvh.traversal.points.scratch import scratch_as_pointers
from bvh.tree import frame as frames
from bvh.tree.primitives import corners


class TreeTarget(NamedTuple):
    """A tree over triangles, as point queries take it."""

    tree: Any


class Nearest(NamedTuple):
    """The triangles found, `count` rows for each point; pointers inside kernels."""

    distance: NDArray[np.float64]
    names: NDArray[np.int64]  # -1 for none
    weights: NDArray[np.float64]  # (n, 2), or empty: not wanted
    position: NDArray[np.float64]  # (n, 3), or empty


# By the class of a target: its pointers, and its spaces for `walk_float32` and `walk_float64`.
# `instanced_closest_point` adds those of scenes.
TARGETS: dict[type, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {}


def target_as_pointers(target):
    """Return a target as kernels read it: pointers instead of arrays."""


@by_type(target_as_pointers)
def _choose_target_as_pointers(target):
    return TARGETS[target.instance_class][0]


def space_of(target, x, reach):
    """Return the space of x in a target's frame; `reach` is its largest coordinate."""


def _choose_space(target, x, reach):
    return TARGETS[target.instance_class][1]


by_type(space_of, inline=True)(_choose_space)


def double_space_of(target, x, reach):
    """Return the space of x for `walk_float64`."""


def _choose_double_space(target, x, reach):
    return TARGETS[target.instance_class][2]


by_type(double_space_of, inline=True)(_choose_double_space)


def _tree_pointers(target):
    return TreeTarget(as_pointers(target.tree))


def _tree_space(target, x, reach):
    tree = target.tree
    # In doubles: float32 would lose small errors in the sum.
    error = np.float32((LEAF_ERROR * (reach + frames.bound(tree.frame))) * UP + 1e-30)
    return TreeSpace(
        tree.blocks, tree.groups, tree.ids, tree.primitives, np.int64(0), frames.scale(tree.frame),
        spread_point(x), BOX_ERROR * reach + 1e-30, error,
    )  # fmt: skip


def _tree_double_space(target, x, reach):
    tree = target.tree
    return DoubleSpace(
        tree.blocks, tree.ids, tree.primitives, np.int64(0), frames.scale(tree.frame), x, EVEN,
        2.0**-49 * reach,
    )  # fmt: skip


TARGETS[TreeTarget] = _tree_pointers, _tree_space, _tree_double_space


@kernel
def _closest(target, scratch, p, x, reach, limit):
    """Return (distance, name, u, v) of the closest triangle, NO_TRIANGLE if none is within limit.

    `x` is p in the local frame, and `reach` its largest coordinate.
    """
    goal = Candidates(np.int64(0), limit, np.int64(NO_TRIANGLE), NAN, NAN)
    space = space_of(target, x, reach)
    near, limits, goal = walk_float32(space, goal, limit, scratch, p, np.int64(0))
    count, best, name, u, v = goal
    count = keep_near(space, scratch, count, near, limits[0])
    return measure(target.tree.primitives, scratch, count, p, (best, name, u, v))


@kernel
def _nearest_in_doubles(target, scratch, p, x, reach, rows):
    """Fill rows, which begin as NO_TRIANGLE at the limit, with the nearest triangles."""
    stay_outlined()
    limit = peek(rows.distance, rows.k - 1)
    walk_float64(double_space_of(target, x, reach), rows, limit, scratch, p, np.int64(0))


@inlined
def nearest_to(target, scratch, p, limit):
    """Return (distance, name, u, v) of the closest triangle; NO_TRIANGLE for points not finite."""
    d, name, u, v = INF, np.int64(NO_TRIANGLE), NAN, NAN
    if finite(p) and limit >= 0.0:
        x, reach = local_point(target.tree.frame, p)
        if reach <= FAR:
            d, name, u, v = _closest(target, scratch, p, x, reach, limit)
        else:
            rows = Rows(np.int64(1), scratch.lows, scratch.closest)
            poke(rows.distance, 0, limit)
            poke(rows.names, 0, np.int64(NO_TRIANGLE))
            _nearest_in_doubles(target, scratch, p, x, reach, rows)
            name = peek(rows.names, 0)
            if name != NO_TRIANGLE:
                d, u, v = nearest_on_triangle(p, *corners(target.tree.primitives, name))
    return d, name, u, v


@kernel
def _k_nearest(target, scratch, p, limit, rows):
    """Fill rows with the nearest triangles within a limit, NO_TRIANGLE for none."""
    for i in range(rows.k):
        poke(rows.distance, i, limit)
        poke(rows.names, i, np.int64(NO_TRIANGLE))
    if finite(p) and limit >= 0.0:
        x, reach = local_point(target.tree.frame, p)
        if reach <= FAR:
            walk_float32(space_of(target, x, reach), rows, limit, scratch, p, np.int64(0))
        else:
            _nearest_in_doubles(target, scratch, p, x, reach, rows)


@inlined
def _write_point(primitives, name, u, v, found, i):
    """Write the closest point, from its weights."""
    poke(found.weights, 2 * i, u)
    poke(found.weights, 2 * i + 1, v)
    a, b, c = corners(primitives, name)
    w = (1.0 - u) - v
    for axis in range(3):
        poke(found.position, 3 * i + axis, (w * a[axis] + u * b[axis]) + v * c[axis])


@inlined
def _write_miss(found, i, whole):
    poke(found.distance, i, INF)
    poke(found.names, i, np.int64(-1))
    if whole:
        poke(found.weights, 2 * i, NAN)
        poke(found.weights, 2 * i + 1, NAN)
        for axis in range(3):
            poke(found.position, 3 * i + axis, NAN)


@inlined
def _found_pointers(found):
    return Nearest(
        pointer(found.distance), pointer(found.names), pointer(found.weights),
        pointer(found.position),
    )  # fmt: skip


@entry
def closest_points(target, points, limits, scratch, begin, end, found):
    """Find the triangle closest to each of the points begin..end."""
    result, whole, step = _found_pointers(found), len(found.position) > 0, len(limits) > 1
    if len(target.tree.nodes.data) == 0:
        for i in range(begin, end):
            _write_miss(result, i, whole)
        return
    _closest_points(
        target_as_pointers(target), pointer(points), pointer(limits), np.int64(step),
        scratch_as_pointers(scratch), begin, end, result, whole,
    )  # fmt: skip


@kernel
def _closest_points(target, points, limits, step, scratch, begin, end, found, whole):
    for i in range(begin, end):
        p, limit = vector(points, i), peek(limits, i * step)
        d, name, u, v = nearest_to(target, scratch, p, limit)
        if name == NO_TRIANGLE:
            _write_miss(found, i, whole)
        else:
            poke(found.distance, i, d)
            poke(found.names, i, name)
            if whole:
                _write_point(target.tree.primitives, name, u, v, found, i)


@entry
def nearest_points(target, points, limits, scratch, begin, end, count, found):
    """Find the `count` triangles nearest to each of the points begin..end."""
    result, step = _found_pointers(found), len(limits) > 1
    if len(target.tree.nodes.data) == 0:
        for i in range(begin * count, end * count):
            _write_miss(result, i, True)
        return
    _nearest_points(
        target_as_pointers(target), pointer(points), pointer(limits), np.int64(step),
        scratch_as_pointers(scratch), begin, end, count, result,
    )  # fmt: skip


@kernel
def _nearest_points(target, points, limits, step, scratch, begin, end, count, found):
    for i in range(begin, end):
        p, limit, at = vector(points, i), peek(limits, i * step), i * count
        rows = Rows(count, shifted(found.distance, at), shifted(found.names, at))
        _k_nearest(target, scratch, p, limit, rows)
        for j in range(at, at + count):
            name = peek(found.names, j)
            if name == NO_TRIANGLE:
                _write_miss(found, j, True)
            else:
                _, u, v = nearest_on_triangle(p, *corners(target.tree.primitives, name))
                _write_point(target.tree.primitives, name, u, v, found, j)
