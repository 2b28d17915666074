"""The kernels that decide which triangle rays hit, and measure hits.

Each is made of exact functions of one kind: double-doubles; those with a point nearby; exact sums.
What these leave open goes into the queue of the next kind. The answers are the same, whichever
decides: signs are exact, t, u and v rounded as on the CPU.

Those of all targets serve scenes, counts, closest hits and any hits; the others closest hits and
any hits of trees alone, with fewer registers.
"""

import functools
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
from bvh.devices.ray_kernels import DeviceRays, RayColumns, ray_of
from bvh.devices.searches.moved import corners_of, face_of
from bvh.devices.searches.rays import ANY, COUNT, ONE4, RayQuery, comes_before
from bvh.devices.stages.search import (
    ALL_RAYS,
    DECIDE,
    DECIDE_BY_SUMS,
    DECIDE_NEAR,
    INDEX,
    LISTED,
    MEASURE_BY_SUMS,
    MEASURE_NEAR,
    MISSED,
    OPTIONS,
    SURELY,
    UNDECIDED,
    Work,
    put,
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


@wp.func
def _write_leaf(target: Target, columns: RayColumns, i: int, leaf: wp.int32):
    """Write the leaf of the closest hit of a ray in a scene, -1 for a miss."""
    if target.is_scene != 0:
        columns.leaf[i] = leaf
        columns.instance_id[i] = -1
        if leaf >= 0:
            columns.instance_id[i] = target.owners[leaf]


@wp.func
def _leaf_of(target: Target, work: Work, j: int, place: int):
    """Return the leaf of a triangle that is kept, 0 in a tree."""
    leaf = int(0)
    if target.is_scene != 0:
        leaf = work.leaves[j, place]
    return leaf


@wp.func
def _is_first(target: Target, work: Work, j: int, place: int):
    """Return whether triangle j of a ray is the first of those that are the same."""
    fresh, item = bool(True), work.kept[j, place] & INDEX
    prim, leaf, before = target.ids[item], _leaf_of(target, work, j, place), int(0)
    if wp.abs(target.triangles[item, 2][3]) > ONE4:
        # In several leaves of its tree.
        before = j
    for k in range(before):
        same = target.ids[work.kept[k, place] & INDEX] == prim
        fresh = fresh and not (same and _leaf_of(target, work, k, place) == leaf)
    return fresh


def decide_kernel(
    side_of: Any, distance_of: Any, queue: int, following: int, registers: int, of_all: bool
) -> Any:
    """Return the kernel that decides rays in a queue, or puts them into the `following` one."""
    is_last = queue == DECIDE_BY_SUMS

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
            o, d, q = ray_of(rays, query, i)
            scaled, floor, e, k = scaled_ray(o, d, target.top.farthest)
            decided = floor < INF
            # A product, as Warp would change the constant itself.
            best, best_prim, best_leaf, best_t = int(-1), int(-1), int(-1), ONE * INF
            count = int(0)
            for j in range(work.kept_count[place]):
                counts = query.goal != ANY or best < 0
                if of_all:
                    if query.goal == COUNT:
                        counts = _is_first(target, work, j, place)
                if decided and counts:
                    item = work.kept[j, place]
                    prim, leaf, once = target.ids[item & INDEX], int(0), int(0)
                    if of_all:
                        once = query.once
                        leaf = _leaf_of(target, work, j, place)
                        decided, v0, v1, v2 = corners_of(target, leaf, prim)
                    else:
                        v0, v1, v2 = face_of(target, prim)
                    hit = (item & SURELY) != 0
                    if decided and not hit:
                        sure, side = side_of(o, d, scaled, floor, v0, v1, v2, once)
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
                if of_all:
                    columns.counts[i] += wp.int64(count)
            else:
                work.known[place] = wp.where(best >= 0, best, MISSED)
                if of_all:
                    if target.is_scene != 0:
                        work.leaves[0, place] = best_leaf
                if is_last:
                    # Others are measured already.
                    put(work, MEASURE_BY_SUMS, i)

    return decide_rays


def measure_kernel(
    measures_of: Any, queue: int, following: int, registers: int, of_all: bool
) -> Any:
    """Return the kernel that measures hits of a queue, or puts them into the `following` one."""
    of_queue = queue != ALL_RAYS

    @wp.kernel(
        module_options=OPTIONS, module="unique", grid_stride=False, cuda_max_registers=registers
    )
    def measure_rays(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: RayColumns
    ):
        """Measure hits, and answer rays that miss."""
        total = wp.int32(work.count)
        if of_queue:
            total = work.counters[queue]
        for turn in range(wp.tid(), total, work.threads):
            i = work.start + turn
            if of_queue:
                i = work.queues[queue, turn]
            place = i - work.start
            known = work.known[place]
            if query.goal == ANY:
                if known != LISTED:
                    columns.truth[i] = known != MISSED
            elif known == MISSED:
                _write(columns, i, -1, Measures())
                if of_all:
                    _write_leaf(target, columns, i, -1)
            elif known >= 0:
                prim, decided = target.ids[known], bool(True)
                if of_all:
                    leaf = _leaf_of(target, work, 0, place)
                    decided, v0, v1, v2 = corners_of(target, leaf, prim)
                    _write_leaf(target, columns, i, leaf)
                else:
                    v0, v1, v2 = face_of(target, prim)
                o, d, _ = ray_of(rays, query, i)
                x = measures_of(o, d, v0, v1, v2)
                _write(columns, i, prim, x)
                if not (decided and x.decided):
                    put(work, following, i)

    return measure_rays


# Kernels, each with its queue. Registers are as many as leave no spills, or less where more threads
# gain more.
@functools.cache
def by_doubles(of_all: bool) -> tuple[tuple[Any, int], ...]:
    """Return the stages of double-doubles, of all targets or of trees alone."""
    near, sums, registers = DECIDE_NEAR, DECIDE_BY_SUMS, 168 if of_all else 128
    return (
        (decide_kernel(close_side, close_distance, DECIDE, near, registers, of_all), DECIDE),
        (decide_kernel(close_side, near_distance, near, sums, 168, of_all), near),
        (measure_kernel(close_measures, ALL_RAYS, MEASURE_NEAR, 96, of_all), ALL_RAYS),
        (measure_kernel(near_measures, MEASURE_NEAR, MEASURE_BY_SUMS, 168, of_all), MEASURE_NEAR),
    )


@functools.cache
def by_sums(decided: int, measured: int, of_all: bool) -> tuple[tuple[Any, int], ...]:
    """Return the stages of exact sums that read two queues; these begin with doubles, too."""
    return (
        (decide_kernel(triangle_side, exact_distance, decided, UNDECIDED, 255, of_all), decided),
        (measure_kernel(exact_measures, measured, UNDECIDED, 255, of_all), measured),
    )
