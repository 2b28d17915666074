"""The kernels of ray queries on a device."""

import warp as wp

from bvh.devices.exact.arithmetic import nan
from bvh.devices.exact.triangles import details
from bvh.devices.layout import Target
from bvh.devices.searches.moved import corners_of
from bvh.devices.searches.rays import LIST, SURE, UNSURE, Listing, Range, trace

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})


@wp.struct
class Rays:
    """Rays on a device; arrays of one item are for all."""

    origins: wp.array(dtype=wp.vec3d)
    directions: wp.array(dtype=wp.vec3d)
    t_min: wp.array(dtype=wp.float64)
    t_max: wp.array(dtype=wp.float64)
    mask: wp.array(dtype=wp.int32)


@wp.struct
class Columns:
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
def _row(i: int, size: int):
    """Return the row of ray i in an array, which may have one row for all."""
    return wp.where(size > 1, i, 0)


@wp.kernel
def trace_rays(
    target: Target, rays: Rays, query: Range, found: Columns, lost: wp.array(dtype=wp.int32),
    which: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Trace each ray; count the undecided ones in `lost`, and list them in `which`."""
    i = wp.tid()
    # Goal, cull and once are given; range and mask are those of the ray.
    query.t_min = rays.t_min[_row(i, rays.t_min.shape[0])]
    query.t_max = rays.t_max[_row(i, rays.t_max.shape[0])]
    query.mask = rays.mask[_row(i, rays.mask.shape[0])]
    o = rays.origins[_row(i, rays.origins.shape[0])]
    d = rays.directions[_row(i, rays.directions.shape[0])]
    here = Listing()
    if query.goal == LIST:
        here.t = found.t
        here.prim_id = found.prim_id
        here.leaf = found.leaf
        here.first = found.offsets[i]
        here.capacity = found.offsets[i + 1] - here.first
    hit = trace(target, o, d, query, here)
    state = wp.int32(hit.state)
    if query.goal == LIST:
        # A list has t, prim_id and leaf; here each hit gets the rest.
        for j in range(wp.int32(here.capacity)):
            k = here.first + wp.int64(j)
            if state == SURE:
                moved, v0, v1, v2 = corners_of(target, found.leaf[k], found.prim_id[k])
                sure, u, v, front = details(o, d, v0, v1, v2)
                found.u[k] = u
                found.v[k] = v
                found.front[k] = front
                if found.instance_id.shape[0] > 0:
                    found.instance_id[k] = target.owners[found.leaf[k]]
                state = wp.where(moved and sure, SURE, UNSURE)
    else:
        if found.counts.shape[0] > 0:
            found.counts[i] = wp.int64(hit.count)
        if found.truth.shape[0] > 0:
            found.truth[i] = hit.prim_id >= 0
        if found.t.shape[0] > 0:
            missed = hit.prim_id < 0
            found.t[i] = hit.t
            found.u[i] = wp.where(missed, nan(), hit.u)
            found.v[i] = wp.where(missed, nan(), hit.v)
            found.prim_id[i] = hit.prim_id
            found.leaf[i] = hit.leaf
            found.front[i] = hit.front != 0
            if found.instance_id.shape[0] > 0:
                found.instance_id[i] = -1
                if not missed:
                    found.instance_id[i] = target.owners[hit.leaf]
    if state != SURE:
        which[wp.atomic_add(lost, 0, 1)] = i
