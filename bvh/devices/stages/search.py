"""The search of rays: float32 alone lists candidates, the triangles that a ray may hit first.

By the filter of `tree.triangle_groups` a triangle is surely missed, surely hit, or unsure. With
its bounds (see `local_rays`) the parameter of a hit is within `t_margin` of T / den:
(T - t_margin) / den and (T + t_margin) / den bound it, and 2**-20 of each covers the rounding of
these. A sure hit ends the ray behind its interval, by `slack` more, which is above the rounding of
t: what begins behind that is hit later, in doubles, too, and is dropped. Where hits are counted
nothing ends a ray: sure hits are counted, others become candidates.

In a scene a ray changes its frame: from the tree over leaves, the top, into the tree of a leaf, and
back. Bounds of hits in different leaves are compared as t of the world. The margins of a frame
cover what a moved ray is off there (see `moved`), so what is sure there is sure.
"""

import functools
from typing import Any

import warp as wp

from bvh.devices.exact.floats import INF, ONE, ONE4, OPTIONS, ZERO4, f4, f8
from bvh.devices.layout import Target
from bvh.devices.stages import local_rays, marks
from bvh.devices.stages.moved import handedness, moved_ray
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery, Work, put, ray_of, row_at

# A stack entry below the nodes of a leaf's tree: that tree is done. As DONE + 1 it is less than all
# codes of nodes and triangles.
LEAVE = 1 - 2**31
# Values of `leaf` while no leaf's tree is searched: in the top of a scene; in a single tree.
IN_TOP, IN_TREE = -1, -2
# A bound above all parameters of boxes.
NOT_MET = f4(3.0e38)
SHARE4 = f4(2.0**-20)


# Native code for what Warp cannot express: loads of 16 bytes, and the fused operation of slabs. The
# margins cover it fused or not. On GPUs it has the remark `slab`; a test rejects all without one.
_LOAD = """
#if defined(__CUDA_ARCH__)
    const {kind}4 row = __ldg(reinterpret_cast<const {kind}4*>(rows.data) + i);
    return wp::vec_t<4, wp::{kind}32>(row.x, row.y, row.z, row.w);
#else
    return rows.data[i];
#endif
"""

_SLAB = """
#if defined(__CUDA_ARCH__)
    float sum;
    asm("fma.rn.f32 %0, %1, %2, %3; // slab" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
    return sum;
#else
    return a * b + c;
#endif
"""


@wp.func_native(_LOAD.format(kind="float"))
def _load(rows: wp.array2d(dtype=wp.vec4), i: int) -> wp.vec4:
    """Return vector i of `rows`, counted through both axes."""


@wp.func
def load_three(rows: wp.array2d(dtype=wp.vec4), i: int):
    """Return the three vectors of row i of an array (n, 3), of boxes or of triangles."""
    k = 3 * i
    return _load(rows, k), _load(rows, k + 1), _load(rows, k + 2)


@wp.func_native(_LOAD.format(kind="int"))
def load_codes(rows: wp.array(dtype=wp.vec4i), i: int) -> wp.vec4i:
    """Return vector i of `rows`."""


@wp.func_native(_SLAB)
def slab(a: wp.float32, b: wp.float32, c: wp.float32) -> wp.float32:
    """Return a * b + c, rounded once or twice."""


@wp.func
def _part_of(target: Target, leaf: wp.int32):
    """Return the tree of a leaf as a `Part`; if `leaf` is below 0, the top or the only tree."""
    if leaf < 0:
        return target.top
    return target.parts[target.part_of[leaf]]


@wp.func
def _ray_in(
    target: Target, leaf: wp.int32, o: wp.vec3d, d: wp.vec3d, query: RayQuery, end_t: wp.float64
):  # fmt: skip
    """Return the `LocalRay` of the world ray o, d in the tree of a leaf, up to t = `end_t`.

    If `leaf` is below 0, the tree is the top, or the only tree. `query` has the range of the ray.
    """
    origin, direction, error = o, d, wp.float64(0.0)
    if leaf >= 0:
        origin, direction, error = moved_ray(target, leaf, o, d)
    t_max = wp.min(query.t_max, end_t)
    return local_rays.local_ray(
        _part_of(target, leaf), origin, direction, query.t_min, t_max, error
    )


@wp.func
def _entry(
    low: wp.vec3, high: wp.vec3, inverse: wp.vec3, lower: wp.vec3, upper: wp.vec3, reach: wp.vec2
):  # fmt: skip
    """Return tau where a ray enters the box low..high, NOT_MET if it does not within `reach`.

    `inverse`, `lower` and `upper` are those of `LocalRay`; `reach` is the first and the last tau.
    """
    a, b = slab(low[0], inverse[0], lower[0]), slab(high[0], inverse[0], upper[0])
    c, d = slab(low[1], inverse[1], lower[1]), slab(high[1], inverse[1], upper[1])
    e, f = slab(low[2], inverse[2], lower[2]), slab(high[2], inverse[2], upper[2])
    enter = wp.max(wp.max(wp.min(a, b), wp.min(c, d)), wp.max(wp.min(e, f), reach[0]))
    leave = wp.min(wp.min(wp.max(a, b), wp.max(c, d)), wp.min(wp.max(e, f), reach[1]))
    return wp.where(enter <= leave, enter, NOT_MET)


@functools.cache
def search_function(size: int, with_scenes: bool, every_hit: bool) -> Any:
    """Return the function `search` below, whose stack has `size` entries.

    It searches a tree or, only `with_scenes`, a scene. Without `every_hit` it serves the goals
    CLOSEST and ANY: candidates are the triangles that a ray may hit first. With `every_hit` it
    serves COUNT, where candidates are those whose hits are not sure, and LIST, where they are all.
    """
    stack_type = wp.types.vector(length=size, dtype=wp.int32)

    @wp.func
    def search(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """Search for the ray at a place of `work`; return its next queue (see `marks`) or NO_QUEUE.

        Its outcome and candidates are written to `work` at this place, and for the goal COUNT the
        number of its sure hits to `columns`.
        """
        i = row_at(work, place)
        o, d, q = ray_of(rays, query, i)
        work.outcome[place] = marks.MISSED
        if every_hit:
            if query.goal == marks.COUNT:
                columns.counts[i] = wp.int64(0)
            elif columns.offsets[i + 1] == columns.offsets[i]:
                # The ray has no hits, or none is to be listed.
                return marks.NO_QUEUE
        if target.top.is_empty != 0 or q.mask == 0 or not local_rays.is_ray(o, d, q.t_min, q.t_max):
            return marks.NO_QUEUE
        stack = stack_type()
        stack[0] = marks.DONE
        top, count, first_item, total = int(1), int(0), int(0), int(0)
        listing = query.goal == marks.LIST
        # The leaf that is searched, or IN_TOP or IN_TREE; that of the first candidate; and in a
        # scene bounds of t: of the closest sure hit, and of the earliest hit of a candidate. They
        # begin as products, as Warp would change the constant itself.
        leaf, first_leaf, end_t, earliest_t = int(IN_TREE), int(0), ONE * INF, ONE * INF
        if with_scenes:
            leaf = wp.where(target.is_scene != 0, IN_TOP, IN_TREE)
        # A node, or ~(first triangle) of a leaf.
        code = wp.where(target.top.count > 0, ~target.top.root, target.top.root)
        searching = bool(True)
        while searching:
            if with_scenes:
                # Loaded again, as registers are few.
                o, d, q = ray_of(rays, query, i)
                ray = _ray_in(target, leaf, o, d, q, end_t)
            else:
                ray = local_rays.local_ray(target.top, o, d, q.t_min, q.t_max, f8(0.0))
            if ray.state == local_rays.OTHER:
                work.outcome[place] = marks.LISTED
                return marks.UNDECIDED
            if ray.state == local_rays.MISSES:
                # The tree is done: pop LEAVE, or end the search if it is the top or the only tree.
                top -= 1
                code = stack[top]
                if with_scenes:
                    if leaf < 0:
                        code = int(marks.DONE)
            sure_low, sure_high = local_rays.sure_range(ray, q.t_min, q.t_max)
            p, toward, inverse = ray.p, ray.d, ray.inverse
            lower, upper = ray.lower, ray.upper
            low, end, edge, t_error = ray.low, wp.float32(ray.end), ray.edge, ray.t_error
            slack, mask = f4(ray.slack), q.mask
            # A lower bound of tau of all candidates, in a single tree; 1, -1 or 0 of `handedness`.
            earliest, handed = f4(wp.inf), int(1)
            if with_scenes:
                if query.cull != 0 and leaf >= 0:
                    handed = handedness(target, leaf)
            while code > LEAVE:
                while code >= 0:
                    x, y, z = load_three(target.boxes, code)
                    pair = load_codes(target.children, code)
                    reach = wp.vec2(low, end)
                    a, b = wp.vec3(x[0], y[0], z[0]), wp.vec3(x[1], y[1], z[1])
                    enter = _entry(a, b, inverse, lower, upper, reach)
                    a, b = wp.vec3(x[2], y[2], z[2]), wp.vec3(x[3], y[3], z[3])
                    other = _entry(a, b, inverse, lower, upper, reach)
                    left = wp.where(pair[1] > 0, ~pair[0], pair[0])
                    right = wp.where(pair[3] > 0, ~pair[2], pair[2])
                    swap = other < enter
                    code = wp.where(swap, right, left)
                    if wp.max(enter, other) < NOT_MET:
                        stack[top] = wp.where(swap, left, right)
                        top += 1
                    if wp.min(enter, other) >= NOT_MET:
                        top -= 1
                        code = stack[top]
                if code <= LEAVE:
                    break
                j = ~code
                if with_scenes:
                    if leaf == IN_TOP:
                        # A leaf of the top has one scene leaf.
                        item = target.ids[j]
                        tree = _part_of(target, item)
                        if (target.masks[item] & mask) != 0 and tree.is_empty == 0:
                            leaf = item
                            stack[top] = LEAVE
                            top += 1
                            code = wp.where(tree.count > 0, ~tree.root, tree.root)
                            break
                        top -= 1
                        code = stack[top]
                        continue
                more = bool(True)
                while more:
                    x, y, z = load_three(target.triangles, j)
                    # The mark is negative for the last of the leaf.
                    more = z[3] > ZERO4
                    e1, e2 = wp.vec3(y[0], y[1], y[2]), wp.vec3(z[0], z[1], z[2])
                    n = wp.cross(e1, e2)
                    c = wp.vec3(x[0], x[1], x[2]) - p
                    r = wp.cross(c, toward)
                    den = wp.dot(toward, n)
                    u, v = wp.dot(r, e2), -wp.dot(r, e1)
                    w = (den - u) - v
                    # The weights u, v and w, times den, have one sign where the triangle is hit; t,
                    # below, is along / size. Margins bound their errors.
                    margin = edge * x[3]
                    least, largest = wp.min(u, wp.min(v, w)), wp.max(u, wp.max(v, w))
                    if not (least < -margin and largest > margin):
                        along, size = wp.dot(n, c), wp.abs(den)
                        if den < ZERO4:
                            along = -along
                        t_margin = t_error * y[3] + local_rays.TINY
                        misses = along > end * size + t_margin or along < low * size - t_margin
                        sided = (least > margin or largest < -margin) and handed != 0
                        side = wp.where(den > ZERO4, handed, -handed)
                        misses = misses or (sided and side == query.cull)
                        if not misses and (target.bits[j] & mask) != 0:
                            low_t, high_t = (along - t_margin) / size, (along + t_margin) / size
                            low_t = low_t - wp.abs(low_t) * SHARE4
                            high_t = high_t + wp.abs(high_t) * SHARE4
                            # A quotient of 0 and 0 tells nothing.
                            if wp.isnan(low_t):
                                low_t = -f4(wp.inf)
                            sure = sided and low_t >= sure_low and high_t <= sure_high
                            is_candidate = bool(True)
                            if every_hit:
                                # A triangle in several leaves counts once, as a candidate.
                                is_candidate = not sure or wp.abs(z[3]) > ONE4 or listing
                                if not is_candidate:
                                    total += 1
                            elif with_scenes:
                                if sure:
                                    end = wp.min(end, high_t + slack)
                                    end_t = wp.min(end_t, local_rays.in_world(ray, end, ONE))
                                    # All candidates so far are behind it.
                                    if end_t < earliest_t:
                                        count = 0
                                        earliest_t = ONE * INF
                                earliest_t = wp.min(
                                    earliest_t, local_rays.in_world(ray, low_t, -ONE)
                                )
                            else:
                                if sure:
                                    end = wp.min(end, high_t + slack)
                                    if end < earliest:
                                        count = 0
                                        earliest = f4(wp.inf)
                                earliest = wp.min(earliest, low_t)
                            if is_candidate:
                                item = wp.where(sure, j | marks.SURELY, j)
                                if count == 0:
                                    first_item = item
                                    first_leaf = leaf
                                elif count < work.candidates.shape[0]:
                                    work.candidates[count, place] = item
                                    if with_scenes:
                                        work.leaves[count, place] = leaf
                                count += 1
                            if not every_hit:
                                if sure and query.goal == marks.ANY:
                                    work.outcome[place] = marks.FOUND
                                    return marks.NO_QUEUE
                    j += 1
                top -= 1
                code = stack[top]
            searching = bool(False)
            if with_scenes:
                if code == LEAVE:
                    leaf = int(IN_TOP)
                    top -= 1
                    code = stack[top]
                searching = code != marks.DONE
        if with_scenes:
            work.leaves[0, place] = first_leaf
        if every_hit:
            if query.goal == marks.COUNT:
                columns.counts[i] = wp.int64(total)
        else:
            if count == 1 and (first_item & marks.SURELY) != 0:
                work.outcome[place] = first_item & marks.INDEX
                return marks.NO_QUEUE
        if count == 0:
            return marks.NO_QUEUE
        work.outcome[place] = marks.LISTED
        work.candidate_count[place] = count
        work.candidates[0, place] = first_item
        return wp.where(count > work.candidates.shape[0], marks.CROWDED, marks.DECIDE)

    return search


@functools.cache
def search_kernel(search: Any) -> Any:
    """Return a kernel that runs `search`, of rays or points, for each, and puts it into a queue."""

    @wp.kernel(module="unique", module_options=OPTIONS, grid_stride=False, cuda_max_registers=64)
    def search_rays(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns
    ):
        """List the candidates of the ray or point of this thread, and put it into its next queue.

        `search` returns that queue (see `marks`), or NO_QUEUE if nothing is left to be decided.
        """
        place = wp.tid()
        queue = search(target, rays, query, work, columns, place)
        if queue != marks.NO_QUEUE:
            put(work, queue, place)

    return search_rays
