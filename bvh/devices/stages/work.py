"""Structs that stages take and hand on: rays or points, queries, answers, and queues."""

import warp as wp


@wp.struct
class RayQuery:
    """Which hits of a ray count, and the query mode."""

    t_min: wp.float64
    t_max: wp.float64
    mask: wp.int32  # faces and leaves count if they share a bit with it
    cull: wp.int32  # the side that is ignored: -1 front, 1 back, 0 none
    goal: wp.int32  # CLOSEST, ANY, COUNT, LIST or NEAREST (see `marks`)
    once: wp.int32  # 1 if a ray at a shared edge or vertex crosses one of its faces, not all


@wp.struct
class DeviceRays:
    """Rays or points on a device; an array of one item is for all of them.

    Points are `origins`, and their largest distances `t_max`; they have a mask, and no other array.
    """

    origins: wp.array(dtype=wp.vec3d)
    directions: wp.array(dtype=wp.vec3d)
    t_min: wp.array(dtype=wp.float64)
    t_max: wp.array(dtype=wp.float64)
    mask: wp.array(dtype=wp.int32)


@wp.struct
class Columns:
    """Answers on a device, one a ray, point or hit; arrays without items are not filled."""

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
    distance: wp.array(dtype=wp.float64)
    position: wp.array(dtype=wp.vec3d)


@wp.struct
class Work:
    """State of `count` rays or points from `start` on, which stages hand on.

    The place of a ray, 0 to count - 1, is its index in these arrays (see `row_at`).
    """

    start: wp.int32
    count: wp.int32
    threads: wp.int32  # of a stage that reads a queue
    rows: wp.array(dtype=wp.int32)  # indices of the rays that are traced; empty: all of them
    outcome: wp.array(dtype=wp.int32)  # MISSED, LISTED, FOUND or the index of a triangle
    candidate_count: wp.array(dtype=wp.int32)
    candidates: wp.array2d(dtype=wp.int32)  # (capacity, places): triangles, with SURELY
    # In a scene, (capacity, places): leaves of candidates; row 0 has that of a decided `outcome`.
    leaves: wp.array2d(dtype=wp.int32)
    lows: wp.array2d(dtype=wp.float32)  # of points, (capacity, places): lower bounds of distances
    queues: wp.array2d(dtype=wp.int32)  # (QUEUES, places): places of rays
    counters: wp.array(dtype=wp.int32)  # (QUEUES,): lengths of queues


@wp.func
def put(work: Work, queue: int, place: int):
    """Append the ray at a place of `work` to a queue."""
    work.queues[queue, wp.atomic_add(work.counters, queue, 1)] = place


@wp.func
def row_at(work: Work, place: int):
    """Return the index of the ray at a place of `work`: its row in arguments and answers."""
    i = work.start + place
    if work.rows.shape[0] > 0:
        i = work.rows[i]
    return i


@wp.func
def row_of(i: int, size: int):
    """Return the row of ray i in an array of `size` rows: 0 if that has one row for all rays."""
    return wp.where(size > 1, i, 0)


@wp.func
def ray_of(rays: DeviceRays, query: RayQuery, i: int):
    """Return (origin, direction, query) of ray i: `query` with the range and mask of the ray."""
    query.t_min = rays.t_min[row_of(i, rays.t_min.shape[0])]
    query.t_max = rays.t_max[row_of(i, rays.t_max.shape[0])]
    query.mask = rays.mask[row_of(i, rays.mask.shape[0])]
    o = rays.origins[row_of(i, rays.origins.shape[0])]
    return o, rays.directions[row_of(i, rays.directions.shape[0])], query
