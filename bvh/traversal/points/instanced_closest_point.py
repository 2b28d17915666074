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
from bvh.runtime.tuple_references import as_pointers, makes_pointers_of
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
    mask: int  # groups of instances and faces that count


class TopSpace(NamedTuple):
    """The TLAS of a scene with a point; fields are those of `TreeSpace` and of `DoubleSpace`."""

    tree: TreePointers
    scale: float
    target: SceneTarget
    # For `walk_float32`:
    point: Lanes
    box_error: float
    # For `walk_float64`:
    x: Point
    weights: Point
    lost: float


@makes_pointers_of(SceneTarget)
def _scene_pointers(arrays):
    """Return a `SceneTarget` of pointers, as kernels read it."""
    return SceneTarget(as_pointers(arrays.tree), pointer(arrays.metrics), arrays.mask)


def _top_space(target, x, reach):
    """Return the space of a scene's TLAS for both walks, in float32 and in float64.

    x is the point in the frame of the TLAS, `reach` its largest absolute coordinate.
    """
    tree = target.tree
    return TopSpace(
        tree, frames.scale(tree.frame), target, spread_point(x), BOX_ERROR * reach + 1e-30,
        x, EVEN, 2.0**-49 * reach,
    )  # fmt: skip


SPACES[SceneTarget] = _top_space, _top_space


@inlined
def _instance_space(instanced, metric, leaf, seen, mask):
    """Return the `InstanceSpace` of the tree of a TLAS's leaf, for faces that pass `mask`.

    `metric` is the leaf's row of `world_metric`, and `seen` the point as `seen_from` returns it.
    """
    q, reach, lost, _ = seen
    error = TRIANGLE_ERROR * reach + lost + 1e-30
    return InstanceSpace(
        pointers_at(row_of(instanced, leaf), instanced), code_of(leaf, 0), peek(metric, SCALE),
        spread_point(q), INSTANCE_BOX_ERROR * reach + lost + 1e-30, F(error * UP), mask, metric,
    )  # fmt: skip


@inlined
def instance_double_space(instanced, metric, leaf, seen, mask):
    """Return the `DoubleSpace` of the tree of a leaf; arguments are as in `_instance_space`."""
    q, reach, lost, _ = seen
    return DoubleSpace(
        pointers_at(row_of(instanced, leaf), instanced), code_of(leaf, 0), peek(metric, SCALE), q,
        vector(metric, WEIGHTS // 3), lost + 2.0**-49 * reach, mask,
    )  # fmt: skip


@kernel
def _closest_in_leaf(target, goal, near, scratch, p, x, leaf, base):
    """Traverse the tree of a leaf of the TLAS for the closest triangle; return (near, goal).

    `target` is the `SceneTarget`, `goal` a `Candidates`, and `near` the upper bound of the
    distance. p is the point in the world, x in the frame of the TLAS; the stack is free from `base`
    on.
    """
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    seen = seen_from(instanced, metric, leaf, x)
    # The last item tells whether float32 is accurate enough.
    if seen[3]:
        space = _instance_space(instanced, metric, leaf, seen, target.mask)
        near, _, goal = point_walks.walk_instance_float32(space, goal, near, scratch, p, base)
        return near, goal
    # The search in float64 keeps only the closest triangle so far: measure the candidates now.
    so_far = point_walks.measure(instanced, scratch, goal.stored, p, goal.so_far)
    return _closest_in_doubles(target, scratch, p, x, leaf, base, so_far)


@kernel
def _closest_in_doubles(target, scratch, p, x, leaf, base, so_far):
    """Traverse the tree of a leaf as `_closest_in_leaf` does, in float64; return (near, goal).

    `so_far` is (distance, name, u, v) of the closest triangle so far; no candidates are left.
    """
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
    """Traverse the tree of a leaf of the TLAS for the k nearest triangles; return (near, rows).

    `rows` is a `Rows`, and `near` the upper bound of the distance. p is the point in the world, x
    in the frame of the TLAS; the stack is free from `base` on.
    """
    stay_outlined()
    instanced, metric = target.tree.primitives, shifted(target.metrics, leaf * METRIC_SIZE)
    seen = seen_from(instanced, metric, leaf, x)
    # The last item tells whether float32 is accurate enough.
    if seen[3]:
        space = _instance_space(instanced, metric, leaf, seen, target.mask)
        near, _, _ = point_walks.walk_instance_float32(space, rows, near, scratch, p, base)
        return near, rows
    double_space = instance_double_space(instanced, metric, leaf, seen, target.mask)
    return point_walks.walk_instance_float64(double_space, rows, near, scratch, p, base)


def _visiting(in_leaf: Dispatcher) -> Callable[..., object]:
    """Return the function `visit` of a TLAS, which traverses the tree of a leaf by `in_leaf`."""

    def visit(space, goal, near, limits, scratch, p, code, top):
        """Traverse the tree of a leaf of the TLAS, by its code, if the leaf passes the mask.

        Returns the new (near, limits, goal). `space` is a `TopSpace`; other arguments are those of
        `point_walks.visit`. The old `limits` are not used, as they follow from `near`.
        """
        tree, mask = space.tree, space.target.mask
        # The code of a leaf has the row in `ids` with the number of the leaf in the scene.
        leaf = np.int64(peek(tree.ids, ~code >> LEAF_BITS))
        if peek(tree.primitives.masks, leaf) & mask != 0:
            near, goal = in_leaf(space.target, goal, near, scratch, p, space.x, leaf, top)
        return near, point_walks.limits_of(space, near), goal

    return visit


VISITS[TopSpace, Candidates] = _visiting(_closest_in_leaf)
VISITS[TopSpace, Rows] = _visiting(_nearest_in_leaf)
