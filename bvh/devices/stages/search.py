"""The search: float32 alone keeps, of each ray, the triangles that it may hit first.

By the filter of `tree.triangle_groups` a triangle is surely missed, surely hit, or unsure. With
its bounds (see `local_rays`) the parameter of a hit is within `lost` of T / den:
(T - lost) / den and (T + lost) / den bound it, and 2**-20 of each covers the rounding of these. A
sure hit ends the ray behind its interval, by `slack` more, which is above the rounding of t: what
begins behind that is hit later, in doubles, too, and is dropped. Where hits are counted nothing
ends a ray: sure hits are counted, others are kept.

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

# The bottom of the part of a leaf's tree on a stack.
LEAVE = 1 - 2**31
# What is searched in place of a leaf.
IN_TOP, IN_TREE = -1, -2
# A bound above all parameters of boxes.
NOT_MET = f4(3.0e38)
SHARE4 = f4(2.0**-20)


# What Warp has no words for: loads of 16 bytes, and the fused operation of slabs, in float32, where
# margins cover both. In the code for GPUs it has the remark `slab`: a test finds no other.
_LOAD = """
#if defined(__CUDA_ARCH__)
    const {kind}4 row = __ldg(reinterpret_cast<const {kind}4*>(rows.data) + i);
    return wp::vec_t<4, wp::{kind}32>(row.x, row.y, row.z, row.w);
#else
    return rows.data[i];
#endif
"""

_SLAB = """
    wp::vec_t<3, wp::float32> sum;
    for (int k = 0; k < 3; ++k)
#if defined(__CUDA_ARCH__)
        asm("fma.rn.f32 %0, %1, %2, %3; // slab" : "=f"(sum[k]) : "f"(a[k]), "f"(b[k]), "f"(c[k]));
#else
        sum[k] = a[k] * b[k] + c[k];
#endif
    return sum;
"""


@wp.func_native(_LOAD.format(kind="float"))
def _load(rows: wp.array2d(dtype=wp.vec4), i: int) -> wp.vec4:
    """Return a vector, counted through both axes."""


@wp.func
def load_three(rows: wp.array2d(dtype=wp.vec4), i: int):
    """Return row i of an array (n, 3) of vectors."""
    k = 3 * i
    return _load(rows, k), _load(rows, k + 1), _load(rows, k + 2)


@wp.func_native(_LOAD.format(kind="int"))
def load_codes(rows: wp.array(dtype=wp.vec4i), i: int) -> wp.vec4i:
    """Return row i of an array."""


@wp.func_native(_SLAB)
def slab(a: wp.vec3, b: wp.vec3, c: wp.vec3) -> wp.vec3:
    """Return a * b + c of each component, rounded once or twice."""


@wp.func
def _part_of(target: Target, leaf: wp.int32):
    """Return the tree of a leaf; the top, or the only tree, for those below 0."""
    if leaf < 0:
        return target.top
    return target.parts[target.part_of[leaf]]


@wp.func
def _frame_of(
    target: Target, leaf: wp.int32, o: wp.vec3d, d: wp.vec3d, query: RayQuery, most: wp.float64
):  # fmt: skip
    """Return a ray, up to `most`, in the frame of the tree of a leaf."""
    origin, direction, error = o, d, wp.float64(0.0)
    if leaf >= 0:
        origin, direction, error = moved_ray(target, leaf, o, d)
    t_max = wp.min(query.t_max, most)
    return local_rays.local_ray(
        _part_of(target, leaf), origin, direction, query.t_min, t_max, error
    )


@wp.func
def _entry(
    low: wp.vec3, high: wp.vec3, inverse: wp.vec3, lower: wp.vec3, upper: wp.vec3, reach: wp.vec2
):  # fmt: skip
    """Return where a ray enters the box low..high, NOT_MET if it does not within `reach`."""
    a, b = slab(low, inverse, lower), slab(high, inverse, upper)
    enter = wp.max(wp.max(wp.min(a, b)), reach[0])
    return wp.where(enter <= wp.min(wp.min(wp.max(a, b)), reach[1]), enter, NOT_MET)


@functools.cache
def search_function(size: int, with_scenes: bool, each: bool) -> Any:
    """Return the search of trees, or of scenes and trees, whose nodes fit on a stack of some size.

    It keeps the triangles that a ray may hit first; if `each` hit counts, all whose hits are not
    sure, or all that are to be listed.
    """
    stack_type = wp.types.vector(length=size, dtype=wp.int32)

    @wp.func
    def search(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """Keep the triangles that a ray may hit; return its next queue."""
        i = row_at(work, place)
        o, d, q = ray_of(rays, query, i)
        work.known[place] = marks.MISSED
        if each:
            if query.goal == marks.COUNT:
                columns.counts[i] = wp.int64(0)
            elif columns.offsets[i + 1] == columns.offsets[i]:
                return marks.NO_QUEUE
        if target.top.is_empty != 0 or q.mask == 0 or not local_rays.is_ray(o, d, q.t_min, q.t_max):
            return marks.NO_QUEUE
        stack = stack_type()
        stack[0] = marks.DONE
        top, kept, single, total = int(1), int(0), int(0), int(0)
        # The leaf that is searched, or IN_TOP or IN_TREE; the leaf of `single`; and in a scene a
        # bound of the closest hit so far, and where the first of those kept may be hit.
        lists = query.goal == marks.LIST
        leaf, single_leaf, most, nearest = int(IN_TREE), int(0), ONE * INF, ONE * INF
        if with_scenes:
            leaf = wp.where(target.is_scene != 0, IN_TOP, IN_TREE)
        # A node, or ~(first triangle) of a leaf.
        code = wp.where(target.top.count > 0, ~target.top.root, target.top.root)
        searching = bool(True)
        while searching:
            if with_scenes:
                # Loaded again, as registers are few.
                o, d, q = ray_of(rays, query, i)
                ray = _frame_of(target, leaf, o, d, q, most)
            else:
                ray = local_rays.local_ray(target.top, o, d, q.t_min, q.t_max, f8(0.0))
            if ray.state == local_rays.OTHER:
                work.known[place] = marks.LISTED
                return marks.UNDECIDED
            if ray.state == local_rays.MISSES:
                # The last entry is that of the frame.
                top -= 1
                code = stack[top]
                if with_scenes:
                    if leaf < 0:
                        code = int(marks.DONE)
            first, last = local_rays.sure_range(ray, q.t_min, q.t_max)
            p, toward, inverse = ray.p, ray.d, ray.inverse
            lower, upper = ray.lower, ray.upper
            low, end, edge, t_error = ray.low, wp.float32(ray.end), ray.edge, ray.t_error
            slack, mask = f4(ray.slack), q.mask
            # Where the first of those kept may be hit, in a tree; the sides of faces in the world.
            earliest, turned = f4(wp.inf), int(1)
            if with_scenes:
                if query.cull != 0 and leaf >= 0:
                    turned = handedness(target, leaf)
            while code > LEAVE:
                while code >= 0:
                    x, y, z = load_three(target.boxes, code)
                    pair = load_codes(target.children, code)
                    reach = wp.vec2(low, end)
                    a, b = wp.vec3(x[0], y[0], z[0]), wp.vec3(x[1], y[1], z[1])
                    enter = _entry(a, b, inverse, lower, upper, reach)
                    a, b = wp.vec3(x[2], y[2], z[2]), wp.vec3(x[3], y[3], z[3])
                    other = _entry(a, b, inverse, lower, upper, reach)
                    one = wp.where(pair[1] > 0, ~pair[0], pair[0])
                    two = wp.where(pair[3] > 0, ~pair[2], pair[2])
                    swap = other < enter
                    code = wp.where(swap, two, one)
                    if wp.max(enter, other) < NOT_MET:
                        stack[top] = wp.where(swap, one, two)
                        top += 1
                    if wp.min(enter, other) >= NOT_MET:
                        top -= 1
                        code = stack[top]
                if code <= LEAVE:
                    break
                j = ~code
                if with_scenes:
                    if leaf == IN_TOP:
                        # The others of some leaves wait.
                        if target.bits[j] != 0:
                            stack[top] = ~(j + 1)
                            top += 1
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
                    more = z[3] > ZERO4
                    e1, e2 = wp.vec3(y[0], y[1], y[2]), wp.vec3(z[0], z[1], z[2])
                    n = wp.cross(e1, e2)
                    c = wp.vec3(x[0], x[1], x[2]) - p
                    r = wp.cross(c, toward)
                    den = wp.dot(toward, n)
                    u, v = wp.dot(r, e2), -wp.dot(r, e1)
                    w = (den - u) - v
                    margin = edge * x[3]
                    least, largest = wp.min(u, wp.min(v, w)), wp.max(u, wp.max(v, w))
                    if not (least < -margin and largest > margin):
                        along, size = wp.dot(n, c), wp.abs(den)
                        if den < ZERO4:
                            along = -along
                        lost = t_error * y[3] + local_rays.TINY
                        misses = along > end * size + lost or along < low * size - lost
                        sided = (least > margin or largest < -margin) and turned != 0
                        side = wp.where(den > ZERO4, turned, -turned)
                        misses = misses or (sided and side == query.cull)
                        if not misses and (target.bits[j] & mask) != 0:
                            from_t, to_t = (along - lost) / size, (along + lost) / size
                            from_t = from_t - wp.abs(from_t) * SHARE4
                            to_t = to_t + wp.abs(to_t) * SHARE4
                            # A quotient of 0 and 0 tells nothing.
                            if wp.isnan(from_t):
                                from_t = -f4(wp.inf)
                            sure = sided and from_t >= first and to_t <= last
                            keeps = bool(True)
                            if each:
                                # A triangle in several leaves of a tree counts once.
                                keeps = not sure or wp.abs(z[3]) > ONE4 or lists
                                if not keeps:
                                    total += 1
                            elif with_scenes:
                                if sure:
                                    end = wp.min(end, to_t + slack)
                                    most = wp.min(most, local_rays.in_world(ray, end, ONE))
                                    # All kept so far are behind it.
                                    if most < nearest:
                                        kept = 0
                                        nearest = ONE * INF
                                nearest = wp.min(nearest, local_rays.in_world(ray, from_t, -ONE))
                            else:
                                if sure:
                                    end = wp.min(end, to_t + slack)
                                    if end < earliest:
                                        kept = 0
                                        earliest = f4(wp.inf)
                                earliest = wp.min(earliest, from_t)
                            if keeps:
                                item = wp.where(sure, j | marks.SURELY, j)
                                if kept == 0:
                                    single = item
                                    single_leaf = leaf
                                elif kept < work.kept.shape[0]:
                                    work.kept[kept, place] = item
                                    if with_scenes:
                                        work.leaves[kept, place] = leaf
                                kept += 1
                            if not each:
                                if sure and query.goal == marks.ANY:
                                    work.known[place] = marks.FOUND
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
            work.leaves[0, place] = single_leaf
        if each:
            if query.goal == marks.COUNT:
                columns.counts[i] = wp.int64(total)
        else:
            if kept == 1 and (single & marks.SURELY) != 0:
                work.known[place] = single & marks.INDEX
                return marks.NO_QUEUE
        if kept == 0:
            return marks.NO_QUEUE
        work.known[place] = marks.LISTED
        work.kept_count[place] = kept
        work.kept[0, place] = single
        return wp.where(kept > work.kept.shape[0], marks.CROWDED, marks.DECIDE)

    return search


@functools.cache
def search_kernel(search: Any) -> Any:
    """Return the kernel that calls a search for each ray or point, and puts it into a queue."""

    @wp.kernel(module="unique", module_options=OPTIONS, grid_stride=False, cuda_max_registers=64)
    def search_rays(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns
    ):
        """Keep the triangles that each ray may hit."""
        place = wp.tid()
        queue = search(target, rays, query, work, columns, place)
        if queue != marks.NO_QUEUE:
            put(work, queue, place)

    return search_rays
