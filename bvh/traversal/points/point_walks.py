"""Traversal loops of point queries, in float32 and float64, shared by trees and scenes.

A *space* is a tree with the query's point in its local frame, and defines the bounds of distances
there: for a tree by itself, for the tree of an instance (BLAS), or for the TLAS of a scene (see
`instanced_closest_point`). A *goal* is the result searched for: the closest triangle, for which
leaves collect `Candidates`, or the k nearest, which leaves insert into `Rows`. The types of both
choose the functions for nodes and leaves, at compile time.

`walk_float32` is for points that are not too far (see `point_bounds`), `walk_float64` for others.
Both carry an upper bound of the distance to the last triangle of the result: `near` in the world,
and `limits` in local units, a pair: the largest distance to triangles, and the largest squared
distance to boxes. In a `TreeSpace`, bounds of candidates lower `limits` alone.

A triangle's *name* is its id in a tree, and its code in a scene (see `instanced`): the `base` of
its leaf, with the id in the low bits. `p` is the point in the world.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.point_triangle import distance_bounds, nearest_on_triangle
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, compress_order
from bvh.runtime.tuple_references import Pointer
from bvh.traversal.points import point_bounds
from bvh.traversal.points.scratch import CAPACITY
from bvh.traversal.points.world_metric import push_stretched, stretched_bounds
from bvh.tree.arrays import TreePointers
from bvh.tree.face_bits import selected_bounds, selected_lanes
from bvh.tree.primitives import corners
from bvh.tree.triangle_groups import group_at, id_place
from bvh.tree.wide_nodes import leaf_rows, node_at

F = np.float32
# The name of no triangle: above all names.
NO_TRIANGLE = 2**63 - 1


class TreeSpace(NamedTuple):
    """A tree by itself, for `walk_float32`."""

    tree: TreePointers
    base: int  # of names
    scale: float  # local units in one unit of the world
    point: point_bounds.Lanes
    box_error: float  # bound of the error of distances to boxes, in local units
    error: np.float32  # bound of the error of distances to triangles
    mask: int  # groups of faces that count
    metric: Pointer[np.float64] | None  # of an instance, whose units are those of `world_metric`


class InstanceSpace(TreeSpace):
    """The tree of an instance, for `walk_float32`."""


class DoubleSpace(NamedTuple):
    """A tree by itself or that of an instance, for `walk_float64`."""

    tree: TreePointers
    base: int
    scale: float
    x: point_bounds.Point
    weights: point_bounds.Point  # of the squares of a distance's components
    lost: float  # bound of the absolute error of distances, in local units
    mask: int


class Candidates(NamedTuple):
    """The goal of the closest triangle: the one measured so far, and candidates."""

    stored: int  # how many candidates are in the scratch
    so_far: tuple[float, int, float, float]  # distance, name, u, v


class Rows(NamedTuple):
    """The goal of the k nearest triangles or shapes: those so far, sorted by (distance, name)."""

    k: int
    distance: Pointer[np.float64]
    names: Pointer[np.int64]


def _walk_float32(space, goal, near, scratch, p, base):
    """Traverse the tree of `space`, nearest boxes first; return the final (near, limits, goal).

    p is the point in the world; `near` is the largest distance from it that counts, and `limits`
    are local bounds (see `limits_of`). The stack in `scratch` is free from `base` on.
    """
    stack, limits = scratch.stack, limits_of(space, near)
    simd.poke(stack, base, np.int64(0))
    top = base + 1
    while top > base:
        top -= 1
        entry = simd.peek(stack, top)
        # The limits may have become less since the entry was pushed.
        if entry > point_bounds.key_of(limits[1]):
            continue
        code = point_bounds.code_of(entry)
        if code >= 0:
            top = push(space, code, limits[1], scratch, top)
            # Not `else`: LLVM then makes an inner loop of the steps that do not change the limits.
            continue
        near, limits, goal = visit(space, goal, near, limits, scratch, p, code, top)
    return near, limits, goal


def _walk_float64(space, goal, near, scratch, p, base):
    """Traverse the tree of `space` as `_walk_float32` does, in float64; return (near, goal)."""
    stack, squares = scratch.stack, scratch.squares
    bound = point_bounds.square_limit(near, space.scale, space.lost)
    simd.poke(stack, base, np.int64(0))
    simd.poke(squares, base, 0.0)
    top = base + 1
    while top > base:
        top -= 1
        if simd.peek(squares, top) > bound:
            continue
        code = simd.peek(stack, top)
        if code >= 0:
            top = point_bounds.push_near(
                space.tree.blocks, code, space.x, space.weights, bound, scratch, top
            )
            continue
        near, _, goal = visit(space, goal, near, bound, scratch, p, code, top)
        bound = point_bounds.square_limit(near, space.scale, space.lost)
    return near, goal


walk_float32, walk_float64 = inlined(_walk_float32), inlined(_walk_float64)
# Numba cannot compile a function within itself, even for other types: instances have their own
# loops, which the traversal of a TLAS calls.
walk_instance_float32, walk_instance_float64 = inlined(_walk_float32), inlined(_walk_float64)


@inlined
def limits_of(space, near):
    """Return `limits`, in float32, for `near`, the largest distance in the world that counts.

    They are the largest distance to triangles and squared distance to boxes, in local units.
    """
    bound = point_bounds.local_bound(near, space.scale)
    return bound, point_bounds.square_bound(bound, space.box_error)


def _push_local(space, code, bound, scratch, top):
    """Push children of node `code` within a squared local distance `bound`; return the new top."""
    squares = point_bounds.box_squares(space.tree.blocks, node_at(code), space.point)
    return point_bounds.push_squares(
        space.tree.blocks, code, squares, bound, scratch.stack, top, scratch.spare
    )


def _push_transformed(space, code, bound, scratch, top):
    """Push children of an instance's node `code` within a squared `bound`, by its world metric."""
    return push_stretched(
        space.tree.blocks, code, space.point, space.metric, bound, scratch.stack, top, scratch.spare
    )


@by_type(inline=True)
def push(space, code, bound, scratch, top):
    """Push children of node `code` within a squared `bound`, nearest on top; return the new top."""
    return _push_transformed if space.instance_class is InstanceSpace else _push_local


@by_type(inline=True)
def triangle_bounds(space, group):
    """Return bounds (low, high) of a group's triangles' local distances, off by `space.error`."""
    if space.instance_class is TreeSpace:
        return lambda space, group: point_bounds.group_bounds(space.tree.groups, group, space.point)
    return lambda space, group: stretched_bounds(
        space.tree.groups, group, space.point, space.metric
    )


# The position, in a tree's ids, of the first id of a group.
ids_at = inlined(lambda space, group: id_place(space.tree.groups, group_at(group)))


def _visit_closest(space, goal, near, limits, scratch, p, code, top):
    """Collect triangles of a leaf that may be closest; arguments and results are as in `visit`."""
    bound, square = limits
    count, so_far = goal
    unit = 1.0 / space.scale
    first, rows = leaf_rows(code)
    for group in range(first, first + rows):
        low, high = triangle_bounds(space, group)
        low, high = selected_bounds(space.tree, group, space.mask, low, high)
        nearest = simd.lowest(high) + space.error
        if nearest < bound:
            # The square is computed here so that this remains a branch: comparisons with the bound
            # then need not wait for the square root.
            bound, square = nearest, point_bounds.square_bound(nearest, space.box_error)
            near = nearer(space, near, nearest, unit)
        low = low - space.error
        bits = simd.mask_bits((low <= bound) & (low < F(INF)))
        if bits == 0:
            continue
        order = compress_order(bits)
        ids = simd.load(space.tree.ids, ids_at(space, group), WIDTH)
        collect(space, scratch, count, simd.permute(low, order), simd.permute(ids, order))
        count += simd.popcount(bits)
        # Before the memory is full, drop candidates; if too many stay, measure all of them.
        if count > CAPACITY - WIDTH:
            count = keep_near(space, scratch, count, near, bound)
            if count > CAPACITY // 2:
                so_far = measure(space.tree.primitives, scratch, count, p, so_far)
                count = np.int64(0)
                near = min(near, so_far[0])
                bound = min(bound, point_bounds.local_bound(near, space.scale))
                square = point_bounds.square_bound(bound, space.box_error)
    return near, (bound, square), Candidates(count, so_far)


def _visit_nearest(space, goal, near, limits, scratch, p, code, top):
    """Insert a leaf's triangles that come before the goal's last row; return as `visit` does."""
    first, rows = leaf_rows(code)
    for group in range(first, first + rows):
        low, _ = triangle_bounds(space, group)
        error = np.float64(space.error)
        worst = point_bounds.local_distance(near, space.scale) * point_bounds.UP + error
        # Finite, so that lanes without a triangle, whose bounds are infinite, are left out.
        bits = np.int64(simd.mask_bits(low <= F(min(worst, 1e30) * point_bounds.UP)))
        bits &= selected_lanes(space.tree, group, space.mask)
        if bits != 0:
            _insert_group(space, group, bits, p, goal)
            near = simd.peek(goal.distance, goal.k - 1)
    return near, limits_of(space, near), goal


def _visit_in_doubles(space, goal, near, limits, scratch, p, code, top):
    """Insert triangles of a leaf that come before the goal's last row; all are measured.

    Arguments are those of `visit`. `limits` are returned as given: `walk_float64` has its own.
    """
    first, rows = leaf_rows(code)
    for group in range(first, first + rows):
        bits = selected_lanes(space.tree, group, space.mask)
        _insert_group(space, group, bits, p, goal)
    return simd.peek(goal.distance, goal.k - 1), limits, goal


# `visit` by space and goal; `instanced_closest_point` and `shape_points` add theirs.
VISITS: dict[tuple[type, type], Callable[..., object]] = {
    (TreeSpace, Candidates): _visit_closest,
    (InstanceSpace, Candidates): _visit_closest,
    (TreeSpace, Rows): _visit_nearest,
    (InstanceSpace, Rows): _visit_nearest,
    (DoubleSpace, Rows): _visit_in_doubles,
}


@by_type(inline=True)
def visit(space, goal, near, limits, scratch, p, code, top):
    """Bound or measure the primitives of a leaf, by its code; return the new (near, limits, goal).

    The classes of `space` and `goal` choose the function. `near` and `limits` are the largest
    distance that counts in the world and in local units (see `limits_of`), p is the point in the
    world, and the stack is free from `top` on.
    """
    return VISITS[space.instance_class, goal.instance_class]


@by_type(inline=True)
def nearer(space, near, nearest, unit):
    """Return the lower of `near` and, in the tree of an instance, `nearest` local units.

    A local unit is `unit` in the world. In a tree by itself `limits` suffice: `near` is returned.
    """
    if space.instance_class is TreeSpace:
        return lambda space, near, nearest, unit: near
    return lambda space, near, nearest, unit: min(near, np.float64(nearest) * unit)


@kernel
def measure(primitives, scratch, count, p, so_far):
    """Return (distance, name, u, v) of the triangle closest to p: a candidate, or `so_far`.

    `so_far` is such a tuple; `scratch` has `count` candidates. Of equally close triangles, the one
    of lowest name is returned.
    """
    stay_outlined()
    best, name, u, v = so_far
    names, lows = scratch.names, scratch.lows
    limit = best
    if count > 1:
        # Bound in doubles first: those surely beyond another need no exact distance.
        for i in range(count):
            low, high = distance_bounds(p, *corners(primitives, np.int64(simd.peek(names, i))))
            simd.poke(lows, i, low)
            limit = min(limit, high)
    else:
        simd.poke(lows, 0, 0.0)
    for i in range(count):
        if simd.peek(lows, i) > limit:
            continue
        k = np.int64(simd.peek(names, i))
        d, s, t = nearest_on_triangle(p, *corners(primitives, k))
        if d < best or (d == best and k < name):
            best, name, u, v = d, k, s, t
            limit = min(limit, d)
    return best, name, u, v


def _collect_local(space, scratch, count, lows, ids):
    """Store local bounds, float32, and ids, int32, behind the first `count` candidates."""
    simd.store(scratch.bounds, count, lows)
    simd.store(scratch.names, count, ids)


def _collect_in_world(space, scratch, count, lows, ids):
    """Store bounds of distances in the world, and codes, behind the first `count` candidates."""
    simd.store(scratch.bounds, count, simd.convert(lows, 0.0) * (1.0 / space.scale))
    simd.store(scratch.names, count, simd.convert(ids, np.int64(0)) | space.base)


@by_type(inline=True)
def collect(space, scratch, count, lows, ids):
    """Store bounds and names behind the first `count` candidates; `lows` and `ids` are lanes."""
    return _collect_local if space.instance_class is TreeSpace else _collect_in_world


@by_type(inline=True)
def _bound_of(space, near, bound):
    """Return the bound beyond which candidates are dropped, in the units of their lower bounds.

    `bound` is the bound of local distances, `near` that of distances in the world.
    """
    if space.instance_class is TreeSpace:
        return lambda space, near, bound: bound
    # More, as rounding may raise lower bounds when they are converted to distances in the world.
    return lambda space, near, bound: near * (1.0 + 2.0**-48) + 1e-323


@inlined
def keep_near(space, scratch, count, near, bound):
    """Drop candidates with bounds above `near` (`bound` in a `TreeSpace`); return how many stay."""
    # Without a branch: each candidate is stored, and overwritten by the next unless it is kept.
    bound = _bound_of(space, near, bound)
    left = np.int64(0)
    for i in range(count):
        low = simd.peek(scratch.bounds, i)
        simd.poke(scratch.bounds, left, low)
        simd.poke(scratch.names, left, simd.peek(scratch.names, i))
        left += np.int64(low <= bound)
    return left


@inlined
def _insert(rows, d, name):
    """Insert (d, name) into sorted rows and drop the last row, unless a row has this name."""
    # A split triangle is met in several leaves.
    distance, names, k = rows.distance, rows.names, rows.k - 1
    for i in range(rows.k):
        if simd.peek(names, i) == name:
            return
    while k > 0 and (simd.peek(distance, k - 1), simd.peek(names, k - 1)) > (d, name):
        simd.poke(distance, k, simd.peek(distance, k - 1))
        simd.poke(names, k, simd.peek(names, k - 1))
        k -= 1
    simd.poke(distance, k, d)
    simd.poke(names, k, name)


@inlined
def insert_nearer(rows, d, name):
    """Insert (d, name), a distance and a name, into `rows` if it comes before the last row."""
    worst, last = simd.peek(rows.distance, rows.k - 1), simd.peek(rows.names, rows.k - 1)
    if d < worst or (d == worst and name < last):
        _insert(rows, d, name)


@kernel
def insert_group(primitives, ids, base, at, bits, p, rows):
    """Insert the triangles of a group, in the lanes `bits`, that come before the last of `rows`.

    The group's ids begin at `ids[at]` (-1: no triangle); names are `base` with ids in the low bits.
    """
    stay_outlined()
    for lane in range(WIDTH):
        prim = simd.peek(ids, at + lane)
        if bits >> lane & 1 == 0 or prim < 0:
            continue
        name = base | np.int64(prim)
        face = corners(primitives, name)
        if not distance_bounds(p, *face)[0] > simd.peek(rows.distance, rows.k - 1):
            insert_nearer(rows, nearest_on_triangle(p, *face)[0], name)


@inlined
def _insert_group(space, group, bits, p, rows):
    """Insert the triangles of a group, in the lanes `bits`, that come before the last of `rows`."""
    tree = space.tree
    insert_group(tree.primitives, tree.ids, space.base, ids_at(space, group), bits, p, rows)
