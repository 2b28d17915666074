"""The kernels that decide which triangle rays hit, and measure hits.

Each is made of exact functions of one kind: double-doubles; those with a point nearby; exact sums.
What these leave open goes into the queue of the next kind. The answers are the same, whichever
decides: signs are exact, t, u and v rounded as on the CPU.
"""

from typing import Any

import warp as wp

from bvh.devices.exact.arithmetic import INF, ONE, nan
from bvh.devices.exact.measures import (
    Measures,
    close_distance,
    close_measures,
    exact_distance,
    exact_measures,
    near_distance,
    near_measures,
)
from bvh.devices.exact.triangles import close_side, scaled_ray, triangle_side, volumes_of
from bvh.devices.layout import Target
from bvh.devices.ray_kernels import DeviceRays, RayColumns, row_of
from bvh.devices.searches.moved import corners_of
from bvh.devices.searches.rays import ANY, COUNT, RayQuery, comes_before
from bvh.devices.stages.search import (
    DECIDE,
    DECIDE_BY_SUMS,
    DECIDE_NEAR,
    INDEX,
    LEFT,
    LISTED,
    MEASURE_BY_SUMS,
    MEASURE_NEAR,
    MISSED,
    OF_ALL,
    OPTIONS,
    SURELY,
    Work,
    put,
    query_of,
)


@wp.func
def _write(
    target: Target, columns: RayColumns, i: int, prim: wp.int32, leaf: wp.int32, x: Measures
):  # fmt: skip
    """Write the closest hit of a ray; prim_id -1 for a miss."""
    missed = prim < 0
    columns.t[i] = wp.where(missed, INF, x.t)
    columns.u[i] = wp.where(missed, nan(), x.u)
    columns.v[i] = wp.where(missed, nan(), x.v)
    columns.front[i] = x.front and not missed
    columns.prim_id[i] = prim
    if target.is_scene != 0:
        columns.leaf[i] = leaf
        columns.instance_id[i] = -1
        if not missed:
            columns.instance_id[i] = target.owners[leaf]


@wp.func
def _leaf_of(target: Target, work: Work, j: int, place: int):
    """Return the leaf of a triangle that is kept, 0 in a tree."""
    leaf = int(0)
    if target.is_scene != 0:
        leaf = work.leaves[j, place]
    return leaf


@wp.func
def _counts(target: Target, query: RayQuery, work: Work, j: int, place: int, best: int):
    """Return whether triangle j of a ray counts: if not, another was hit, or it was met before."""
    if query.goal != COUNT:
        return query.goal != ANY or best < 0
    fresh, prim = bool(True), target.ids[work.kept[j, place] & INDEX]
    leaf = _leaf_of(target, work, j, place)
    for k in range(j):
        # A triangle in several leaves of its tree counts once.
        same = target.ids[work.kept[k, place] & INDEX] == prim
        fresh = fresh and not (same and _leaf_of(target, work, k, place) == leaf)
    return fresh


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
        """Decide which triangle each ray in a queue hits, or how many it hits."""
        for turn in range(wp.tid(), work.counters[queue], work.threads):
            i = work.queues[queue, turn]
            place = i - work.start
            q = query_of(rays, query, i)
            o = rays.origins[row_of(i, rays.origins.shape[0])]
            d = rays.directions[row_of(i, rays.directions.shape[0])]
            scaled, floor, e, k = scaled_ray(o, d, target.top.farthest)
            decided = floor < INF
            # A product, as Warp would change the constant itself.
            best, best_prim, best_leaf, best_t = int(-1), int(-1), int(-1), ONE * INF
            count = int(0)
            for j in range(work.kept_count[place]):
                if decided and _counts(target, query, work, j, place, best):
                    item = work.kept[j, place]
                    prim, leaf = target.ids[item & INDEX], _leaf_of(target, work, j, place)
                    decided, v0, v1, v2 = corners_of(target, leaf, prim)
                    hit = (item & SURELY) != 0
                    if decided and not hit:
                        sure, side = side_of(o, d, scaled, floor, v0, v1, v2, query.once)
                        decided = sure
                        hit = side != 0 and side != query.cull
                    if decided and hit:
                        x = volumes_of(o, d, e, k, v0, v1, v2)
                        sure, t = distance_of(x, o, d, v0, v1, v2)
                        decided = sure
                        if t >= q.t_min and t <= q.t_max:
                            count += 1
                            if comes_before(t, leaf, prim, best_t, best_leaf, best_prim):
                                best = item & INDEX
                                best_prim = prim
                                best_leaf = leaf
                                best_t = t
            if not decided:
                put(work, following, i)
            elif query.goal == COUNT:
                columns.counts[i] += wp.int64(count)
            else:
                work.known[place] = wp.where(best >= 0, best, MISSED)
                if target.is_scene != 0:
                    work.leaves[0, place] = best_leaf
                if by_sums:
                    # Others are measured already.
                    put(work, MEASURE_BY_SUMS, i)

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
            place = i - work.start
            known = work.known[place]
            if query.goal == ANY:
                if known != LISTED:
                    columns.truth[i] = known != MISSED
            elif known == MISSED:
                _write(target, columns, i, -1, -1, Measures())
            elif known >= 0:
                prim, leaf = target.ids[known], _leaf_of(target, work, 0, place)
                decided, v0, v1, v2 = corners_of(target, leaf, prim)
                o = rays.origins[row_of(i, rays.origins.shape[0])]
                d = rays.directions[row_of(i, rays.directions.shape[0])]
                x = measures_of(o, d, v0, v1, v2)
                _write(target, columns, i, prim, leaf, x)
                if not (decided and x.decided):
                    put(work, following, i)

    return measure_rays


# Each with its queue; OF_ALL is that of all rays. Registers are as many as leave no spills, or less
# where more threads gain more.
BY_DOUBLES = (
    (decide_kernel(close_side, close_distance, DECIDE, DECIDE_NEAR, 128), DECIDE),
    (decide_kernel(close_side, near_distance, DECIDE_NEAR, DECIDE_BY_SUMS, 168), DECIDE_NEAR),
    (measure_kernel(close_measures, OF_ALL, MEASURE_NEAR, 96), OF_ALL),
    (measure_kernel(near_measures, MEASURE_NEAR, MEASURE_BY_SUMS, 168), MEASURE_NEAR),
)
BY_SUMS = (
    (decide_kernel(triangle_side, exact_distance, DECIDE_BY_SUMS, LEFT, 255), DECIDE_BY_SUMS),
    (measure_kernel(exact_measures, MEASURE_BY_SUMS, LEFT, 255), MEASURE_BY_SUMS),
)
# On a CPU, where compiling takes longer than the sums: these begin with doubles, too.
AT_ONCE = (
    (decide_kernel(triangle_side, exact_distance, DECIDE, LEFT, 255), DECIDE),
    (measure_kernel(exact_measures, OF_ALL, LEFT, 255), OF_ALL),
)
