"""How a ray of a scene is brought from the top level into a leaf: into the frame of its tree.

The way x'' = A x' + b leads from the local frame of the top level to that of a tree (`placed`);
both are scaled by powers of two, so t'' = t' * 2**k. What follows is `entrance.prepare`, with one
more error to pay: *delta*, by which a primitive, as the rows of float32 have it, may be away from
where the ray would have to meet it. With a the largest row sum of abs(A) and B the bound of the
tree's frame, delta is the sum of

- the origin's: P = o' + entry d' on the top level is wrong by eta <= 2**-51 (max(abs(P)) +
  2 abs(entry)) (far origins are summed in double-doubles), and A P + b by a eta, by 2**-50 a
  max(abs(P)) for its own rounding and that of A, and by the error of b;
- the direction's: A d' is wrong by 2**-49 a a component, which over a way of length
  max(abs(A P + b)) + 4 B moves the ray by that many times 2**-49 a / max(abs(A d')), and by 2**-50
  of it for the clipping;
- delta_v: a vertex of the tree is the ideal image of the moved vertex, which is rounded by 2**-53
  of its coordinates, but for 2**-53 abs(M**-1) times those.

Where delta is beyond 2**-10 B, the ray is given up in this leaf, as in `prepare`: all is decided
exactly.

Bounds of the filter (see `leaves` for what they were). C is wrong by delta more: that is
delta D s for U and V. Edges are wrong by 2 delta_v: N by 2 delta_v s + 8 delta_v**2 a component,
U and V by 25.2 B D delta_v + 12 delta D delta_v in sum, den by D times that of N. So W, the worst,
needs 3 delta D tolerance + 27.5 B D delta_v more, and T and t * den together
delta M + 26 B delta_v tolerance + 105 B delta_v**2.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.leaves import EDGE_ERROR, T_BOUND, TINY, UNIT
from bvh.numerics import (
    INF,
    exponent,
    largest,
    power_of_two,
    scale_by,
    two_sum,
)
from bvh.placed import (
    BOUND,
    HIGHEST,
    LOWEST,
    NORM,
    SHIFT_ERROR,
    TREE_SIZE,
    VERTEX_ERROR,
    WAY_SIZE,
)
from bvh.simd import WIDTH, peek, poke, poke_int
from bvh.traversal.block import (
    BEST_LOW,
    DIRECTION,
    EDGE,
    END,
    ENTRY,
    ENTRY_REST,
    FAR,
    INVERSE,
    LOW,
    NEAR,
    ORIGIN,
    SHIFT,
    SLACK,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    number_of,
    place_of_double,
)
from bvh.traversal.entrance import MARGIN, NEAR_ORIGIN, along, inverse_of
from bvh.traversal.query import read_ray
from bvh.traversal.scene_slots import (
    AT_BLOCKS,
    AT_GROUPS,
    AT_IDS,
    BEST,
    COURSE,
    EDGE_FLOOR,
    ENTRY_IN_LEAF,
    HIGH_T,
    LEAF,
    LOW_T,
    OCTANT_SHIFT,
    PLANES,
    SCALE,
    START,
    START_ERROR,
    T_FLOOR,
    T_SLOPE,
    TOP_SCALE,
    doubles_of,
    words_of,
)
from bvh.wide_nodes import LANE_BITS

F = np.float32
# A ray is given up in a leaf beyond this share of the bound.
WORST = 2.0**-10
# Scales of leaves within which nothing over- or underflows.
LEAST_SCALE, MOST_SCALE = 2.0**-400, 2.0**400
# Powers of two between t and the distances of the top level: doubles that differ do so there.
MOST_SHIFT = 980


@inlined
def put_octant(memory, slot, octant):
    """Keep where a ray of an octant finds near planes and the order of children."""
    poke_int(memory, slot + PLANES, 3 * WIDTH * (octant & 1))
    poke_int(memory, slot + PLANES + 1, WIDTH + 3 * WIDTH * (octant >> 1 & 1))
    poke_int(memory, slot + PLANES + 2, 2 * WIDTH + 3 * WIDTH * (octant >> 2))
    poke_int(memory, slot + OCTANT_SHIFT, octant * LANE_BITS)


@inlined
def _row(ways, at, v):
    """Return a row of a way times a vector."""
    return peek(ways, at) * v[0] + peek(ways, at + 1) * v[1] + peek(ways, at + 2) * v[2]


@inlined
def _set_out(tree, block, own, r, o, d):
    """Find what is the same for all leaves that a ray enters: see `scene_slots.START`.

    The scale of t is zero where t would overflow, or lose digits, on the top level.
    """
    doubles, frame = block.doubles, tree.frame
    s = power_of_two(int(peek(frame, 3)))
    shift = int(peek(doubles, place_of_double(r, SHIFT)))
    k = int(peek(frame, 3)) - shift
    x, y, z = scale_by(d[0], k), scale_by(d[1], k), scale_by(d[2], k)
    entry, rest = (
        peek(doubles, place_of_double(r, ENTRY)),
        peek(doubles, place_of_double(r, ENTRY_REST)),
    )
    px, qx = two_sum(o[0], -peek(frame, 0))
    py, qy = two_sum(o[1], -peek(frame, 1))
    pz, qz = two_sum(o[2], -peek(frame, 2))
    px, py, pz = px * s, py * s, pz * s
    if largest((px, py, pz)) <= NEAR_ORIGIN:
        px, py, pz = px + entry * x, py + entry * y, pz + entry * z
        error = 2.0**-50 * abs(entry)
    else:
        px, qx = along(px, qx * s, entry, x)
        py, qy = along(py, qy * s, entry, y)
        pz, qz = along(pz, qz * s, entry, z)
        px, _ = along(px, qx, rest, x)
        py, _ = along(py, qy, rest, y)
        pz, _ = along(pz, qz, rest, z)
        error = 2.0**-95 * abs(entry)
    poke(own, START, px)
    poke(own, START + 1, py)
    poke(own, START + 2, pz)
    poke(own, COURSE, x)
    poke(own, COURSE + 1, y)
    poke(own, COURSE + 2, z)
    poke(own, START_ERROR, 2.0**-51 * largest((px, py, pz)) + error)
    poke(own, TOP_SCALE, power_of_two(shift) if -MOST_SHIFT < shift < MOST_SHIFT else 0.0)


@inlined
def _clip(ways, at, p, inverse, room, start, stop):
    """Return (entry, exit) of a ray's stay in the box of a tree, `room` larger on every side."""
    for axis in range(3):
        a = (peek(ways, at + LOWEST + axis) - room - p[axis]) * inverse[axis]
        b = (peek(ways, at + HIGHEST + axis) + room - p[axis]) * inverse[axis]
        start, stop = max(start, min(a, b)), min(stop, max(a, b))
    return start, stop


@inlined
def _limit(t):
    """Keep infinities out of differences: nothing within reach of a ray is that far."""
    return min(max(t, -(2.0**500)), 2.0**500)


@inlined
def _open_tree(placed, memory, slot, leaf):
    """Make a slot walk the tree of a leaf."""
    words = words_of(memory, slot)
    at = leaf * TREE_SIZE
    poke(words, AT_BLOCKS, peek(placed.trees, at))
    poke(words, AT_GROUPS, peek(placed.trees, at + 1))
    poke(words, AT_IDS, peek(placed.trees, at + 2))
    poke_int(memory, slot + LEAF, leaf)


@kernel
def enter_leaf(tree, rays, block, memory, slot, r, leaf):
    """Bring the ray of a slot into a leaf; return False where it misses the box of its tree."""
    stay_outlined()
    placed = tree.primitives
    index = peek(block.which, number_of(r))
    if peek(placed.masks, leaf) & peek(rays.masks, index * rays.mask_step) == 0:
        return False
    ways, at = placed.ways, leaf * WAY_SIZE
    bound, norm = peek(ways, at + BOUND), peek(ways, at + NORM)
    own, doubles = doubles_of(memory, slot), block.doubles
    if peek(own, START_ERROR) < 0.0:
        o, d, _, _ = read_ray(rays, index)
        _set_out(tree, block, own, r, o, d)
    p = (peek(own, START), peek(own, START + 1), peek(own, START + 2))
    x = (peek(own, COURSE), peek(own, COURSE + 1), peek(own, COURSE + 2))
    to_top = peek(own, TOP_SCALE)
    q = (_row(ways, at, x), _row(ways, at + 4, x), _row(ways, at + 8, x))
    size = largest(q)
    given_up = peek(block.lanes, r + SLACK * WIDTH) == F(INF) or to_top == 0.0
    if given_up or not (LEAST_SCALE < size < MOST_SCALE and norm < MOST_SCALE):
        _open_tree(placed, memory, slot, leaf)
        _give_up(memory, slot, q, bound)
        return True
    delta = peek(ways, at + SHIFT_ERROR) + norm * (peek(own, START_ERROR) + 2.0**-50 * largest(p))
    p = (
        _row(ways, at, p) + peek(ways, at + 3),
        _row(ways, at + 4, p) + peek(ways, at + 7),
        _row(ways, at + 8, p) + peek(ways, at + 11),
    )
    k = exponent(size)
    unit = power_of_two(-k)
    q = (q[0] * unit, q[1] * unit, q[2] * unit)
    vertex_error = peek(ways, at + VERTEX_ERROR)
    travel = largest(p) + 4.0 * bound
    delta += travel * (2.0**-50 + 2.0**-49 * norm / size) + vertex_error
    delta *= 1.0 + 2.0**-20
    # What takes distances of the top level to those of the leaf.
    scale = power_of_two(k)
    if not (delta <= WORST * bound and to_top * scale < 2.0**1000):
        _open_tree(placed, memory, slot, leaf)
        _give_up(memory, slot, q, bound)
        return True
    before = peek(doubles, place_of_double(r, ENTRY))
    rest = peek(doubles, place_of_double(r, ENTRY_REST))
    best = peek(own, HIGH_T) if peek(words_of(memory, slot), BEST) >= 0 else INF
    inverse = inverse_of(q[0]), inverse_of(q[1]), inverse_of(q[2])
    t_min, t_max = peek(rays.t_min, index * rays.low_step), peek(rays.t_max, index * rays.high_step)
    # What the top level loses of a distance, beside its own rounding.
    lost = 2.0**-50 * (abs(before) + 4.0 * peek(tree.frame, 5)) * scale
    start = (_limit(t_min * to_top) - before - rest) * scale
    stop = (_limit(t_max * to_top) - before - rest) * scale
    last = min(stop, (_limit(best * to_top) - before - rest) * scale)
    room = 2.0**-18 * bound + delta
    entry, leave = _clip(
        ways, at, p, inverse, room, start - abs(start) * 2.0**-50 - lost,
        last + abs(last) * 2.0**-50 + lost,
    )  # fmt: skip
    if entry > leave:
        return False
    p = (p[0] + entry * q[0], p[1] + entry * q[1], p[2] + entry * q[2])
    _open_tree(placed, memory, slot, leaf)
    spread = abs(q[0]) + abs(q[1]) + abs(q[2])
    slack = 16.0 * UNIT * bound + 2.0**-50 * (abs(entry) + 4.0 * bound) + lost
    margin = (MARGIN * bound + delta) * (1.0 + 2.0**-20)
    octant = np.int64(0)
    for axis in range(3):
        i = inverse[axis]
        if i < 0.0:
            octant |= 1 << axis
        poke(memory, slot + INVERSE + axis, F(i))
        poke(memory, slot + NEAR + axis, F(-p[axis] * i - margin * abs(i)))
        poke(memory, slot + FAR + axis, F(-p[axis] * i + margin * abs(i)))
        poke(memory, slot + ORIGIN + axis, F(p[axis]))
        poke(memory, slot + DIRECTION + axis, F(q[axis]))
    put_octant(memory, slot, octant)
    up = 1.0 + 2.0**-20
    poke(memory, slot + EDGE, F((EDGE_ERROR * bound + 3.0 * delta) * spread * up))
    poke(memory, slot + T_ERROR, F((T_BOUND * bound + 1.1 * delta) * up))
    poke(memory, slot + EDGE_FLOOR, F(27.5 * bound * spread * vertex_error * up))
    poke(memory, slot + T_SLOPE, F(26.0 * bound * vertex_error * up))
    poke(memory, slot + T_FLOOR, F(105.0 * bound * vertex_error * vertex_error * up) + TINY)
    poke(memory, slot + LOW, F(max(start - entry, -bound) - slack))
    poke(memory, slot + END, F((leave - entry) * up + slack))
    sure = 2.0**-50
    poke(memory, slot + SURE_LOW, F(start + abs(start) * sure - entry + slack))
    poke(memory, slot + SURE_HIGH, F(stop - abs(stop) * sure - entry - slack))
    poke(memory, slot + SLACK, F(slack))
    first = INF
    if best < INF:
        first = (_limit(peek(own, LOW_T) * to_top) - before - rest) * scale - entry - slack
    poke(memory, slot + BEST_LOW, F(first))
    poke(own, ENTRY_IN_LEAF, entry)
    poke(own, SCALE, scale)
    return True


@inlined
def _give_up(memory, slot, q, bound):
    """Let a ray into all nodes of a leaf, to be decided exactly there."""
    octant = np.int64(0)
    for axis in range(3):
        octant |= np.int64(q[axis] < 0.0) << axis
        poke(memory, slot + INVERSE + axis, F(-(2.0**-100) if q[axis] < 0.0 else 2.0**-100))
        poke(memory, slot + NEAR + axis, F(-1.0))
        poke(memory, slot + FAR + axis, F(1.0))
        poke(memory, slot + ORIGIN + axis, F(0.0))
        poke(memory, slot + DIRECTION + axis, F(1.0))
    put_octant(memory, slot, octant)
    poke(memory, slot + EDGE, F(INF))
    poke(memory, slot + T_ERROR, F(INF))
    poke(memory, slot + EDGE_FLOOR, F(INF))
    poke(memory, slot + T_SLOPE, F(INF))
    poke(memory, slot + T_FLOOR, F(INF))
    poke(memory, slot + LOW, F(-(2.0**100)))
    poke(memory, slot + END, F(max(bound, 1.0)))
    poke(memory, slot + SURE_LOW, F(INF))
    poke(memory, slot + SURE_HIGH, F(-INF))
    poke(memory, slot + SLACK, F(INF))
    poke(memory, slot + BEST_LOW, F(INF))
