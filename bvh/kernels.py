"""Queries for your own compiled loops, one ray or point at a time.

Each function here is to be called from a function that is compiled with `numba.njit`, on the
`arrays` of a tree. Rays are checked like those of a batch: one that is not finite, or has no
direction, misses. Nothing is allocated, but by the exact test where it is asked, and any number of
threads may ask at once.

Examples
--------
A loop that follows rays from mirror to mirror cannot be asked in batches of known rays:

>>> import bvh, numba, numpy as np
>>> from bvh import kernels
>>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
>>> @numba.njit
... def how_far(arrays, origins, direction):
...     total = 0.0
...     for i in range(len(origins)):
...         t, prim_id, u, v, front = kernels.closest_hit(arrays, origins[i], direction)
...         if prim_id >= 0:
...             total += t
...     return total
>>> how_far(tree.arrays, np.array([[1.0, 1.0, 2.0], [1.0, 2.0, 3.0]]), (0.0, 0.0, -1.0))
5.0
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from bvh.arguments import kernel_input
from bvh.arrays import build
from bvh.jit import TypingError, by_type, entry, types, warms
from bvh.numerics import INF
from bvh.primitives import Triangles
from bvh.references import borrowed, stack_memory
from bvh.simd import peek, pointer, pointer_to, poke
from bvh.traversal.closest_point import TreeTarget, nearest_to
from bvh.traversal.goals import Kept, Nearest, Ranked
from bvh.traversal.one_ray import EVERY, SCRATCH_BYTES, cast, trace_alone
from bvh.traversal.point_walks import NOBODY
from bvh.traversal.points_scratch import SCRATCH_BYTES as POINT_BYTES
from bvh.traversal.points_scratch import scratch_at
from bvh.traversal.query import pointed_tree

# With room for what a goal writes, on a cache line of its own.
GOAL = (SCRATCH_BYTES + 63) // 64 * 64
BYTES = GOAL + 128


def closest_hit(
    arrays: Any, origin: Any, direction: Any, t_min: float = 0.0, t_max: float = INF
) -> tuple[float, int, float, float, bool]:
    """Find the nearest hit of a ray.

    Parameters
    ----------
    arrays : TreeArrays
        The `arrays` of a tree.
    origin, direction : array or tuple of three float64
    t_min, t_max : float64

    Returns
    -------
    t, prim_id, u, v, front
        As in `BVH.closest_hit`.
    """
    _not_compiled("closest_hit")


def any_hit(
    arrays: Any, origin: Any, direction: Any, t_min: float = 0.0, t_max: float = INF
) -> bool:
    """Tell whether a ray hits anything.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        As in `closest_hit`.

    Returns
    -------
    bool
    """
    _not_compiled("any_hit")


def first_hits(
    arrays: Any, origin: Any, direction: Any, t_min: float, t_max: float, t: Any, prim_id: Any
) -> int:
    """Find as many of the nearest hits of a ray as there is room for, sorted by t and prim_id.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        As in `closest_hit`.
    t : ndarray of float64, shape (k,), C-contiguous
        Filled with the distances of hits, nearest first.
    prim_id : ndarray of int32, shape (k,), C-contiguous
        Filled with what is hit.

    Returns
    -------
    int
        The number of hits, at most k.
    """
    _not_compiled("first_hits")


def visit_hits(
    arrays: Any, origin: Any, direction: Any, t_min: float, t_max: float, visit: Any, data: Any
) -> bool:
    """Call a function for every hit of a ray, in no particular order, until it says stop.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        As in `closest_hit`.
    visit : function compiled with numba.njit
        ``visit(ray_id, prim_id, t, u, v, data) -> bool``, like a filter; ray_id is 0. It ends the
        search by returning True. It may write to `data`. In a tree of quality "high", which holds
        some triangles more than once, it may be called again for the same hit.
    data : object
        What `visit` is given as its last argument.

    Returns
    -------
    bool
        Whether `visit` has ended the search.
    """
    _not_compiled("visit_hits")


def closest_point(
    arrays: Any, point: Any, max_distance: float = INF
) -> tuple[float, int, float, float]:
    """Find the nearest point of a tree over triangles.

    Parameters
    ----------
    arrays : TreeArrays
        The `arrays` of a tree over triangles.
    point : array or tuple of three float64
    max_distance : float64
        As in `BVH.closest_point`.

    Returns
    -------
    distance, prim_id, u, v
        As in `BVH.closest_point`; the nearest point is (1-u-v) v0 + u v1 + v v2.
    """
    _not_compiled("closest_point")


def _not_compiled(name: str) -> NoReturn:
    raise TypeError(f"kernels.{name} must be called from a function compiled with numba.njit")


@entry
def _cast(arrays, ox, oy, oz, dx, dy, dz, t_min, t_max):
    if len(arrays.nodes.blocks) == 0:
        return INF, np.int64(-1), np.nan, np.nan, False
    memory = stack_memory(SCRATCH_BYTES)
    tree, cull = pointed_tree(arrays), np.int64(0)
    t, prim, u, v, front = cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull)
    return t, np.int64(prim), u, v, front


@entry
def _is_hit(arrays, ox, oy, oz, dx, dy, dz, t_min, t_max):
    if len(arrays.nodes.blocks) == 0:
        return False
    memory = stack_memory(SCRATCH_BYTES)
    goal = Nearest(True, np.int64(0))
    tree = pointed_tree(arrays)
    return trace_alone(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, EVERY, goal) >= 0


@entry
def _rank(arrays, ox, oy, oz, dx, dy, dz, t_min, t_max, t, prim_id):
    most = np.int64(min(len(t), len(prim_id)))
    if len(arrays.nodes.blocks) == 0 or most == 0:
        return np.int64(0)
    memory = stack_memory(BYTES)
    counts = pointer_to(memory + (-memory & 63) + GOAL, np.int64(0))
    poke(counts, 0, 0)
    kept = Kept(pointer(t), pointer(prim_id), counts)
    none = np.int64(0)
    goal = Ranked(False, none, False, most, none, none, kept)
    trace_alone(pointed_tree(arrays), memory, ox, oy, oz, dx, dy, dz, t_min, t_max, EVERY, goal)
    return peek(counts, 0)


@entry
def _visit(arrays, ox, oy, oz, dx, dy, dz, t_min, t_max, visit, data):
    if len(arrays.nodes.blocks) == 0:
        return False
    memory = stack_memory(BYTES)
    spare = memory + (-memory & 63) + GOAL
    counts = pointer_to(spare, np.int64(0))
    poke(counts, 0, 0)
    # The hit that ends the search is the only one that is kept.
    kept = Kept(pointer_to(spare + 8, 0.0), pointer_to(spare + 16, np.int32(0)), counts)
    goal = Ranked(True, np.int64(0), False, np.int64(1), visit, borrowed(data), kept)
    trace_alone(pointed_tree(arrays), memory, ox, oy, oz, dx, dy, dz, t_min, t_max, EVERY, goal)
    return peek(counts, 0) > 0


@entry
def _approach(arrays, x, y, z, limit):
    if len(arrays.nodes.blocks) == 0:
        return INF, np.int64(-1), np.nan, np.nan
    scratch = scratch_at(stack_memory(POINT_BYTES))
    target = TreeTarget(pointed_tree(arrays))
    distance, prim, u, v = nearest_to(target, scratch, (x, y, z), limit)
    if prim == NOBODY:
        return INF, np.int64(-1), np.nan, np.nan
    return distance, np.int64(prim), u, v


@by_type(closest_point)
def _compile_closest_point(arrays, point, max_distance=INF):
    def call(arrays, point, max_distance=INF):
        return _approach(
            arrays, float(point[0]), float(point[1]), float(point[2]), float(max_distance)
        )

    return call


@by_type(closest_hit)
def _compile_closest_hit(arrays, origin, direction, t_min=0.0, t_max=INF):
    def call(arrays, origin, direction, t_min=0.0, t_max=INF):
        return _cast(
            arrays, float(origin[0]), float(origin[1]), float(origin[2]), float(direction[0]),
            float(direction[1]), float(direction[2]), float(t_min), float(t_max),
        )  # fmt: skip

    return call


@by_type(any_hit)
def _compile_any_hit(arrays, origin, direction, t_min=0.0, t_max=INF):
    def call(arrays, origin, direction, t_min=0.0, t_max=INF):
        return _is_hit(
            arrays, float(origin[0]), float(origin[1]), float(origin[2]), float(direction[0]),
            float(direction[1]), float(direction[2]), float(t_min), float(t_max),
        )  # fmt: skip

    return call


@by_type(first_hits)
def _compile_first_hits(arrays, origin, direction, t_min, t_max, t, prim_id):
    for name, array, dtype in (("t", t, types.float64), ("prim_id", prim_id, types.int32)):
        good = isinstance(array, types.Array) and (array.dtype, array.layout) == (dtype, "C")
        if not (good and array.mutable):
            raise TypingError(f"{name} must be a contiguous, writable array of {dtype}")

    def call(arrays, origin, direction, t_min, t_max, t, prim_id):
        return _rank(
            arrays, float(origin[0]), float(origin[1]), float(origin[2]), float(direction[0]),
            float(direction[1]), float(direction[2]), float(t_min), float(t_max), t, prim_id,
        )  # fmt: skip

    return call


@by_type(visit_hits)
def _compile_visit_hits(arrays, origin, direction, t_min, t_max, visit, data):
    def call(arrays, origin, direction, t_min, t_max, visit, data):
        return _visit(
            arrays, float(origin[0]), float(origin[1]), float(origin[2]), float(direction[0]),
            float(direction[1]), float(direction[2]), float(t_min), float(t_max), visit, data,
        )  # fmt: skip

    return call


@warms("kernels")
def _warm() -> None:
    """Compile what users' loops call."""
    points, faces = kernel_input(np.eye(3)), np.arange(3, dtype=np.int32).reshape(1, 3)
    arrays, _ = build(Triangles(points, kernel_input(faces)), "medium", 1, None)
    ray = 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0, INF
    _cast(arrays, *ray)
    _is_hit(arrays, *ray)
    _approach(arrays, 1.0, 1.0, 1.0, INF)
    _rank(arrays, *ray, np.empty(1), np.empty(1, np.int32))
