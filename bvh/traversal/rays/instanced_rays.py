"""Rays in a scene: from its TLAS to its BLAS and back, and their setup at each instance.

At a leaf of the TLAS a single ray is transformed into the frame of an instance's BLAS and continues
there, in the same slot and on the same stack; when nothing is left of the BLAS, it returns.

The local transform x'' = A x' + b maps the one to the other (see `instanced`); both frames are
scaled by powers of two, so t'' = t' * 2**k. The rest is `ray_setup.set_up_ray`, with one more
error: *delta*, the distance that a primitive, in its float32 rows, may be away from its exact
position relative to the ray. With a the largest row sum of abs(A) and B the bound of the tree's
frame, delta is the sum of

- the origin's: P = o' + entry d' in the TLAS is off by eta <= 2**-51 (max(abs(P)) +
  2 abs(entry)) (far origins are summed in double-doubles), and A P + b by a eta, by 2**-50 a
  max(abs(P)) for its own rounding and that of A, and by the error of b;
- the direction's: A d' is off by 2**-49 a a component, which over a length of
  max(abs(A P + b)) + 4 B moves the ray by that many times 2**-49 a / max(abs(A d')), and by 2**-50
  of it for the clipping;
- delta_v: a vertex of the tree is the ideal image of the moved vertex, which is rounded by 2**-53
  of its coordinates, but for 2**-53 abs(M**-1) times those.

Where delta is beyond 2**-10 B, the float32 tests are disabled in this instance, as in
`set_up_ray`: all is decided exactly.

Bounds of the filter (extending those of `triangle_groups`). C is off by delta more: that is
delta D s for U and V. Edges are off by 2 delta_v: N by 2 delta_v s + 8 delta_v**2 a component,
U and V by 25.2 B D delta_v + 12 delta D delta_v in sum, den by D times that of N. So W, the worst,
needs 3 delta D tolerance + 27.5 B D delta_v more, and T and t * den together
delta M + 26 B delta_v tolerance + 105 B delta_v**2.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF, exponent, largest, power_of_two, scale_by
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import address, peek, peek_int, poke, poke_int
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_memory import (
    BASE,
    BEST,
    BEST_LOW,
    BLAS_ENTRY,
    BLAS_SCALE,
    EDGE_FLOOR,
    END,
    ENTRY,
    ENTRY_REST,
    EXACT,
    EXACT_T,
    GROUPS_ADDRESS,
    HIGH_T,
    IDS_ADDRESS,
    INSTANCE,
    INVERSE,
    LOW_T,
    NODES_ADDRESS,
    OCTANT,
    SHIFT,
    SLACK,
    STACK_CHILDREN,
    STACK_ENTRIES,
    T_FLOOR,
    T_SLOPE,
    TLAS_DIRECTION,
    TLAS_ERROR,
    TLAS_ORIGIN,
    TLAS_SCALE,
    batch_index,
    instance_in,
    ray_of,
    read_double,
    read_int,
    read_row,
    reset_closest,
    slot_doubles,
    slot_integers,
    tlas_distance,
    write_octant,
    write_row,
)
from bvh.traversal.rays.ray_setup import (
    MARGIN,
    NEAR_ORIGIN,
    UP,
    Limits,
    advance,
    clip_axis,
    disabled_axis,
    disabled_limits,
    inverse_of,
    local_origin,
    octant_of,
    write_axis,
    write_limits,
)
from bvh.tree import frame as frames
from bvh.tree.instanced import (
    BOUND,
    HIGHEST,
    LOWEST,
    NORM,
    SHIFT_ERROR,
    TRANSFORM_SIZE,
    VERTEX_ERROR,
    leaf_of,
    local_direction,
    local_point,
    row_of,
)
from bvh.tree.rows import GROUPS, IDS, NODES
from bvh.tree.triangle_groups import EDGE_ERROR, T_BOUND, TINY, UNIT
from bvh.tree.wide_nodes import first_row

F = np.float32
# The float32 tests are disabled in an instance beyond this share of the bound.
WORST = 2.0**-10
# Scales of instances within which nothing over- or underflows.
MIN_SCALE, MAX_SCALE = 2.0**-400, 2.0**400
# Powers of two between t and the distances of the TLAS: doubles that differ do so there.
MAX_SHIFT = 980


@inlined
def _start(tree, block, own, r, o, d):
    """Compute what all instances that a ray enters share: see `ray_memory.TLAS_ORIGIN`.

    The scale of t is zero where t would overflow, or lose digits, in the TLAS.
    """
    frame = tree.frame
    shift = int(read_double(block, r, SHIFT))
    k = frames.exponent(frame) - shift
    x = scale_by(d[0], k), scale_by(d[1], k), scale_by(d[2], k)
    entry, rest = read_double(block, r, ENTRY), read_double(block, r, ENTRY_REST)
    p, low = local_origin(frame, o)
    if largest(p) <= NEAR_ORIGIN:
        p = p[0] + entry * x[0], p[1] + entry * x[1], p[2] + entry * x[2]
        error = 2.0**-50 * abs(entry)
    else:
        p, low = advance(p, low, entry, x)
        p, _ = advance(p, low, rest, x)
        error = 2.0**-95 * abs(entry)
    for axis in range(3):
        poke(own, TLAS_ORIGIN + axis, p[axis])
        poke(own, TLAS_DIRECTION + axis, x[axis])
    poke(own, TLAS_ERROR, 2.0**-51 * largest(p) + error)
    poke(own, TLAS_SCALE, power_of_two(shift) if -MAX_SHIFT < shift < MAX_SHIFT else 0.0)


@inlined
def _clip(transforms, at, p, inverse, margin, start, stop):
    """Return (entry, exit) of a ray's stay in the root's box, enlarged by a margin."""
    for axis in range(3):
        low, high = peek(transforms, at + LOWEST + axis), peek(transforms, at + HIGHEST + axis)
        start, stop = clip_axis(low, high, p[axis], inverse[axis], margin, start, stop)
    return start, stop


@inlined
def _limit(t):
    """Keep infinities out of differences: nothing within reach of a ray is that far."""
    return min(max(t, -(2.0**500)), 2.0**500)


@inlined
def _open_tree(instanced, memory, slot, leaf):
    """Make a slot traverse the tree of an instance."""
    words, row = slot_integers(memory, slot), row_of(instanced, leaf)
    poke(words, NODES_ADDRESS, peek(row, NODES))
    poke(words, GROUPS_ADDRESS, peek(row, GROUPS))
    poke(words, IDS_ADDRESS, peek(row, IDS))
    poke_int(memory, slot + INSTANCE, leaf)


@kernel
def _enter_blas(tree, rays, block, memory, slot, r, leaf):
    """Set a slot's ray up for an instance; return False where it misses the box of its tree."""
    stay_outlined()
    instanced = tree.primitives
    index = batch_index(block, r)
    if peek(instanced.masks, leaf) & peek(rays.masks, index * rays.mask_step) == 0:
        return False
    transforms, at = instanced.transforms, leaf * TRANSFORM_SIZE
    bound, norm = peek(transforms, at + BOUND), peek(transforms, at + NORM)
    own = slot_doubles(memory, slot)
    if peek(own, TLAS_ERROR) < 0.0:
        o, d, _, _ = read_ray(rays, index)
        _start(tree, block, own, r, o, d)
    p = (peek(own, TLAS_ORIGIN), peek(own, TLAS_ORIGIN + 1), peek(own, TLAS_ORIGIN + 2))
    x = (peek(own, TLAS_DIRECTION), peek(own, TLAS_DIRECTION + 1), peek(own, TLAS_DIRECTION + 2))
    to_top = peek(own, TLAS_SCALE)
    q = local_direction(transforms, at, x)
    size = largest(q)
    disabled = read_row(block, r, SLACK) == F(INF) or to_top == 0.0
    if disabled or not (MIN_SCALE < size < MAX_SCALE and norm < MAX_SCALE):
        _open_tree(instanced, memory, slot, leaf)
        _disable(memory, slot, q, bound)
        return True
    error = peek(own, TLAS_ERROR) + 2.0**-50 * largest(p)
    delta = peek(transforms, at + SHIFT_ERROR) + norm * error
    p = local_point(transforms, at, p)
    k = exponent(size)
    unit = power_of_two(-k)
    q = (q[0] * unit, q[1] * unit, q[2] * unit)
    vertex_error = peek(transforms, at + VERTEX_ERROR)
    travel = largest(p) + 4.0 * bound
    delta += travel * (2.0**-50 + 2.0**-49 * norm / size) + vertex_error
    delta *= UP
    # From distances in the TLAS to those in the BLAS.
    scale = power_of_two(k)
    if not (delta <= WORST * bound and to_top * scale < 2.0**1000):
        _open_tree(instanced, memory, slot, leaf)
        _disable(memory, slot, q, bound)
        return True
    before, rest = read_double(block, r, ENTRY), read_double(block, r, ENTRY_REST)
    best = peek(own, HIGH_T) if peek(slot_integers(memory, slot), BEST) >= 0 else INF
    inverse = inverse_of(q[0]), inverse_of(q[1]), inverse_of(q[2])
    t_min, t_max = peek(rays.t_min, index * rays.low_step), peek(rays.t_max, index * rays.high_step)
    # Error of a distance in the TLAS, beside its own rounding.
    lost = 2.0**-50 * (abs(before) + 4.0 * frames.bound(tree.frame)) * scale
    start = (_limit(t_min * to_top) - before - rest) * scale
    stop = (_limit(t_max * to_top) - before - rest) * scale
    last = min(stop, (_limit(best * to_top) - before - rest) * scale)
    entry, leave = _clip(
        transforms, at, p, inverse, 2.0**-18 * bound + delta,
        start - abs(start) * 2.0**-50 - lost, last + abs(last) * 2.0**-50 + lost,
    )  # fmt: skip
    if entry > leave:
        return False
    _open_tree(instanced, memory, slot, leaf)
    margin = (MARGIN * bound + delta) * UP
    for axis in range(3):
        origin = p[axis] + entry * q[axis]
        write_axis(memory, slot + axis, 1, origin, q[axis], inverse[axis], margin)
    write_octant(memory, slot, octant_of(inverse))
    spread = abs(q[0]) + abs(q[1]) + abs(q[2])
    slack = 16.0 * UNIT * bound + 2.0**-50 * (abs(entry) + 4.0 * bound) + lost
    first = INF
    if best < INF:
        first = (_limit(peek(own, LOW_T) * to_top) - before - rest) * scale - entry - slack
    limits = Limits(
        (EDGE_ERROR * bound + 3.0 * delta) * spread * UP,
        (T_BOUND * bound + 1.1 * delta) * UP,
        max(start - entry, -bound) - slack,
        (leave - entry) * UP + slack,
        start + abs(start) * 2.0**-50 - entry + slack,
        stop - abs(stop) * 2.0**-50 - entry - slack,
        slack,
        first,
    )
    write_limits(memory, slot, 1, limits)
    poke(memory, slot + EDGE_FLOOR, F(27.5 * bound * spread * vertex_error * UP))
    poke(memory, slot + T_SLOPE, F(26.0 * bound * vertex_error * UP))
    poke(memory, slot + T_FLOOR, F(105.0 * bound * vertex_error * vertex_error * UP) + TINY)
    poke(own, BLAS_ENTRY, entry)
    poke(own, BLAS_SCALE, scale)
    return True


@inlined
def _disable(memory, slot, q, bound):
    """Set a ray up to visit all nodes of an instance, where all is decided exactly."""
    axes = disabled_axis(q[0]), disabled_axis(q[1]), disabled_axis(q[2])
    for axis in range(3):
        p, inverse, margin = axes[axis]
        write_axis(memory, slot + axis, 1, p, 1.0, inverse, margin)
    write_octant(memory, slot, octant_of((axes[0][1], axes[1][1], axes[2][1])))
    write_limits(memory, slot, 1, disabled_limits(bound))
    poke(memory, slot + EDGE_FLOOR, F(INF))
    poke(memory, slot + T_SLOPE, F(INF))
    poke(memory, slot + T_FLOOR, F(INF))


@inlined
def _world_distance(block, memory, slot, r, tau):
    """Return the t of a distance in units of the slot's BLAS; its slack covers the rounding."""
    own = slot_doubles(memory, slot)
    top = (np.float64(tau) + peek(own, BLAS_ENTRY)) / peek(own, BLAS_SCALE)
    top = (top + read_double(block, r, ENTRY_REST)) + read_double(block, r, ENTRY)
    return top / peek(own, TLAS_SCALE)


@inlined
def _store_closest_interval(block, memory, slot, r):
    """Store the interval of t around the closest hit, which is in the BLAS that the ray leaves."""
    own, words = slot_doubles(memory, slot), slot_integers(memory, slot)
    if peek(words, EXACT) == peek(words, BEST):
        t = peek(own, EXACT_T)
        poke(own, LOW_T, t)
        poke(own, HIGH_T, t)
    else:
        poke(own, LOW_T, _world_distance(block, memory, slot, r, peek(memory, slot + BEST_LOW)))
        poke(own, HIGH_T, _world_distance(block, memory, slot, r, peek(memory, slot + END)))


@inlined
def _leave_blas(block, memory, slot, r):
    """Store the end of a ray that leaves a BLAS in the ray block, in units of the TLAS."""
    words, own = slot_integers(memory, slot), slot_doubles(memory, slot)
    best, slack = peek(words, BEST), read_row(block, r, SLACK)
    if peek(memory, slot + END) == F(-INF):
        write_row(block, r, END, F(-INF))
    elif best >= 0 and leaf_of(best) == instance_in(memory, slot):
        _store_closest_interval(block, memory, slot, r)
        # Where t has no scale in the TLAS, its end stays what it was.
        if slack < F(INF) and peek(own, TLAS_SCALE) > 0.0:
            end = tlas_distance(block, own, r, peek(own, HIGH_T)) + slack
            write_row(block, r, END, min(read_row(block, r, END), F(end)))
    poke_int(memory, slot + INSTANCE, -1)


@inlined
def _load_tlas_numbers(tree, block, memory, slot, r):
    """Load into a slot the numbers of ray r that the nodes of the TLAS need."""
    for row in range(INVERSE + 3):
        poke(memory, slot + row, read_row(block, r, row))
    poke(memory, slot + END, read_row(block, r, END))
    write_octant(memory, slot, np.int64(read_int(block, r, OCTANT)) & 7)
    poke(slot_integers(memory, slot), NODES_ADDRESS, address(tree.blocks, np.int64(0)))


def load_ray_of_scene(tree, block, memory, slot, r):
    """Load ray r into a slot, at the root of the TLAS."""
    _load_tlas_numbers(tree, block, memory, slot, r)
    reset_closest(memory, slot, r)
    poke(slot_doubles(memory, slot), TLAS_ERROR, -1.0)
    poke_int(memory, slot + INSTANCE, -1)
    poke_int(memory, slot + BASE, slot)


def next_entry_in_scene(tree, context_ref, memory, slot, top, ordered):
    """Return the top of the stack at the next node, or at the next leaf of a BLAS."""
    base = np.int64(peek_int(memory, slot + BASE))
    if (
        top < base
        or peek(memory, top + STACK_ENTRIES) > peek(memory, slot + END)
        or (peek_int(memory, slot + INSTANCE) < 0 and peek_int(memory, top + STACK_CHILDREN) < 0)
    ):
        return _change_level(context_ref, memory, slot, top)
    return top


@kernel
def _change_level(context_ref, memory, slot, top):
    """Pop the stack of a slot from `top` on, entering and leaving BLASes as needed.

    Returns the new top, below the slot if nothing is left. Entries behind the closest hit are
    dropped; one with it stays, for a tie.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    r = ray_of(memory, slot)
    while True:
        base, end = np.int64(peek_int(memory, slot + BASE)), peek(memory, slot + END)
        while top >= base and peek(memory, top + STACK_ENTRIES) > end:
            top -= 1
        if top >= base:
            child = np.int64(peek_int(memory, top + STACK_CHILDREN))
            if child >= 0 or instance_in(memory, slot) >= 0:
                return top
            # A leaf of the TLAS: the root of its BLAS replaces it on the stack.
            leaf = np.int64(peek(tree.ids, first_row(child)))
            if _enter_blas(tree, rays, block, memory, slot, r, leaf):
                poke_int(memory, slot + BASE, top)
                poke_int(memory, top + STACK_CHILDREN, 0)
                poke(memory, top + STACK_ENTRIES, F(0.0))
                return top
            top -= 1
        elif instance_in(memory, slot) >= 0:
            _leave_blas(block, memory, slot, r)
            _load_tlas_numbers(tree, block, memory, slot, r)
            poke_int(memory, slot + BASE, slot)
        else:
            return slot - 1
