"""Closest points in a scene: its TLAS, and distances in the frames of its BLAS.

The leaves of the TLAS are visited like nodes, and the tree of a leaf is traversed to its end on the
same stack, in its own local frame, where distances are transformed to those of the world (see
`world_metric`). Triangles that may be near enough are measured on their moved vertices.

A leaf for which float32 is too inaccurate is traversed in float64, with the weights of
`world_metric`, and an error of 2**-49 of the point's `reach` beside that of the map.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, pointer, poke, shifted
from bvh.runtime.tuple_references import Pointer, as_pointers, pointers_of
from bvh.traversal.points import point_walks
from bvh.traversal.points.closest_point import SPACES
from bvh.traversal.points.counted_faces import CountedFaces
from bvh.traversal.points.point_bounds import BOX_ERROR, EVEN, UP, Lanes, Point, spread_point
from bvh.traversal.points.point_walks import VISITS, Candidates, DoubleSpace, InstanceSpace, Rows
from bvh.traversal.points.world_metric import BOX_ERROR as INSTANCE_BOX_ERROR
from bvh.traversal.points.world_metric import METRIC_SIZE, SCALE, TRIANGLE_ERROR, WEIGHTS, seen_from
from bvh.tree import frame as frames
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers, TreeRow
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

    blocks: Pointer[np.float32]
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
    tree = target.tree
    return TopSpace(
        tree.blocks, frames.scale(tree.frame), target, spread_point(x), BOX_ERROR * reach + 1e-30,
        x, EVEN, 2.0**-49 * reach,
    )  # fmt: skip


SPACES[SceneTarget] = _top_space, _top_space


@inlined
def _leaf_at(target, code):
    """Return the leaf of a code of the TLAS, -1 where the mask excludes it."""
    leaf = np.int64(peek(target.tree.ids, ~code >> LEAF_BITS))
    return leaf if peek(target.tree.primitives.masks, leaf) & target.mask != 0 else np.int64(-1)


def _visit_for_closest(space, goal, near, limits, scratch, p, code, top):
    leaf = _leaf_at(space.target, code)
    if leaf >= 0:
        near, goal = _closest_in_leaf(space.target, goal, near, scratch, p, space.x, leaf, top)
    return near, point_walks.limits_of(space, near), goal


def _visit_for_nearest(space, goal, near, limits, scratch, p, code, top):
    leaf = _leaf_at(space.target, code)
    if leaf >= 0:
        near = _nearest_in_leaf(space.target, goal, near, scratch, p, space.x, leaf, top)
    return near, point_walks.limits_of(space, near), goal


VISITS[TopSpace, Candidates] = _visit_for_closest
VISITS[TopSpace, Rows] = _visit_for_nearest


@inlined
def _counted_faces(row, mask):
    """Return which faces of a tree count, by its row."""
    return CountedFaces(tree_rows.bits(row), tree_rows.has_bits(row), mask)


@inlined
def _instance_space(instanced, metric, leaf, seen, mask):
    """Return the tree of a leaf; `seen` is what `seen_from` returns."""
    q, reach, lost, _ = seen
    error, row = TRIANGLE_ERROR * reach + lost + 1e-30, row_of(instanced, leaf)
    return InstanceSpace(
        tree_rows.blocks(row), tree_rows.groups(row), tree_rows.ids(row),
        instanced, code_of(leaf, 0), peek(metric, SCALE), spread_point(q),
        INSTANCE_BOX_ERROR * reach + lost + 1e-30, F(error * UP), _counted_faces(row, mask), metric,
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
    """Traverse the tree of a leaf for the nearest triangles; return `near`."""
    stay_outlined()
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    seen = seen_from(instanced, metric, leaf, x)
    if seen[3]:
        space = _instance_space(instanced, metric, leaf, seen, target.mask)
        return point_walks.walk_instance_float32(space, rows, near, scratch, p, base)[0]
    q, reach, lost, _ = seen
    weights = peek(metric, WEIGHTS), peek(metric, WEIGHTS + 1), peek(metric, WEIGHTS + 2)
    row = row_of(instanced, leaf)
    space = DoubleSpace(
        tree_rows.blocks(row), tree_rows.ids(row), instanced, code_of(leaf, 0),
        peek(metric, SCALE), q, weights, lost + 2.0**-49 * reach,
        _counted_faces(row, target.mask),
    )  # fmt: skip
    return point_walks.walk_instance_float64(space, rows, near, scratch, p, base)[0]
