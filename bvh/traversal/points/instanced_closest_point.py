"""Closest points in a scene: its TLAS, and distances in the frames of its BLAS.

The leaves of the TLAS are visited like nodes, and the tree of a leaf is traversed to its end on the
same stack, in its own local frame, where distances are transformed to those of the world (see
`world_metric`). Triangles that may be near enough are measured on their moved vertices.

A leaf for which float32 is too inaccurate is traversed in float64, with the weights of
`world_metric`, and an error of 2**-49 of the point's `reach` added to that of the map.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.jit import Dispatcher, inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, pointer, poke, shifted
from bvh.runtime.tuple_references import as_pointers, pointers_of
from bvh.traversal.points import point_walks
from bvh.traversal.points.closest_point import SPACES
from bvh.traversal.points.point_bounds import BOX_ERROR, EVEN, UP, Lanes, Point, spread_point
from bvh.traversal.points.point_walks import VISITS, Candidates, DoubleSpace, InstanceSpace, Rows
from bvh.traversal.points.world_metric import BOX_ERROR as INSTANCE_BOX_ERROR
from bvh.traversal.points.world_metric import METRIC_SIZE, SCALE, TRIANGLE_ERROR, WEIGHTS, seen_from
from bvh.tree import frame as frames
from bvh.tree.arrays import TreePointers, TreeRow, pointers_at
from bvh.tree.instanced import code_of, instanced_corners, row_of
from bvh.tree.wide_nodes import LEAF_BITS

F = np.float32


class SceneTarget(NamedTuple):
    """A scene, as point queries take it."""

    tree: TreeRow | TreePointers  # the TLAS
    metrics: NDArray[np.float64]  # a row for each leaf: see `world_metric`
    mask: int


class TopSpace(NamedTuple):
    """The TLAS of a scene, for `walk_float32` and, by the last three, for `walk_float64`."""

    tree: TreePointers
    scale: float
    target: SceneTarget
    point: Lanes
    box_error: float
    x: Point
    weights: Point
    lost: float


@pointers_of(SceneTarget)
def _scene_pointers(arrays):
    return SceneTarget(as_pointers(arrays.tree), pointer(arrays.metrics), arrays.mask)


def _top_space(target, x, reach):
    """Return the `TopSpace` of x, a point in the frame of the TLAS; `reach` is max(abs(x))."""
    tree = target.tree
    return TopSpace(
        tree, frames.scale(tree.frame), target, spread_point(x), BOX_ERROR * reach + 1e-30,
        x, EVEN, 2.0**-49 * reach,
    )  # fmt: skip


SPACES[SceneTarget] = _top_space, _top_space


@inlined
def _instance_space(instanced, metric, leaf, seen, mask):
    """Return the space of a leaf's tree; `seen` is what `seen_from` returns."""
    q, reach, lost, _ = seen
    error = TRIANGLE_ERROR * reach + lost + 1e-30
    return InstanceSpace(
        pointers_at(row_of(instanced, leaf), instanced), code_of(leaf, 0), peek(metric, SCALE),
        spread_point(q), INSTANCE_BOX_ERROR * reach + lost + 1e-30, F(error * UP), mask, metric,
    )  # fmt: skip


@kernel
def _closest_in_leaf(target, goal, near, scratch, p, x, leaf, base):
    """Traverse the tree of a leaf for the closest triangle; return (near, goal)."""
    # `x` is p in the frame of the TLAS; the stack is free from `base` on.
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    seen = seen_from(instanced, metric, leaf, x)
    if seen[3]:
        space = _instance_space(instanced, metric, leaf, seen, target.mask)
        near, _, goal = point_walks.walk_instance_float32(space, goal, near, scratch, p, base)
        return near, goal
    so_far = point_walks.measure(instanced, scratch, goal.stored, p, goal.so_far)
    return _closest_in_doubles(target, scratch, p, x, leaf, base, so_far)


@kernel
def _closest_in_doubles(target, scratch, p, x, leaf, base, so_far):
    """Run `_closest_in_leaf` in float64, after all candidates have been measured."""
    stay_outlined()
    best, name, u, v = so_far
    rows = Rows(np.int64(1), scratch.lows, scratch.closest)
    poke(rows.distance, 0, best)
    poke(rows.names, 0, name)
    _nearest_in_leaf(target, rows, best, scratch, p, x, leaf, base)
    if peek(rows.names, 0) != name:
        name = peek(rows.names, 0)
        best, u, v = nearest_on_triangle(p, *instanced_corners(target.tree.primitives, name))
    return best, Candidates(np.int64(0), (best, name, u, v))


@kernel
def _nearest_in_leaf(target, rows, near, scratch, p, x, leaf, base):
    """Traverse the tree of a leaf for the nearest triangles; return (near, rows)."""
    stay_outlined()
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    seen = seen_from(instanced, metric, leaf, x)
    if seen[3]:
        space = _instance_space(instanced, metric, leaf, seen, target.mask)
        near, _, _ = point_walks.walk_instance_float32(space, rows, near, scratch, p, base)
        return near, rows
    q, reach, lost, _ = seen
    weights = vector(metric, WEIGHTS // 3)
    space = DoubleSpace(
        pointers_at(row_of(instanced, leaf), instanced), code_of(leaf, 0), peek(metric, SCALE), q,
        weights, lost + 2.0**-49 * reach, target.mask,
    )  # fmt: skip
    return point_walks.walk_instance_float64(space, rows, near, scratch, p, base)


def _visiting(in_leaf: Dispatcher) -> Callable[..., object]:
    """Return a function that visits a leaf of a TLAS by `in_leaf`, which traverses its tree."""

    def visit(space, goal, near, limits, scratch, p, code, top):
        tree, mask = space.tree, space.target.mask
        leaf = np.int64(peek(tree.ids, ~code >> LEAF_BITS))
        if peek(tree.primitives.masks, leaf) & mask != 0:
            near, goal = in_leaf(space.target, goal, near, scratch, p, space.x, leaf, top)
        return near, point_walks.limits_of(space, near), goal

    return visit


VISITS[TopSpace, Candidates] = _visiting(_closest_in_leaf)
VISITS[TopSpace, Rows] = _visiting(_nearest_in_leaf)
