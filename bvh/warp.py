"""Queries for kernels of NVIDIA Warp: functions to call inside your own, and trees on devices.

For a lidar in a simulator, ambient occlusion, or any kernel whose next query depends on the last.
They take the `target` of a `DeviceBVH` or `DeviceScene`, which `BVH.to` and `Scene.to` return, and
give for one ray or point what those give for many, bit for bit, where `state` is 0. Where it is 1
the device has not decided, which is rare, and the other results are meaningless; `DeviceBVH` then
uses the CPU. `any_hit` and `count_hits` return False and 0 then, or the hits so far.

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
...     walls = bvh.warp.count_hits(room, eye, beams[i], near, far)
...     nearby = bvh.warp.closest_point(room, eye, far).distance
...     ranges[i] = wp.where(blind, near, hit.t)
>>> room = bvh.BVH.from_mesh(trimesh.creation.box()).to("cuda")  # doctest: +SKIP
>>> wp.launch(lidar, len(beams), inputs=[room.target, beams, ranges])  # doctest: +SKIP
"""

from bvh.runtime.registry import extra

with extra("gpu", "bvh.warp needs NVIDIA Warp"):
    import warp as wp

from bvh.devices.layout import Target
from bvh.devices.searches import points, rays
from bvh.devices.trees import DeviceBVH, DeviceScene

__all__ = [
    "DeviceBVH", "DeviceScene", "Hit", "Near", "Target", "any_hit", "closest_hit", "closest_point",
    "count_hits",
]  # fmt: skip
__dir__ = __all__.copy

Hit, Near = rays.Hit, points.Near


@wp.func
def _query(t_min: wp.float64, t_max: wp.float64, goal: wp.int32, once: wp.int32):
    """Return the mode and the range of a ray, for all faces."""
    query = rays.RayQuery()
    query.t_min = t_min
    query.t_max = t_max
    query.mask = -1
    query.goal = goal
    query.once = once
    return query


@wp.func
def closest_hit(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return the closest hit of a ray: t, prim_id, u, v, front, leaf, state."""
    query = _query(t_min, t_max, rays.CLOSEST, 0)
    return rays.trace(target, origin, direction, query, rays.HitList())


@wp.func
def any_hit(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return whether a ray hits anything."""
    query = _query(t_min, t_max, rays.ANY, 0)
    return rays.trace(target, origin, direction, query, rays.HitList()).prim_id >= 0


@wp.func
def count_hits(
    target: Target, origin: wp.vec3d, direction: wp.vec3d, t_min: wp.float64, t_max: wp.float64
):  # fmt: skip
    """Return how often a ray crosses a surface, shared edges once."""
    query = _query(t_min, t_max, rays.COUNT, 1)
    return rays.trace(target, origin, direction, query, rays.HitList()).count


@wp.func
def closest_point(target: Target, point: wp.vec3d, max_distance: wp.float64):
    """Return the closest point of a tree: distance, prim_id, u, v, state."""
    return points.closest_to(target, point, max_distance, -1)
