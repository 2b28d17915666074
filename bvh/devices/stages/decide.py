"""The kernels that decide which triangle rays hit, and measure hits.

Each is made of exact functions of one kind: double-doubles; those with a point nearby; exact sums.
What these leave open goes into the queue of the next kind. The answers are the same, whichever
decides: signs are exact, t, u and v rounded as on the CPU.
"""

from typing import Any

import warp as wp

from bvh.devices.exact.arithmetic import INF, ONE, nan
from bvh.devices.exact.near import (
    Measures,
    close_distance_of,
    close_measures,
    exact_measures,
    near_distance,
    near_measures,
)
from bvh.devices.exact.triangles import close_side, distance, scaled_ray, triangle_side
from bvh.devices.layout import Target
from bvh.devices.ray_kernels import DeviceRays, RayColumns, row_of
from bvh.devices.searches.moved import corners_of
from bvh.devices.searches.rays import ANY, RayQuery
from bvh.devices.stages.search import (
    DECIDE,
    DECIDE_BY_SUMS,
    DECIDE_NEAR,
    INDEX,
    LISTED,
    MEASURE_BY_SUMS,
    MEASURE_NEAR,
    MISSED,
    OF_ALL,
    OPTIONS,
    SURELY,
    UNDECIDED,
    Work,
    put,
    query_of,
)


@wp.func
def _write(columns: RayColumns, i: int, prim: wp.int32, x: Measures):
    """Write the closest hit of a ray; prim_id -1 for a miss."""
    missed = prim < 0
    columns.t[i] = wp.where(missed, INF, x.t)
    columns.u[i] = wp.where(missed, nan(), x.u)
    columns.v[i] = wp.where(missed, nan(), x.v)
    columns.front[i] = x.front and not missed
    columns.prim_id[i] = prim


def decide_kernel(
    side_of: Any, distance_of: Any, queue: int, following: int, registers: int
) -> Any:
    """Return the kernel that decides rays in a queue, or puts them into the `following` one."""
    by_sums = queue == DECIDE_BY_SUMS

    @wp.kernel(
        module_options=OPTIONS, module="unique", grid_stride=False, cuda_max_registers=registers
    )
    def decide_rays(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: RayColumns
    ):
        """Decide which triangle each ray in a queue hits."""
        for turn in range(wp.tid(), work.counters[queue], work.threads):
            i = work.queues[queue, turn]
            place = i - work.start
            q = query_of(rays, query, i)
            o = rays.origins[row_of(i, rays.origins.shape[0])]
            d = rays.directions[row_of(i, rays.directions.shape[0])]
            scaled, floor, e, k = scaled_ray(o, d, target.top.farthest)
            decided = floor < INF
            # A product, as Warp would change the constant itself.
            best, best_prim, best_t = int(-1), int(-1), ONE * INF
            for j in range(work.kept_count[place]):
                if decided and not (query.goal == ANY and best >= 0):
                    item = work.kept[j, place]
                    prim = target.ids[item & INDEX]
                    _, v0, v1, v2 = corners_of(target, 0, prim)
                    hit = (item & SURELY) != 0
                    if not hit:
                        sure, side = side_of(o, d, scaled, floor, v0, v1, v2, 0)
                        decided = sure
                        hit = side != 0 and side != query.cull
                    if decided and hit:
                        sure, t = distance_of(o, d, e, k, v0, v1, v2)
                        decided = sure
                        nearer = t < best_t or (t == best_t and prim < best_prim)
                        if nearer and t >= q.t_min and t <= q.t_max:
                            best = item & INDEX
                            best_prim = prim
                            best_t = t
            if decided:
                work.known[place] = wp.where(best >= 0, best, MISSED)
                if by_sums:
                    # Others are measured already.
                    put(work, MEASURE_BY_SUMS, i)
            else:
                put(work, following, i)

    return decide_rays


def measure_kernel(measures_of: Any, queue: int, following: int, registers: int) -> Any:
    """Return the kernel that measures hits of a queue, or puts them into the `following` one."""
    of_all = queue == OF_ALL

    @wp.kernel(
        module_options=OPTIONS, module="unique", grid_stride=False, cuda_max_registers=registers
    )
    def measure_rays(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: RayColumns
    ):
        """Measure hits, and answer rays that miss."""
        total = wp.int32(work.count)
        if not of_all:
            total = work.counters[queue]
        for turn in range(wp.tid(), total, work.threads):
            i = work.start + turn
            if not of_all:
                i = work.queues[queue, turn]
            known = work.known[i - work.start]
            if query.goal == ANY:
                if known != LISTED:
                    columns.truth[i] = known != MISSED
            elif known == MISSED:
                _write(columns, i, -1, Measures())
            elif known >= 0:
                prim = target.ids[known]
                _, v0, v1, v2 = corners_of(target, 0, prim)
                o = rays.origins[row_of(i, rays.origins.shape[0])]
                d = rays.directions[row_of(i, rays.directions.shape[0])]
                x = measures_of(o, d, v0, v1, v2)
                _write(columns, i, prim, x)
                if not x.decided:
                    put(work, following, i)

    return measure_rays


# Each with its queue; OF_ALL is that of all rays. Registers are as many as leave no spills, or less
# where more threads gain more.
BY_DOUBLES = (
    (decide_kernel(close_side, close_distance_of, DECIDE, DECIDE_NEAR, 128), DECIDE),
    (decide_kernel(close_side, near_distance, DECIDE_NEAR, DECIDE_BY_SUMS, 168), DECIDE_NEAR),
    (measure_kernel(close_measures, OF_ALL, MEASURE_NEAR, 96), OF_ALL),
    (measure_kernel(near_measures, MEASURE_NEAR, MEASURE_BY_SUMS, 168), MEASURE_NEAR),
)
BY_SUMS = (
    (decide_kernel(triangle_side, distance, DECIDE_BY_SUMS, UNDECIDED, 255), DECIDE_BY_SUMS),
    (measure_kernel(exact_measures, MEASURE_BY_SUMS, UNDECIDED, 255), MEASURE_BY_SUMS),
)
