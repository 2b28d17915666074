"""Queries for kernels of NVIDIA Warp: functions to call inside your own, and trees on devices.

For a lidar in a simulator, ambient occlusion, or any kernel whose next query depends on the last.
The functions take the `target` of a `DeviceBVH` or `DeviceScene`, which `BVH.to` and `Scene.to`
return. If the `state` of a result is 0, it is that of the tree's own query, bit for bit. If it is
1, the device has not decided, which is rare, and the other fields are meaningless; the tree's query
would use the CPU. `any_hit` has no state, and returns False where it is undecided. A ray or point
near more than 32 triangles that it may meet first, such as those around one vertex, is undecided.

Products and sums must not be fused: set ``fuse_fp`` to False for the module of a kernel that calls
them, as in the example; otherwise `state` is always 2. They have no adjoints: set
``enable_backward`` to False.

It needs Warp: ``pip install "raybvh[gpu]"``.

Examples
--------
>>> import numpy as np
>>> import trimesh
>>> import warp as wp
>>> import bvh
>>> import bvh.warp

In a file of your own, its kernels stand like this:

>>> wp.set_module_options({"fuse_fp": False, "enable_backward": False})  # doctest: +SKIP
>>> @wp.kernel  # doctest: +SKIP
... def lidar(
...     room: bvh.warp.Target, beams: wp.array(dtype=wp.vec3d), ranges: wp.array(dtype=wp.float64)
... ):
...     i = wp.tid()
...     eye, near, far = wp.vec3d(), wp.float64(0.1), wp.float64(100.0)
...     hit = bvh.warp.closest_hit(room, eye, beams[i], near, far)
...     blind = bvh.warp.any_hit(room, eye, beams[i], wp.float64(0.0), near)
...     walls = bvh.warp.count_hits(room, eye, beams[i], near, far).count
...     nearby = bvh.warp.closest_point(room, eye, far).distance
...     ranges[i] = wp.where(blind, near, hit.t)
>>> room = bvh.BVH.from_mesh(trimesh.creation.box()).to("cuda")  # doctest: +SKIP
>>> wp.launch(lidar, len(beams), inputs=[room.target, beams, ranges])  # doctest: +SKIP
"""

from typing import Any

from bvh.runtime.registry import extra

with extra("gpu", "bvh.warp needs NVIDIA Warp"):
    import warp as wp

from bvh.devices.exact.floats import INF, is_contracted
from bvh.devices.exact.measures import exact_distance, exact_measures
from bvh.devices.exact.point_triangle import nearest_on_triangle
from bvh.devices.exact.triangles import triangle_side
from bvh.devices.layout import STACK, Target
from bvh.devices.stages import marks
from bvh.devices.stages.chain import LARGE_STACK
from bvh.devices.stages.decide import decide_function, measure_function
from bvh.devices.stages.points import point_decide_function, point_search_function
from bvh.devices.stages.search import search_function
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery, Work
from bvh.devices.trees import DeviceBVH, DeviceScene

__all__ = [
    "Count", "DeviceBVH", "DeviceScene", "Hit", "Near", "Target", "any_hit", "closest_hit",
    "closest_point", "count_hits",
]  # fmt: skip
__dir__ = __all__.copy

# Most candidates of a ray or point; one that has more is undecided.
CAPACITY = 32


@wp.struct
class Hit:
    """The closest hit of a ray; prim_id and leaf -1 and t inf for a miss."""

    t: wp.float64
    u: wp.float64
    v: wp.float64
    prim_id: wp.int32
    leaf: wp.int32  # the leaf of a scene, 0 in a single tree
    front: wp.int32  # 1 if the ray comes from the side of the normal, else 0
    count: wp.int32  # hits of `count_hits`; for `any_hit` 1 or 0
    # 0: decided. 1: undecided, 2: the module fuses products and sums: other fields are invalid.
    state: wp.int32


@wp.struct
class Count:
    """The number of hits of a ray; `state` is as in `Hit`."""

    count: wp.int32
    state: wp.int32


@wp.struct
class Near:
    """The closest point; prim_id -1 and distance inf if there is none; `state` is as in `Hit`."""

    distance: wp.float64
    u: wp.float64
    v: wp.float64
    prim_id: wp.int32
    state: wp.int32


def _array_of(kind: Any) -> Any:
    """Return a function that turns an array in a thread's own memory into one of type `kind`.

    In a kernel, `wp.zeros` returns an array of a type of its own, which fields of structs do not
    take; as an argument of a function it is converted.
    """

    @wp.func
    def view(memory: kind):
        """Return the same array."""
        return memory

    return view


_reals, _vectors = _array_of(wp.array(dtype=wp.float64)), _array_of(wp.array(dtype=wp.vec3d))
_ints, _table = _array_of(wp.array(dtype=wp.int32)), _array_of(wp.array2d(dtype=wp.int32))
_bounds = _array_of(wp.array2d(dtype=wp.float32))
_longs, _flags = _array_of(wp.array(dtype=wp.int64)), _array_of(wp.array(dtype=wp.bool))


def _tracer(every_hit: bool) -> Any:
    """Return the function `trace` below: all stages for one ray, in the thread's own memory.

    With `every_hit` the function counts hits, otherwise it finds the closest hit or any hit.
    """
    # True: each stage serves scenes, too; False: `measure` serves no lists.
    search = search_function(LARGE_STACK, True, every_hit)
    decide = decide_function(triangle_side, exact_distance, True)
    measure = measure_function(exact_measures, True, False)

    @wp.func
    def trace(
        target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64,
        t_max: wp.float64, goal: wp.int32,
    ):  # fmt: skip
        """Return the `Hit` of a ray for the goal CLOSEST, ANY or COUNT of `marks`.

        Only CLOSEST fills t, u, v, prim_id, leaf and front; ANY and COUNT fill `count`. The range
        of the ray is t_min to t_max, in lengths of `direction`.
        """
        hit = Hit()
        hit.t = INF
        hit.prim_id = -1
        hit.leaf = -1
        if is_contracted(target.probe):
            hit.state = 2
            return hit
        query, rays, work, columns = RayQuery(), DeviceRays(), Work(), Columns()
        query.goal = goal
        query.once = wp.where(goal == marks.COUNT, 1, 0)
        # All arrays are for one ray; the mask -1 has all bits.
        rays.origins = _vectors(wp.zeros(shape=1, dtype=wp.vec3d))
        rays.directions = _vectors(wp.zeros(shape=1, dtype=wp.vec3d))
        rays.t_min = _reals(wp.zeros(shape=1, dtype=wp.float64))
        rays.t_max = _reals(wp.zeros(shape=1, dtype=wp.float64))
        rays.mask = _ints(wp.zeros(shape=1, dtype=wp.int32))
        rays.origins[0] = origin
        rays.directions[0] = direction
        rays.t_min[0] = t_min
        rays.t_max[0] = t_max
        rays.mask[0] = -1
        work.outcome = _ints(wp.zeros(shape=1, dtype=wp.int32))
        work.candidate_count = _ints(wp.zeros(shape=1, dtype=wp.int32))
        work.candidates = _table(wp.zeros(shape=(CAPACITY, 1), dtype=wp.int32))
        work.leaves = _table(wp.zeros(shape=(CAPACITY, 1), dtype=wp.int32))
        columns.counts = _longs(wp.zeros(shape=1, dtype=wp.int64))
        queue = search(target, rays, query, work, columns, 0)
        decided = queue == marks.NO_QUEUE
        crowded = queue == marks.CROWDED and goal == marks.ANY
        if crowded:
            # The search has counted more candidates than it could list.
            work.candidate_count[0] = CAPACITY
        if crowded or queue == marks.DECIDE:
            decided = decide(target, rays, query, work, columns, 0)
            # A hit of a listed candidate answers `any_hit`; misses of all listed ones do not.
            decided = decided and not (crowded and work.outcome[0] == marks.MISSED)
        hit.count = wp.int32(columns.counts[0])
        if goal == marks.CLOSEST and decided and work.outcome[0] != marks.MISSED:
            columns.t = _reals(wp.zeros(shape=1, dtype=wp.float64))
            columns.u = _reals(wp.zeros(shape=1, dtype=wp.float64))
            columns.v = _reals(wp.zeros(shape=1, dtype=wp.float64))
            columns.prim_id = _ints(wp.zeros(shape=1, dtype=wp.int32))
            columns.leaf = _ints(wp.zeros(shape=1, dtype=wp.int32))
            columns.instance_id = _ints(wp.zeros(shape=1, dtype=wp.int32))
            columns.front = _flags(wp.zeros(shape=1, dtype=wp.bool))
            decided = measure(target, rays, query, work, columns, 0)
            hit.t = columns.t[0]
            hit.u = columns.u[0]
            hit.v = columns.v[0]
            hit.prim_id = columns.prim_id[0]
            hit.leaf = columns.leaf[0]
            hit.front = wp.where(columns.front[0], 1, 0)
        if goal == marks.ANY and decided and work.outcome[0] != marks.MISSED:
            hit.count = 1
        hit.state = wp.where(decided, 0, 1)
        return hit

    return trace


_trace_first, _trace_all = _tracer(False), _tracer(True)


@wp.func
def closest_hit(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return the closest hit of a ray, a `Hit`: t, prim_id, u, v, front, leaf, state."""
    return _trace_first(target, origin, direction, t_min, t_max, marks.CLOSEST)


@wp.func
def any_hit(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return whether a ray hits anything; False, too, if it is undecided."""
    return _trace_first(target, origin, direction, t_min, t_max, marks.ANY).count > 0


@wp.func
def count_hits(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return how often a ray crosses the surface, as a `Count`; once at a shared edge or vertex."""
    hit, found = _trace_all(target, origin, direction, t_min, t_max, marks.COUNT), Count()
    found.count = hit.count
    found.state = hit.state
    return found


_search_points = point_search_function(STACK)
_decide_points = point_decide_function(nearest_on_triangle)


@wp.func
def closest_point(target: Target, point: wp.vec3d, max_distance: wp.float64):
    """Return the closest point of a tree, within `max_distance`: a `Near`.

    It is (1-u-v) v0 + u v1 + v v2 of the triangle `prim_id`. In scenes, points are undecided.
    """
    near = Near()
    near.prim_id = -1
    near.distance = INF
    if is_contracted(target.probe):
        near.state = 2
        return near
    query, rays, work, columns = RayQuery(), DeviceRays(), Work(), Columns()
    rays.origins = _vectors(wp.zeros(shape=1, dtype=wp.vec3d))
    rays.t_max = _reals(wp.zeros(shape=1, dtype=wp.float64))
    rays.mask = _ints(wp.zeros(shape=1, dtype=wp.int32))
    rays.origins[0] = point
    rays.t_max[0] = max_distance
    rays.mask[0] = -1
    work.candidate_count = _ints(wp.zeros(shape=1, dtype=wp.int32))
    work.candidates = _table(wp.zeros(shape=(CAPACITY, 1), dtype=wp.int32))
    work.lows = _bounds(wp.zeros(shape=(CAPACITY, 1), dtype=wp.float32))
    columns.distance = _reals(wp.zeros(shape=1, dtype=wp.float64))
    columns.u = _reals(wp.zeros(shape=1, dtype=wp.float64))
    columns.v = _reals(wp.zeros(shape=1, dtype=wp.float64))
    columns.prim_id = _ints(wp.zeros(shape=1, dtype=wp.int32))
    columns.position = _vectors(wp.zeros(shape=1, dtype=wp.vec3d))
    queue = _search_points(target, rays, query, work, columns, 0)
    decided = queue == marks.NO_QUEUE
    if queue == marks.DECIDE:
        decided = _decide_points(target, rays, query, work, columns, 0)
    near.distance = columns.distance[0]
    near.u = columns.u[0]
    near.v = columns.v[0]
    near.prim_id = columns.prim_id[0]
    near.state = wp.where(decided, 0, 1)
    return near
