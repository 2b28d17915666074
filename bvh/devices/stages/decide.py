"""Decisions which triangles rays hit, and measures of hits.

Each function, and its kernel, is made of exact functions of one kind: double-doubles,
double-doubles with a point nearby, or exact sums. Rays that these leave open go into the queue of
the next kind. The answers are the same, whichever decides: signs are exact, t, u and v rounded as
on the CPU. Of all hits, those of a scene included, the closest is the first by (t, leaf, prim_id).

`general` functions serve scenes, counts and lists, too; the others closest hits and any hits of
trees alone, with fewer registers.
"""

import functools
from typing import Any

import warp as wp

from bvh.devices.exact import measures, triangles
from bvh.devices.exact.floats import INF, ONE, ONE4, OPTIONS, i8, largest, nan
from bvh.devices.layout import Target
from bvh.devices.stages import marks
from bvh.devices.stages.moved import corners_of, vertices_of
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery, Work, put, ray_of, row_at

I1 = i8(1)


@wp.func
def _comes_before(
    t: wp.float64, leaf: wp.int32, prim: wp.int32, t2: wp.float64, leaf2: wp.int32, prim2: wp.int32
):  # fmt: skip
    """Return whether a hit (t, leaf, prim) comes before another one: compared by t, leaf, prim."""
    return t < t2 or (t == t2 and (leaf < leaf2 or (leaf == leaf2 and prim < prim2)))


@wp.func
def _insert(
    columns: Columns, i: int, filled: int, t: wp.float64, leaf: wp.int32, prim: wp.int32
):  # fmt: skip
    """Insert a hit into the sorted list of ray i, which has `filled` hits so far.

    The list has the rows from offsets[i] up to offsets[i + 1]. If it is full, its last hit is
    dropped, or the new one if that comes after all others.
    """
    first, end = columns.offsets[i], columns.offsets[i + 1]
    k = first + wp.int64(filled)
    if k >= end:
        k = end - I1
        if not _comes_before(t, leaf, prim, columns.t[k], columns.leaf[k], columns.prim_id[k]):
            return
    shifting = k > first
    while shifting:
        j = k - I1
        shifting = _comes_before(t, leaf, prim, columns.t[j], columns.leaf[j], columns.prim_id[j])
        if shifting:
            columns.t[k] = columns.t[j]
            columns.leaf[k] = columns.leaf[j]
            columns.prim_id[k] = columns.prim_id[j]
            k = j
            shifting = k > first
    columns.t[k] = t
    columns.leaf[k] = leaf
    columns.prim_id[k] = prim


@wp.func
def _write(
    target: Target, columns: Columns, row: wp.int64, leaf: int, prim: int, x: measures.Measures
):  # fmt: skip
    """Write the hit x on face `prim` of a leaf, or the miss prim = leaf = -1, into a row.

    A miss has t inf, u and v NaN, and front False.
    """
    missed = prim < 0
    columns.t[row] = wp.where(missed, INF, x.t)
    columns.u[row] = wp.where(missed, nan(), x.u)
    columns.v[row] = wp.where(missed, nan(), x.v)
    columns.front[row] = x.front and not missed
    columns.prim_id[row] = prim
    if target.is_scene != 0:
        columns.leaf[row] = leaf
        columns.instance_id[row] = -1
        if leaf >= 0:
            columns.instance_id[row] = target.owners[leaf]


@wp.func
def _leaf_of(target: Target, work: Work, j: int, place: int):
    """Return the leaf of candidate j of the ray at a place, 0 in a single tree."""
    leaf = int(0)
    if target.is_scene != 0:
        leaf = work.leaves[j, place]
    return leaf


@wp.func
def _is_first(target: Target, work: Work, j: int, place: int):
    """Return whether candidate j of the ray at a place is the first one with its face and leaf.

    A triangle that a builder has split is in several leaves of its tree, so it may be listed twice.
    """
    fresh, item = bool(True), work.candidates[j, place] & marks.INDEX
    prim, leaf, before = target.ids[item], _leaf_of(target, work, j, place), int(0)
    if wp.abs(target.triangles[item, 2][3]) > ONE4:
        # By its mark, this triangle is in several leaves of its tree.
        before = j
    for k in range(before):
        same = target.ids[work.candidates[k, place] & marks.INDEX] == prim
        fresh = fresh and not (same and _leaf_of(target, work, k, place) == leaf)
    return fresh


def decide_function(side_of: Any, distance_of: Any, general: bool) -> Any:
    """Return the function `decide` below, which decides which candidates a ray hits.

    It calls `side_of`, a `triangle_side` (see `triangles`), and `distance_of`, which measures t
    (see `measures`). Only if `general` does it serve scenes, counts and lists.
    """

    @wp.func
    def decide(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """Find the closest or any hit of the ray at a place, or count or list its hits.

        Return whether all is decided; if not, results mean nothing. The closest or any hit goes
        into `work.outcome`, as the index of its triangle or MISSED, and its leaf into the first of
        `work.leaves`. A count is added to that of sure hits. Lists get t, leaf and prim_id.
        """
        i = row_at(work, place)
        o, d, q = ray_of(rays, query, i)
        scaled, floor, e, k = triangles.scaled_ray(o, d, target.top.farthest)
        # The floor is inf for rays of extreme sizes, which filters do not serve.
        decided = floor < INF
        # A product, as Warp would change the constant itself.
        best, best_prim, best_leaf, best_t = int(-1), int(-1), int(-1), ONE * INF
        count = int(0)
        for j in range(work.candidate_count[place]):
            # Whether it counts: not if a hit is found and any will do; once if it is listed twice.
            counts = query.goal != marks.ANY or best < 0
            if general:
                if query.goal == marks.COUNT or query.goal == marks.LIST:
                    counts = _is_first(target, work, j, place)
            if decided and counts:
                item = work.candidates[j, place]
                prim, leaf, once = target.ids[item & marks.INDEX], int(0), int(0)
                if general:
                    once = query.once
                    leaf = _leaf_of(target, work, j, place)
                    decided, v0, v1, v2 = corners_of(target, leaf, prim)
                else:
                    v0, v1, v2 = vertices_of(target, prim)
                hit = (item & marks.SURELY) != 0
                if decided and not hit:
                    sure, side = side_of(o, d, scaled, floor, v0, v1, v2, once)
                    decided = sure
                    hit = side != 0 and side != query.cull
                if decided and hit:
                    x = triangles.volumes_of(o, d, e, k, v0, v1, v2)
                    found = distance_of(x, o, d, v0, v1, v2)
                    decided = found.decided
                    t = found.t
                    if t >= q.t_min and t <= q.t_max:
                        if general:
                            if query.goal == marks.LIST and decided:
                                _insert(columns, i, count, t, leaf, prim)
                        count += 1
                        if _comes_before(t, leaf, prim, best_t, best_leaf, best_prim):
                            best = item & marks.INDEX
                            best_prim = prim
                            best_leaf = leaf
                            best_t = t
        if not decided:
            return False
        if query.goal == marks.COUNT:
            if general:
                columns.counts[i] += wp.int64(count)
        elif query.goal == marks.LIST:
            work.outcome[place] = marks.FOUND
        else:
            work.outcome[place] = wp.where(best >= 0, best, marks.MISSED)
            if general:
                if target.is_scene != 0:
                    work.leaves[0, place] = best_leaf
        return True

    return decide


def measure_function(measures_of: Any, general: bool, of_lists: bool) -> Any:
    """Return the function `measure` below, which writes t, u and v of hits by `measures_of`.

    `measures_of` is a function of `measures`. Only if `general` does `measure` serve scenes, and
    only if `of_lists` the hits in lists.
    """

    @wp.func
    def measure(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """Write the answer of the ray at a place, by its outcome; return whether it is decided.

        That is its closest hit or miss, the measures of its listed hits, or whether it hits
        anything. With the outcome LISTED nothing is written: the ray is still in a queue.
        """
        i, outcome, decided = row_at(work, place), work.outcome[place], bool(True)
        if query.goal == marks.ANY and outcome != marks.LISTED:
            columns.truth[i] = outcome != marks.MISSED
        if query.goal == marks.CLOSEST and outcome == marks.MISSED:
            _write(target, columns, wp.int64(i), -1, -1, measures.Measures())
        if query.goal == marks.ANY or outcome == marks.MISSED or outcome == marks.LISTED:
            return True
        first, count = wp.int64(i), int(1)
        if of_lists:
            if query.goal == marks.LIST:
                first = columns.offsets[i]
                count = wp.int32(columns.offsets[i + 1] - first)
        o, d, _ = ray_of(rays, query, i)
        for j in range(count):
            row, leaf, prim, sure = first + wp.int64(j), int(0), int(0), bool(True)
            if outcome >= 0:
                prim = target.ids[outcome]
            if of_lists:
                if query.goal == marks.LIST:
                    prim = columns.prim_id[row]
                    leaf = columns.leaf[row]
            if general:
                if query.goal == marks.CLOSEST:
                    leaf = _leaf_of(target, work, 0, place)
                sure, v0, v1, v2 = corners_of(target, leaf, prim)
            else:
                v0, v1, v2 = vertices_of(target, prim)
            # Scaled by the ray and the triangle alone, so that u and v are the same in any tree.
            reach = wp.max(largest(v0), wp.max(largest(v1), largest(v2)))
            _scaled, _floor, e, k = triangles.scaled_ray(o, d, reach)
            x = triangles.volumes_of(o, d, e, k, v0, v1, v2)
            found = measures_of(x, o, d, v0, v1, v2)
            _write(target, columns, row, leaf, prim, found)
            decided = decided and sure and found.decided
        return decided

    return measure


def stage_of(
    function: Any, registers: int, queue: int, if_open: int = marks.UNDECIDED,
    if_decided: int = marks.ALL_RAYS,
) -> tuple[Any, int]:  # fmt: skip
    """Return (kernel, queue): the kernel calls a function for the rays in the queue.

    `function` is a `decide` or `measure`. Rays for which it returns False go into the queue
    `if_open`, others into `if_decided`. ALL_RAYS is no queue: as `queue` it stands for all rays of
    the work, as `if_decided` for none. A thread of the kernel has at most `registers` registers.
    """
    of_queue, continues = queue != marks.ALL_RAYS, if_decided != marks.ALL_RAYS

    @wp.kernel(
        module_options=OPTIONS, module="unique", grid_stride=False, cuda_max_registers=registers
    )
    def run_stage(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns
    ):  # fmt: skip
        """Call the function for the queued rays: thread i takes rays i, i + `work.threads`, ..."""
        total = wp.int32(work.count)
        if of_queue:
            total = work.counters[queue]
        for turn in range(wp.tid(), total, work.threads):
            place = int(turn)
            if of_queue:
                place = work.queues[queue, turn]
            if not function(target, rays, query, work, columns, place):
                put(work, if_open, place)
            elif continues:
                put(work, if_decided, place)

    return run_stage, queue


# Registers are as many as leave no spills, or fewer where more threads gain more.
@functools.cache
def by_doubles(general: bool, of_lists: bool) -> tuple[tuple[Any, int], ...]:
    """Return four stages (kernel, queue) of double-doubles: two that decide, two that measure.

    The second of each pair takes rays that the first leaves open. By a point near the hit, in place
    of the ray's origin or a vertex, it loses fewer digits to cancellation (see `measures`). For
    `general` and `of_lists` see `decide_function` and `measure_function`.
    """
    decide = decide_function(triangles.close_side, measures.close_distance, general)
    decide_near = decide_function(triangles.close_side, measures.near_distance, general)
    measure = measure_function(measures.close_measures, general, of_lists)
    measure_near = measure_function(measures.near_measures, general, of_lists)
    # For each: its function, registers, the queue that it takes, and that of rays it leaves open.
    return (
        stage_of(decide, 168 if general else 128, marks.DECIDE, marks.DECIDE_NEAR),
        stage_of(decide_near, 168, marks.DECIDE_NEAR, marks.DECIDE_BY_SUMS),
        stage_of(measure, 128 if of_lists else 96, marks.ALL_RAYS, marks.MEASURE_NEAR),
        stage_of(measure_near, 168, marks.MEASURE_NEAR, marks.MEASURE_BY_SUMS),
    )


@functools.cache
def by_sums(to_decide: int, to_measure: int, general: bool) -> tuple[tuple[Any, int], ...]:
    """Return two stages (kernel, queue) of exact sums, which decide and which measure.

    They take the queues `to_decide` and `to_measure`. For `general` see `decide_function`.
    """
    decide = decide_function(triangles.triangle_side, measures.exact_distance, general)
    measure = measure_function(measures.exact_measures, general, general)
    # The first stage puts the rays that it decides into the queue `to_measure`. That is ALL_RAYS if
    # no stage of double-doubles has measured before; the second stage then measures all rays.
    return (
        stage_of(decide, 255, to_decide, marks.UNDECIDED, to_measure),
        stage_of(measure, 255, to_measure),
    )
