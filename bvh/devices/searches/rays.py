"""Rays through a tree or a scene on a device: float32 only discards, exact tests decide.

Of all hits, those of a scene included, the closest is the first by (t, leaf, prim_id).
"""

import warp as wp

from bvh.devices.exact.arithmetic import INF, f8, i8, is_contracted
from bvh.devices.exact.measures import exact_distance, exact_measures
from bvh.devices.exact.triangles import scaled_ray, triangle_side, volumes_of
from bvh.devices.layout import STACK, Target
from bvh.devices.searches.local_rays import (
    MEETS,
    MISSES,
    OTHER,
    LocalRay,
    is_ray,
    local_ray,
    shortened,
    step_into,
    surely_missed,
)
from bvh.devices.searches.moved import corners_of, moved_ray

Stack = wp.types.vector(length=STACK, dtype=wp.int32)
# Triangles in several leaves that a ray has hit; rays with more are left to the CPU.
SEEN_MOST = wp.constant(32)
Seen = wp.types.vector(length=32, dtype=wp.int32)
ONE4 = wp.float32(1.0)

# Query modes.
CLOSEST, ANY, COUNT, LIST = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
# States of a ray: answered; left to the CPU; or refused, as its module fuses operations.
SURE, UNSURE, CONTRACTED = wp.constant(0), wp.constant(1), wp.constant(2)
NO_HIT = wp.constant(-1)
I1, I0 = i8(1), i8(0)


@wp.struct
class RayQuery:
    """Which hits of a ray count, and the query mode."""

    t_min: wp.float64
    t_max: wp.float64
    mask: wp.int32  # bits, as of groups and of leaves
    cull: wp.int32  # the side that is ignored, 0 for none
    goal: wp.int32  # CLOSEST, ANY, COUNT or LIST
    once: wp.int32  # whether faces that share an edge or vertex are crossed once


@wp.struct
class Hit:
    """The first hit of a ray, for ANY the one found; prim_id -1 and t inf for a miss."""

    t: wp.float64
    u: wp.float64
    v: wp.float64
    prim_id: wp.int32
    leaf: wp.int32
    front: wp.int32
    count: wp.int32  # of hits, where they are counted
    state: wp.int32  # SURE; else the rest means nothing


@wp.struct
class ExactRay:
    """A ray in the world; the other numbers are those of `scaled_ray`."""

    o: wp.vec3d
    d: wp.vec3d
    scaled: wp.vec3d
    floor: wp.float64
    e: wp.int64
    k: wp.int64


@wp.struct
class HitList:
    """Memory for the hits of a ray: `capacity` entries of the arrays, from `first` on."""

    t: wp.array(dtype=wp.float64)
    prim_id: wp.array(dtype=wp.int32)
    leaf: wp.array(dtype=wp.int32)
    first: wp.int64
    capacity: wp.int64


@wp.func
def comes_before(
    t: wp.float64, leaf: wp.int32, prim: wp.int32, t2: wp.float64, leaf2: wp.int32, prim2: wp.int32
):  # fmt: skip
    """Return whether one hit comes before another, by (t, leaf, prim_id)."""
    return t < t2 or (t == t2 and (leaf < leaf2 or (leaf == leaf2 and prim < prim2)))


@wp.func
def _insert(listing: HitList, filled: wp.int64, t: wp.float64, leaf: wp.int32, prim: wp.int32):
    """Insert a hit into a sorted list of `filled` hits; if that is full, the last drops out."""
    j = filled
    if filled == listing.capacity:
        j -= I1
        last = listing.first + j
        if j < I0:
            return
        if not comes_before(
            t, leaf, prim, listing.t[last], listing.leaf[last], listing.prim_id[last]
        ):
            return
    shifting = bool(True)
    while shifting and j > I0:
        previous = listing.first + j - I1
        shifting = comes_before(
            t, leaf, prim, listing.t[previous], listing.leaf[previous], listing.prim_id[previous]
        )
        if shifting:
            listing.t[previous + I1] = listing.t[previous]
            listing.leaf[previous + I1] = listing.leaf[previous]
            listing.prim_id[previous + I1] = listing.prim_id[previous]
            j -= I1
    listing.t[listing.first + j] = t
    listing.leaf[listing.first + j] = leaf
    listing.prim_id[listing.first + j] = prim


@wp.func
def _test(target: Target, leaf: wp.int32, prim: wp.int32, exact: ExactRay, query: RayQuery):
    """Return (decided, whether a triangle is hit in range, t), exactly."""
    sure, v0, v1, v2 = corners_of(target, leaf, prim)
    t = INF
    if not sure:
        return False, False, t
    sure, side = triangle_side(exact.o, exact.d, exact.scaled, exact.floor, v0, v1, v2, query.once)
    if not sure or side == 0 or side == query.cull:
        return sure, False, t
    x = volumes_of(exact.o, exact.d, exact.e, exact.k, v0, v1, v2)
    sure, t = exact_distance(x, exact.o, exact.d, v0, v1, v2)
    return sure, t >= query.t_min and t <= query.t_max, t


@wp.func
def _search(
    target: Target, ray: LocalRay, exact: ExactRay, query: RayQuery, listing: HitList, best: Hit
):
    """Return `best` with the hits of a ray; UNSURE at the first doubt.

    In a scene, the loop walks the top, and in each leaf there the leaf's tree.
    """
    codes, counts, seen = Stack(), Stack(), Seen()
    seen_count, top = int(0), int(0)
    local = ray
    code, count = wp.int32(target.top.root), wp.int32(target.top.count)
    # The leaf that is searched, -1 in the top; and how many entries of the stack are the top's.
    leaf, floor = int(0), int(0)
    if target.is_scene != 0:
        leaf = -1
    running = bool(True)
    while running:
        while count == 0:
            code, count, other_code, other_count = step_into(target, code, local)
            if other_count >= 0:
                codes[top] = other_code
                counts[top] = other_count
                top += 1
        enters = leaf < 0 and count > 0
        if enters:
            # The first of some leaves; the others wait.
            leaf = target.ids[code]
            if count > 1:
                codes[top] = code + 1
                counts[top] = count - 1
                top += 1
            floor = top
            tree = target.parts[target.part_of[leaf]]
            enters = (target.masks[leaf] & query.mask) != 0 and tree.is_empty == 0
            if enters:
                o, d, error = moved_ray(target, leaf, exact.o, exact.d)
                local = local_ray(tree, o, d, query.t_min, wp.min(query.t_max, best.t), error)
                if local.state == OTHER or top + tree.depth >= STACK:
                    best.state = UNSURE
                    return best
                enters = local.state == MEETS
            code = tree.root
            count = tree.count
            seen_count = 0
        elif leaf >= 0:
            for i in range(code, code + count):
                if surely_missed(target, i, local):
                    continue
                if (target.bits[i] & query.mask) == 0:
                    continue
                prim = target.ids[i]
                sure, hit, t = _test(target, leaf, prim, exact, query)
                if not sure:
                    best.state = UNSURE
                    return best
                if not hit:
                    continue
                if query.goal >= COUNT:
                    if wp.abs(target.triangles[i, 2][3]) > ONE4:
                        # A triangle in several leaves counts once, where it is met first.
                        repeated = bool(False)
                        for j in range(seen_count):
                            repeated = repeated or seen[j] == prim
                        if repeated:
                            continue
                        if seen_count == SEEN_MOST:
                            best.state = UNSURE
                            return best
                        seen[seen_count] = prim
                        seen_count += 1
                    if query.goal == LIST:
                        _insert(
                            listing, wp.min(wp.int64(best.count), listing.capacity), t, leaf, prim
                        )
                    best.count += 1
                    continue
                if comes_before(t, leaf, prim, best.t, best.leaf, best.prim_id):
                    best.t = t
                    best.prim_id = prim
                    best.leaf = leaf
                    local.end = shortened(local, t)
                if query.goal == ANY:
                    return best
        if not enters:
            if target.is_scene != 0 and top == floor:
                leaf = -1
                local = ray
                if query.goal == CLOSEST and best.prim_id >= 0:
                    local.end = shortened(ray, best.t)
            running = top > 0
            if running:
                top -= 1
                code = codes[top]
                count = counts[top]
    return best


@wp.func
def trace(target: Target, o: wp.vec3d, d: wp.vec3d, query: RayQuery, listing: HitList):
    """Return the hits of a ray.

    A list has the first `capacity` of them by (t, leaf, prim_id); `count` is that of all.
    """
    best = Hit()
    best.t = INF
    best.prim_id = NO_HIT
    best.leaf = NO_HIT
    top = target.top
    if is_contracted(target.probe):
        best.state = CONTRACTED
        return best
    if top.is_empty != 0 or query.mask == 0 or not is_ray(o, d, query.t_min, query.t_max):
        return best
    ray = local_ray(top, o, d, query.t_min, query.t_max, f8(0.0))
    exact = ExactRay()
    exact.o = o
    exact.d = d
    scaled, floor, e, k = scaled_ray(o, d, top.farthest)
    exact.scaled = scaled
    exact.floor = floor
    exact.e = e
    exact.k = k
    if ray.state == OTHER or (ray.state == MEETS and not floor < INF):
        best.state = UNSURE
        return best
    if ray.state == MISSES:
        return best
    best = _search(target, ray, exact, query, listing, best)
    if query.goal == CLOSEST and best.prim_id >= 0 and best.state == SURE:
        moved, v0, v1, v2 = corners_of(target, best.leaf, best.prim_id)
        x = exact_measures(o, d, v0, v1, v2)
        best.u = x.u
        best.v = x.v
        best.front = wp.where(x.front, 1, 0)
        best.state = wp.where(moved and x.decided, SURE, UNSURE)
    return best
