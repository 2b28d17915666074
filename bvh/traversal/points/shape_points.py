"""Spheres and capsules nearest to points, and around them, in a tree or a scene.

Trees are traversed in float64 (see `point_walks`); the class of the goal tells that the primitives
are shapes. In a scene, leaves over other primitives are left out: rows begin with the nearest
faces, which nearer shapes replace. The name of a primitive is its id in a tree, its code in a
scene.

An instance differs from the image of its shape by less than the bound of vertices' errors in the
frame of its tree (see `world_bounds`), which is added to that of the point (see `world_metric`).
"""

from typing import NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN, finite, vector
from bvh.geometry.round_distances import nearest_on_surface, signed_distance
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, kernel, stay_outlined
from bvh.runtime.simd import peek, pointer, poke, shifted
from bvh.runtime.tuple_references import Pointer, as_pointers
from bvh.traversal.points import point_bounds, point_walks
from bvh.traversal.points.closest_point import double_space_of, point_on
from bvh.traversal.points.instanced_closest_point import TopSpace, instance_double_space
from bvh.traversal.points.point_walks import NO_TRIANGLE, VISITS, DoubleSpace, Rows, insert_nearer
from bvh.traversal.points.world_metric import LENGTHS, METRIC_SIZE, seen_from
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import is_empty
from bvh.tree.instanced import (
    SPHERES,
    TRANSFORM_SIZE,
    VERTEX_ERROR,
    Instanced,
    instanced_capsule,
    row_of,
)
from bvh.tree.primitives import corners, is_triangle
from bvh.tree.shapes import KINDS
from bvh.tree.wide_nodes import LEAF_BITS, leaf_rows


class ShapeRows(Rows):
    """The k nearest spheres or capsules so far, as `Rows`."""


class Around(NamedTuple):
    """Whether a point is in a shape, as the goal of a traversal."""

    found: Pointer[np.uint8]  # a byte that is set if so
    surface: bool  # whether points on the surface of a shape are in it


@by_type(inline=True)
def _capsule_of(primitives, name):
    """Return (end, other end, radius) of a shape by its name; a sphere has two equal ends."""
    if primitives.instance_class is Instanced:
        return lambda primitives, name: instanced_capsule(primitives, name)
    ends = KINDS[primitives.instance_class].capsule
    return lambda primitives, name: ends(primitives.points, name)


def _visit_nearest(space, goal, near, limits, scratch, p, code, top):
    """Insert the shapes of a leaf that come before the goal's last row.

    Arguments and results are those of `point_walks.visit`.
    """
    first, size = leaf_rows(code)
    for place in range(first, first + size):
        prim = np.int64(peek(space.tree.ids, place))
        if prim >= 0:
            name = space.base | prim
            d = abs(signed_distance(p, *_capsule_of(space.tree.primitives, name)))
            insert_nearer(goal, d, name)
    return peek(goal.distance, goal.k - 1), limits, goal


def _visit_around(space, goal, near, limits, scratch, p, code, top):
    """Set the byte `goal.found` if p is in one of a leaf's shapes.

    Arguments and results are those of `point_walks.visit`.
    """
    first, size = leaf_rows(code)
    for place in range(first, first + size):
        prim = np.int64(peek(space.tree.ids, place))
        if prim >= 0 and peek(goal.found, 0) == 0:
            d = signed_distance(p, *_capsule_of(space.tree.primitives, space.base | prim))
            if d < 0.0 or (d == 0.0 and goal.surface):
                poke(goal.found, 0, np.uint8(1))
    return near, limits, goal


@kernel
def _walk_leaf(target, goal, near, scratch, p, x, leaf, base):
    """Traverse the tree of a leaf of the TLAS, over shapes; return the new (near, goal).

    `target` is the `SceneTarget`. p is the point in the world, x in the frame of the TLAS; only
    shapes at most `near` from it count. The stack is free from `base` on.
    """
    # The error of vertices, stretched by the lengths of the metric, is added to that of the point.
    stay_outlined()
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    q, reach, lost, near_enough = seen_from(instanced, metric, leaf, x)
    lengths = vector(metric, LENGTHS // 3)
    error = peek(instanced.transforms, leaf * TRANSFORM_SIZE + VERTEX_ERROR)
    lost += (lengths[0] + lengths[1] + lengths[2]) * error
    seen = q, reach, lost, near_enough
    space = instance_double_space(instanced, metric, leaf, seen, target.mask)
    return point_walks.walk_instance_float64(space, goal, near, scratch, p, base)


def _visit_leaf(space, goal, near, limits, scratch, p, code, top):
    """Traverse the tree of a TLAS leaf, by `code`, if it is over shapes and passes the mask.

    Arguments and results are those of `point_walks.visit`.
    """
    # The code of a leaf has the row in `ids` with the number of the leaf in the scene.
    instanced, leaf = space.tree.primitives, np.int64(peek(space.tree.ids, ~code >> LEAF_BITS))
    row = row_of(instanced, leaf)
    if (
        peek(instanced.masks, leaf) & space.target.mask != 0
        and tree_rows.kind(row) >= SPHERES and not tree_rows.is_empty(row)
    ):  # fmt: skip
        near, goal = _walk_leaf(space.target, goal, near, scratch, p, space.x, leaf, top)
    return near, limits, goal


VISITS[DoubleSpace, ShapeRows], VISITS[DoubleSpace, Around] = _visit_nearest, _visit_around
VISITS[TopSpace, ShapeRows] = VISITS[TopSpace, Around] = _visit_leaf


@kernel
def _walk(target, goal, near, scratch, p):
    """Write to `goal` the result of a search for shapes at most `near` from a finite point p."""
    x, reach = point_bounds.local_point(target.tree.frame, p)
    space = double_space_of(target, x, reach)
    point_walks.walk_float64(space, goal, near, scratch, p, np.int64(0))


@by_type(inline=True)
def _nearest_on_face(primitives, name, p):
    """Return (point, u, v): the point of a face, by its name, nearest to p, and its weights."""
    if primitives.instance_class is Instanced:
        return lambda primitives, name, p: point_on(corners(primitives, name), p)
    # Trees over shapes have no faces.
    return lambda primitives, name, p: (p, NAN, NAN)


@kernel
def _finish(primitives, found, i, p, whole):
    """Complete row i of the results, in which distance and name are written.

    A row of NO_TRIANGLE gets the distance inf and the name -1. If `whole`, the nearest point to p
    and its weights are written as well: NaN if there is no primitive; weights of shapes are NaN.
    """
    stay_outlined()
    name, x, u, v = peek(found.names, i), (NAN, NAN, NAN), NAN, NAN
    if name == NO_TRIANGLE:
        poke(found.distance, i, INF)
        poke(found.names, i, np.int64(-1))
    elif whole:
        if is_triangle(primitives, name):
            x, u, v = _nearest_on_face(primitives, name, p)
        else:
            x = nearest_on_surface(p, *_capsule_of(primitives, name))
    if whole:
        poke(found.weights, 2 * i, u)
        poke(found.weights, 2 * i + 1, v)
        for axis in range(3):
            poke(found.position, 3 * i + axis, x[axis])


@entry
def nearest_shapes(target, points, limits, scratch, begin, end, count, found):
    """Find the `count` shapes nearest to each of the points begin..end-1.

    Point i has rows i * count to (i + 1) * count - 1 of `found`. On entry, these have the nearest
    faces, or the name -1; nearer shapes replace them. `limits` has one largest distance for all
    points, or one for each; `scratch` is for one thread.
    """
    aim, memory, out = as_pointers(target), as_pointers(scratch), as_pointers(found)
    where, within, step = pointer(points), pointer(limits), np.int64(len(limits) > 1)
    whole, empty = len(found.position) > 0, is_empty(target.tree)
    for i in range(begin, end):
        p, limit, at = vector(where, i), peek(within, i * step), i * count
        rows = ShapeRows(count, shifted(out.distance, at), shifted(out.names, at))
        for j in range(count):
            if peek(rows.names, j) < 0:
                poke(rows.distance, j, limit)
                poke(rows.names, j, np.int64(NO_TRIANGLE))
        if finite(p) and limit >= 0.0 and not empty:
            _walk(aim, rows, peek(rows.distance, count - 1), memory, p)
        for j in range(at, at + count):
            _finish(aim.tree.primitives, out, j, p, whole)


@entry
def mark_around(target, points, scratch, begin, end, surface, found):
    """Set byte i of `found` if point i is in a shape or, if `surface`, on one; begin <= i < end."""
    aim, memory = as_pointers(target), as_pointers(scratch)
    where, marks, empty = pointer(points), pointer(found), is_empty(target.tree)
    for i in range(begin, end):
        p = vector(where, i)
        if finite(p) and not empty:
            _walk(aim, Around(shifted(marks, i), surface), 0.0, memory, p)
