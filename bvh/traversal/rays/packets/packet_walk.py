"""Packets: rays that visit nodes together, and leaves one by one.

A packet is a run of vectors of rays of one octant. Nodes are tested for all of its rays together,
by intervals: a child is left out only if no ray between them enters it. At a leaf each vector of
rays is tested against the leaf's box, and each ray that enters it against a group of triangles at
once, straight from the ray block.

The interval test. Each ray has an anchor a = o + d s, a point on its line: s is that of SURE_LOW,
where a camera stands, or of SURE_HIGH, where a lamp does. Where any hit will do, the anchors that
are closer together are taken; with the latter the packet goes backwards, along -d. With i the
inverses of the directions and c the size of one component of d, the point at r from a is
a + (r c) / (i c): on one axis i c is the same for all rays, on the others it is a slope. For i > 0
(and mirrored for i < 0) a near plane p is met at an r c no less than min((p - a) i c) over the box
of anchors and that of i c, which their corners bound; a far plane at no more than max. No c is
below LEAST_SCALE: with i c = 0, infinite planes, those of an unused lane, would be met nowhere.

With e = 2**-24 and A the largest anchor, p - a is at most A + B. Rounding of o (e B), of d and of
its product with s (2 e (A + B)) and of the sum (e A) moves an anchor by 3 e (A + B) in sum;
rounding of p - a, of the product, and of i c (four roundings) moves a plane by 6 e (A + B), and
that of an anchor less the margin by e A. A margin of 10 e (A + B) covers all, with e B to spare
(see `moved_rays`). Anchors beyond FARTHEST are replaced by a nearer point of the line.
"""

from collections.abc import Callable

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays import blocks
from bvh.traversal.rays.blocks import GROUP, OCTANTS, PACKET, PACKET_RAYS, lane_index
from bvh.traversal.rays.candidates import accept_group, candidates_of, filter_ray
from bvh.traversal.rays.packets.packet_closest import PacketStack, load_packed, store_packed
from bvh.traversal.rays.slots import ALONE
from bvh.tree import frame as frames
from bvh.tree import wide_nodes
from bvh.tree.instanced import by_scene
from bvh.tree.triangle_groups import UNIT, load_group

F = np.float32
PACKET_MARGIN = F(10.0 * UNIT)
FARTHEST = F(16.0)
# Pays for the rounding of the interval of r c.
PART = F(2.0**-20)
LEAST_SCALE = F(2.0**-10)
# Nodes and leaves that a packet may visit before it must pay for them: each ray that enters a leaf
# pays for one. A packet that cannot pay has rays that go apart, and are faster singly.
FREE_STEPS = 8 + 64 // WIDTH
# In a scene, where a packet that gives up must be traced anew.
FREE_STEPS_IN_SCENE = 2 * PACKET_RAYS


# The largest lane.
_highest = inlined(lambda vector: -simd.lowest(-vector))


@inlined
def _active(lanes, at):
    """Return the mask of a vector's rays that are not done."""
    return blocks.ends(lanes, at, WIDTH) > F(-INF)


@inlined
def _anchor(lanes, at, side, reach):
    """Return where the anchors of a vector of rays are on them: at SURE_LOW, with 1 SURE_HIGH."""
    limit = FARTHEST * reach
    return simd.greater(simd.lesser(blocks.sure_limits(lanes, at, side), limit), -limit)


@inlined
def _scale(lanes, at, axis):
    """Return the scales c of a vector of rays, by the size of a component of directions."""
    # Not zero: an inverse times that could not tell an unused lane of a node from a child.
    return simd.greater(abs(blocks.components(lanes, at, axis)), simd.splat(LEAST_SCALE, WIDTH))


@inlined
def _hull(hull, values, active):
    """Return (low, high), lane by lane, with the values of active lanes."""
    low, high = hull
    return simd.lesser(low, simd.select(active, values, low)), simd.greater(
        high, simd.select(active, values, high)
    )


_extremes = inlined(lambda hull: (simd.lowest(hull[0]), _highest(hull[1])))


@inlined
def _anchors(lanes, begin, end, side, reach):
    """Return the ranges of the anchors of a packet, by axis."""
    x = y = z = simd.splat(F(INF), WIDTH), simd.splat(F(-INF), WIDTH)
    for at in range(begin, end, GROUP):
        active, s = _active(lanes, at), _anchor(lanes, at, side, reach)
        px, py, pz = blocks.origins(lanes, at, WIDTH)
        dx, dy, dz = blocks.directions(lanes, at, WIDTH)
        x, y = _hull(x, simd.fma(dx, s, px), active), _hull(y, simd.fma(dy, s, py), active)
        z = _hull(z, simd.fma(dz, s, pz), active)
    return _extremes(x), _extremes(y), _extremes(z)


@inlined
def _inverses(lanes, begin, end, along):
    """Return the ranges of the inverses of a packet, by axis, times c, that of the axis `along`."""
    x = y = z = simd.splat(F(INF), WIDTH), simd.splat(F(-INF), WIDTH)
    for at in range(begin, end, GROUP):
        active, size = _active(lanes, at), _scale(lanes, at, along)
        ix, iy, iz = blocks.inverses(lanes, at, WIDTH)
        x, y = _hull(x, ix * size, active), _hull(y, iy * size, active)
        z = _hull(z, iz * size, active)
    return _extremes(x), _extremes(y), _extremes(z)


@inlined
def _interval(lanes, begin, end, way, reach):
    """Return the interval of r c of a packet's active rays; `way` is (anchors' side, c's axis)."""
    side, along = way
    hull = simd.splat(F(INF), WIDTH), simd.splat(F(-INF), WIDTH)
    for at in range(begin, end, GROUP):
        active, size = _active(lanes, at), _scale(lanes, at, along)
        s, last = _anchor(lanes, at, side, reach), blocks.ends(lanes, at, WIDTH)
        backwards = side == 1
        first = s - last if backwards else -s
        last = s if backwards else last - s
        hull = _hull(hull, first * size, active)
        hull = _hull(hull, last * size, active)
    low, high = _extremes(hull)
    if low > high:
        # No ray is active: nothing is left to visit.
        return low, high
    return low - abs(low) * PART, high + abs(high) * PART


_span = inlined(lambda range_of_axis: range_of_axis[1] - range_of_axis[0])
_size = inlined(lambda range_of_axis: max(-range_of_axis[0], range_of_axis[1]))


@inlined
def _axis(anchors, inverses, negative, margin):
    """Return the interval of an axis: anchors for near and far planes, and both inverses."""
    low, high = anchors[0] - margin, anchors[1] + margin
    near, far = (low, high) if negative else (high, low)
    return (
        simd.splat(near, WIDTH),
        simd.splat(far, WIDTH),
        simd.splat(inverses[0], WIDTH),
        simd.splat(inverses[1], WIDTH),
    )


@inlined
def _longest_axis(lanes, begin):
    """Return the axis along which the first ray of a packet points most."""
    k = begin + lane_index(
        simd.lowest_bit(simd.mask_bits(_active(lanes, begin)) | 1 << (WIDTH - 1))
    )
    x, y, z = blocks.direction(lanes, k)
    x, y, z = abs(x), abs(y), abs(z)
    return np.int64(0) if x >= y and x >= z else (np.int64(1) if y >= z else np.int64(2))


@inlined
def _beam(lanes, begin, end, octant, any_hit, reach):
    """Return the intervals of a packet by axis, its octant, and its way for `_interval`."""
    along, side = _longest_axis(lanes, begin), np.int64(0)
    ix, iy, iz = _inverses(lanes, begin, end, along)
    ax, ay, az = _anchors(lanes, begin, end, side, reach)
    if any_hit:
        bx, by, bz = _anchors(lanes, begin, end, np.int64(1), reach)
        if _span(bx) + _span(by) + _span(bz) < _span(ax) + _span(ay) + _span(az):
            ax, ay, az = bx, by, bz
            ix, iy, iz = (-ix[1], -ix[0]), (-iy[1], -iy[0]), (-iz[1], -iz[0])
            octant, side = octant ^ (OCTANTS - 1), np.int64(1)
    margin = PACKET_MARGIN * (reach + max(_size(ax), max(_size(ay), _size(az))))
    x = _axis(ax, ix, octant & 1 != 0, margin)
    y = _axis(ay, iy, octant & 2 != 0, margin)
    z = _axis(az, iz, octant & 4 != 0, margin)
    return x, y, z, octant, (side, along)


@inlined
def _sooner(nodes, at, axis):
    near, _, low, high = axis
    away = simd.load(nodes, at, WIDTH) - near
    return simd.lesser(away * low, away * high)


@inlined
def _later(nodes, at, axis):
    _, far, low, high = axis
    away = simd.load(nodes, at, WIDTH) - far
    return simd.greater(away * low, away * high)


@inlined
def enter_box(nodes, box, lanes, at, planes):
    """Return which rays of a vector enter a box."""
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = blocks.inverses(lanes, at, WIDTH)
    near_x, near_y, near_z = blocks.nears(lanes, at, WIDTH)
    tx = simd.fma(simd.splat(simd.peek(nodes, box + nx), WIDTH), ix, near_x)
    ty = simd.fma(simd.splat(simd.peek(nodes, box + ny), WIDTH), iy, near_y)
    tz = simd.fma(simd.splat(simd.peek(nodes, box + nz), WIDTH), iz, near_z)
    first = simd.greater(simd.greater(tx, ty), simd.greater(tz, simd.splat(F(0.0), WIDTH)))
    far_x, far_y, far_z = blocks.fars(lanes, at, WIDTH)
    tx = simd.fma(simd.splat(simd.peek(nodes, box + fx), WIDTH), ix, far_x)
    ty = simd.fma(simd.splat(simd.peek(nodes, box + fy), WIDTH), iy, far_y)
    tz = simd.fma(simd.splat(simd.peek(nodes, box + fz), WIDTH), iz, far_z)
    last = simd.lesser(simd.lesser(tx, ty), simd.lesser(tz, blocks.ends(lanes, at, WIDTH)))
    return simd.mask_bits(first <= last)


# For the scratch of a packet in a tree, or in the TLAS of a scene, what it does at a leaf.
LEAVES: dict[type, Callable[..., object]] = {}


@by_type(inline=True)
def intersect_leaf(goal, tree, block, context_ref, stack, packet, child, box, planes):
    """Intersect a packet's rays with a leaf.

    Returns whether any may have a new closest hit, and how many enter the leaf's box.
    `packet` is where its vectors of rays begin and end, `stack` its scratch.
    """
    return LEAVES[stack.instance_class]


def _intersect_leaf(goal, tree, block, context_ref, stack, packet, child, box, planes):
    memory, slot, (begin, end) = stack.slot, np.int64(ALONE), packet
    inside, shift = np.int64(0), np.int64(0)
    for at in range(begin, end, GROUP):
        inside |= np.int64(enter_box(tree.blocks, box, block.lanes, at, planes)) << shift
        shift += WIDTH
    if inside == 0:
        return False, np.int64(0)
    group, count = wide_nodes.leaf_rows(child)
    changed = False
    for g in range(group, group + count):
        triangles, bits = load_group(tree.groups, g), inside
        while bits != 0:
            r = begin + lane_index(simd.lowest_bit(bits))
            bits &= bits - 1
            ray = blocks.numbers_of(block.lanes, r)
            found = filter_ray(tree.primitives, triangles, ray, blocks.end(block.lanes, r))
            if found.bits != 0:
                changed = True
                load_packed(tree.primitives, block, memory, slot, r)
                candidates = candidates_of(ray, found)
                accept_group(goal, tree, block, context_ref, memory, slot, g, candidates)
                store_packed(tree.primitives, block, memory, slot, r)
    return changed, simd.popcount(inside)


LEAVES[PacketStack] = _intersect_leaf


_free_steps = by_scene(
    lambda tree: np.int64(FREE_STEPS), lambda tree: np.int64(FREE_STEPS_IN_SCENE)
)


@kernel
def trace_packet(context, stack, begin, end, octant, reach, goal):
    """Trace the vectors of rays begin..end of a block, all of one octant, through a tree."""
    # `reach` bounds their origins. Returns False if their paths differ so much that it gave up;
    # what was found so far is kept.
    tree, _, block = context
    context_ref = refer(context)
    lanes, nodes = block.lanes, tree.blocks
    nx, ny, nz = wide_nodes.near_planes(octant)
    planes = wide_nodes.all_planes(nx, ny, nz)
    x, y, z, octant, way = _beam(lanes, begin, end, octant, goal.any_hit, reach)
    # Of the rays' way through nodes, which may be backwards.
    nx, ny, nz = wide_nodes.near_planes(octant)
    _, _, _, fx, fy, fz = wide_nodes.all_planes(nx, ny, nz)
    shift = np.int32(wide_nodes.octant_shift(octant))
    start, limit = _interval(lanes, begin, end, way, reach)
    start = simd.splat(start, WIDTH)
    child, box, top = np.int64(0), np.int64(0), np.int64(0)
    steps = _free_steps(tree)
    while steps > 0:
        steps -= 1
        if child >= 0:
            at = wide_nodes.node_at(child)
            first = simd.greater(
                simd.greater(_sooner(nodes, at + nx, x), _sooner(nodes, at + ny, y)),
                simd.greater(_sooner(nodes, at + nz, z), start),
            )
            last = simd.lesser(
                simd.lesser(_later(nodes, at + fx, x), _later(nodes, at + fy, y)),
                simd.lesser(_later(nodes, at + fz, z), simd.splat(limit, WIDTH)),
            )
            order = wide_nodes.child_orders(nodes, at, WIDTH) >> shift
            first = simd.permute(first, order)
            # An unused lane begins at inf and ends at -inf, for neither i nor c is zero.
            bits = simd.mask_bits(first <= simd.permute(last, order))
            if bits != 0:
                front = simd.compress_order(bits)
                children = simd.permute(wide_nodes.child_codes(nodes, at, WIDTH), order)
                simd.store(stack.children, top, simd.permute(children, front))
                simd.store(stack.entries, top, simd.permute(first, front))
                lanes_entered = simd.permute(order, front) & np.int32(WIDTH - 1)
                simd.store(stack.boxes, top, lanes_entered + np.int32(child * WIDTH))
                top += simd.popcount(bits)
        else:
            changed, entered = intersect_leaf(
                goal, tree, block, context_ref, stack, (begin, end), child, box, planes
            )
            steps += entered
            if changed:
                _, limit = _interval(lanes, begin, end, way, reach)
        # Take the next entry that does not begin behind all closest hits.
        top -= 1
        while top >= 0 and simd.peek(stack.entries, top) > limit:
            top -= 1
        if top < 0:
            return True
        child = np.int64(simd.peek(stack.children, top))
        # The next two come soon.
        soon = np.int64(simd.peek(stack.children, max(top - 1, np.int64(0))))
        wide_nodes.prefetch_child(nodes, tree.groups, soon, 8)
        soon = np.int64(simd.peek(stack.children, max(top - 2, np.int64(0))))
        wide_nodes.prefetch_child(nodes, tree.groups, soon, 8)
        box = wide_nodes.child_at(np.int64(simd.peek(stack.boxes, top)))
    return False


def trace_in_tree(tree, context, scratch, begin, octant, goal):
    """Trace a packet, its rays all of one octant; return whether that is done."""
    reach = F(frames.bound(tree.frame))
    return trace_packet(context, scratch.below, begin, begin + PACKET, octant, reach, goal)
