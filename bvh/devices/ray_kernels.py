"""Arrays of rays and of their answers on a device, and the kernel that lists all hits."""

import warp as wp

from bvh.devices.exact.measures import exact_measures
from bvh.devices.layout import Target
from bvh.devices.searches.moved import corners_of
from bvh.devices.searches.rays import SURE, UNSURE, HitList, RayQuery, trace

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})


@wp.struct
class DeviceRays:
    """Rays on a device; arrays of one item are for all."""

    origins: wp.array(dtype=wp.vec3d)
    directions: wp.array(dtype=wp.vec3d)
    t_min: wp.array(dtype=wp.float64)
    t_max: wp.array(dtype=wp.float64)
    mask: wp.array(dtype=wp.int32)


@wp.struct
class RayColumns:
    """Answers of ray queries on a device; arrays without items are not filled."""

    t: wp.array(dtype=wp.float64)
    u: wp.array(dtype=wp.float64)
    v: wp.array(dtype=wp.float64)
    prim_id: wp.array(dtype=wp.int32)
    leaf: wp.array(dtype=wp.int32)
    instance_id: wp.array(dtype=wp.int32)
    front: wp.array(dtype=wp.bool)
    truth: wp.array(dtype=wp.bool)
    counts: wp.array(dtype=wp.int64)
    # Where the hits of each ray begin, if they are listed.
    offsets: wp.array(dtype=wp.int64)


@wp.func
def row_of(i: int, size: int):
    """Return the row of ray i in an array, which may have one row for all."""
    return wp.where(size > 1, i, 0)


@wp.func
def ray_of(rays: DeviceRays, query: RayQuery, i: int):
    """Return (origin, direction, query) of ray i: `query`, with its own range and mask."""
    query.t_min = rays.t_min[row_of(i, rays.t_min.shape[0])]
    query.t_max = rays.t_max[row_of(i, rays.t_max.shape[0])]
    query.mask = rays.mask[row_of(i, rays.mask.shape[0])]
    o = rays.origins[row_of(i, rays.origins.shape[0])]
    return o, rays.directions[row_of(i, rays.directions.shape[0])], query


@wp.kernel
def list_hits(
    target: Target, rays: DeviceRays, query: RayQuery, columns: RayColumns,
    undecided_count: wp.array(dtype=wp.int32), undecided: wp.array(dtype=wp.int32),
):  # fmt: skip
    """List the hits of each ray; count and list the rays that the CPU must answer."""
    i = wp.tid()
    o, d, q = ray_of(rays, query, i)
    listing = HitList()
    listing.t = columns.t
    listing.prim_id = columns.prim_id
    listing.leaf = columns.leaf
    listing.first = columns.offsets[i]
    listing.capacity = columns.offsets[i + 1] - listing.first
    state = wp.int32(trace(target, o, d, q, listing).state)
    # `trace` lists t, prim_id and leaf; compute the rest for each hit.
    for j in range(wp.int32(listing.capacity)):
        k = listing.first + wp.int64(j)
        if state == SURE:
            moved, v0, v1, v2 = corners_of(target, columns.leaf[k], columns.prim_id[k])
            x = exact_measures(o, d, v0, v1, v2)
            columns.u[k] = x.u
            columns.v[k] = x.v
            columns.front[k] = x.front
            if columns.instance_id.shape[0] > 0:
                columns.instance_id[k] = target.owners[columns.leaf[k]]
            state = wp.where(moved and x.decided, SURE, UNSURE)
    if state != SURE:
        undecided[wp.atomic_add(undecided_count, 0, 1)] = i
