"""Winding numbers of points: signed crossings of a ray, and angles over the boundary's edges.

The directions in which a surface is seen from q lie on the unit sphere. For a direction x let D(x)
be how often the surface passes the ray from q to x, from its back less from its front: the winding
number is the mean of D over the sphere. The boundary of the surface is seen as arcs, the shorter
ones between the directions a and b to the ends of an edge, and D changes by one across each. So
does the sum, over all edges, of the signed triangles (a, b, c) for a fixed direction c, because
arcs to c cancel, as a boundary has as many edges to a vertex as from it. Hence the difference of D
and that sum is the same everywhere; and at -c it is D(-c), because no triangle of arcs below half a
turn with the corner c has the antipode of c inside. With the ray's direction d = -c,

    winding number = D(d) + sum of the areas of (a, b, -d) over all edges / (4 pi),

an integer for a surface without boundary (the antipodal method of arXiv 2605.01536, 2026).

The area. Let the plane be the stereographic projection from d. A vertex at distance r, z of that
along d, and at x + i y across, has the projection (x + i y) / (r - z), and the triangle the area
-2 arg(1 + conj(a) b), where angles are counted about d. Times the denominators h = r - z:

    re = h_a h_b + x_a x_b + y_a y_b,    im = x_a y_b - y_a x_b.

Where z > 0, x, y and h are multiplied by r + z, so that h = x**2 + y**2 has no cancellation. The
sum of the arguments is the argument of the product, but for full turns: factors, and products, with
re < 0 are negated, and the half turn is counted with the sign of im. That sign is the only one that
matters: it tells on which side of an edge the ray passes, and `edge_rule` decides it if rounding
could have changed it, as it decides crossings. So both parts are those of one point, q moved by
(e, e**2, e**3) for an infinitesimal e > 0, also if the ray meets edges or vertices.

Errors. Numbers are double-doubles; vectors from q are exact. d has integer coordinates and length,
and x, y, z are those in an integer basis. With sums that lose 2**-104 of their terms' sizes, re and
im are off by less than 2**-98 of the sizes of theirs. `exact_factor` takes over where that could
be felt: next to a vertex or edge, where re and im cancel to 2**-40; at rays close to a vertex,
where x and y do; where rounding could have changed the sign of im. There, the angle is good to
2**-60.

On the boundary itself, q has no single value; there, too, it is moved: a vertex at q is seen in
the direction (-1, 0, 0), and an edge through q on the side of that.
"""

import math

import numpy as np

from bvh.geometry.arithmetic.floats import NAN, dd_sqrt, finite, largest, two_sum, vector
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.points.edge_factors import (
    LENGTH,
    ROWS,
    TURNS,
    exact_factor,
    far_number,
    opposite,
    plus,
    product,
    rotated,
    square,
    sum_of,
    times,
    way_of,
)

# Distances of points from the boundary's middle, in sizes of the boundary. Outside of the surface's
# box, points beyond FAR have another formula (`far_number`), and the number 0 beyond OUT_OF_SIGHT.
# Within the box, angles of the boundary are left out beyond FARTHEST.
FAR, FARTHEST, OUT_OF_SIGHT = 2.0**16, 2.0**100, 2.0**500
# Limits beyond which `exact_factor` is used, relative to the terms' sizes (see above), with
# margins.
CANCELLED, NEAR_RAY, UNSURE, SHORTEST = 2.0**-40, 2.0**-43, 2.0**-92, 2.0**-100
# Scratch, of vectors of doubles: four numbers of an edge; q, and axis and sign of its ray.
EXACT_BYTES, POINT_BYTES = 8 * 4 * WIDTH, 8 * 5 * WIDTH

# The arc tangent of t is t + t z P(z) / Q(z) with z = t**2, up to 0.66, good to 2**-52 (Moshier
# 1989, "Methods and programs for mathematical functions").
P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
Q = (
    2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
STEEP = 0.66


@inlined
def chosen(mask, a, b):
    """Return the double-double a in the lanes where the mask is set, b in the others."""
    return simd.select(mask, a[0], b[0]), simd.select(mask, a[1], b[1])


@inlined
def _permuted(v, first, second, sign):
    """Return the vectors v, in lanes, with coordinates permuted, and negated for rays down.

    Each lane has a ray next to an axis, which becomes the positive x axis. The masks `first` and
    `second` are the lanes of rays next to axes 0 and 1, and `sign` is 1.0 for rays up, -1.0 for
    rays down.
    """
    x, y, z = v
    return (
        simd.select(first, x, simd.select(second, y, z)) * sign,
        simd.select(first, y, simd.select(second, z, x)) * sign,
        simd.select(first, z, simd.select(second, x, y)) * sign,
    )


@inlined
def _projected(v, q):
    """Return (x, y, h, across, bound, doubt) of the vertex v as seen from q, in lanes.

    (x + i y) / h, of double-doubles, is the stereographic projection of the direction v - q from
    that of the ray. `across` is abs(x) + abs(y), and `bound` about the distance r. Where z, the
    coordinate along the ray, is above 0, x, y, `across` and `bound` are times r + z. `doubt` is the
    mask of lanes in which x and y may be too inaccurate.
    """
    none = simd.splat(0.0, WIDTH)
    a = two_sum(v[0], -q[0]), two_sum(v[1], -q[1]), two_sum(v[2], -q[2])
    x, y, z = rotated(a, ROWS[0]), rotated(a, ROWS[1]), rotated(a, ROWS[2])
    r = times(dd_sqrt(square(*a)), LENGTH)
    ahead = z[0] > none
    far = plus(r, chosen(ahead, z, opposite(z)))
    across, bound = abs(x[0]) + abs(y[0]), r[0]
    doubt = ~((across > NEAR_RAY * bound) & (bound > simd.splat(SHORTEST, WIDTH)))
    h = chosen(ahead, sum_of(product(x, x), product(y, y), (none, none)), far)
    x, y = chosen(ahead, product(x, far), x), chosen(ahead, product(y, far), y)
    across = simd.select(ahead, across * far[0], across)
    bound = simd.select(ahead, bound * far[0], bound)
    return x, y, h, across, bound, doubt


@inlined
def unit_scale(re, im):
    """Return the powers of two, in lanes, that scale the numbers re + i im to a size of about 1."""
    # 2**-e, with e the exponent of the larger part: the biased exponents e + 1023 and 1023 - e have
    # the sum 2046.
    size = simd.greater(abs(re), abs(im))
    return simd.as_floats(np.int64(2046 << 52) - (simd.as_ints(size) & np.int64(2047 << 52)))


@inlined
def _turned(turns, re, im, sides):
    """Return (turns, re, im), where numbers re + i im with re < 0 are negated, by half a turn.

    In lanes with re < 0, `turns` grows by 1 if `sides`, which has the exact sign of im, is above 0,
    else by -1.
    """
    none, one = simd.splat(0.0, WIDTH), simd.splat(1.0, WIDTH)
    back = re[0] < none
    step = simd.select(sides > none, one, -one)
    turns = turns + simd.select(back, step, none)
    return turns, chosen(back, opposite(re), re), chosen(back, opposite(im), im)


@kernel
def _arguments(loops, s, points, directions, which, used, q, first, second, way):
    """Return (turns, re, im): in lanes, the sum of the angles of the factors of all edges.

    The factor of an edge is a complex number, whose angle is minus half the area of a triangle (see
    the file's top). The sum is `turns` half turns plus the angle of re + i im, double-doubles.
    `loops` is the boundary (see `add_boundary`), and s scales its coordinates. q are the `points`
    from index `which` on, times s, as `_permuted` by `first`, `second` and `way`; `directions` are
    those of all rays. Only the lanes of the mask `used` count.
    """
    none, one = simd.splat(0.0, WIDTH), simd.splat(1.0, WIDTH)
    memory = simd.pointer_to(stack_memory(EXACT_BYTES), 0.0)
    turns, re, im = none, (one, none), (none, none)
    # In place of the vertex before the first one: only its type is used.
    before = (one, none), (none, none), (none, none), none, none, used != used
    for i in range(loops.size):
        v = vector(loops.points, i)
        v = simd.splat(v[0] * s, WIDTH), simd.splat(v[1] * s, WIDTH), simd.splat(v[2] * s, WIDTH)
        now = _projected(_permuted(v, first, second, way), q)
        if simd.peek(loops.begins, i) == 0:
            xa, ya, ha, across_a, bound_a, doubt_a = before
            xb, yb, hb, across_b, bound_b, doubt_b = now
            x = sum_of(product(ha, hb), product(xa, xb), product(ya, yb))
            y = plus(product(xa, yb), opposite(product(ya, xb)))
            size = ha[0] * hb[0] + across_a * across_b
            doubt = (abs(x[0]) + abs(y[0]) < CANCELLED * size) | doubt_a | doubt_b
            size = bound_a * across_b + bound_b * across_a
            doubt = doubt | ((x[0] < none) & (abs(y[0]) < UNSURE * size))
            left = np.int64(simd.mask_bits(doubt & used))
            if left != 0:
                x, y = _with_exact_factors(loops, i, points, directions, which, left, x, y, memory)
            turns, x, y = _turned(turns, x, y, y[0])
            real = plus(product(re, x), opposite(product(im, y)))
            im = plus(product(re, y), product(im, x))
            # Both factors are on one side of the real axis if the product's real part is negative.
            turns, re, im = _turned(turns, real, im, y[0])
            scale = unit_scale(re[0], im[0])
            re, im = (re[0] * scale, re[1] * scale), (im[0] * scale, im[1] * scale)
        before = now
    return turns, re, im


@kernel
def _with_exact_factors(loops, i, points, directions, which, left, x, y, memory):
    """Return the factors x + i y of the edge to vertex i, by `exact_factor` in the lanes `left`.

    In other lanes, x and y stay as they are. `left` has bits; lane k is of point which + k, whose
    ray has a row of `directions`. `memory` is scratch for four vectors.
    """
    stay_outlined()
    for k, part in enumerate((x[0], x[1], y[0], y[1])):
        simd.store(memory, k * WIDTH, part)
    while left != 0:
        lane = simd.lowest_bit(left)
        left &= left - 1
        at = which + lane
        re, im = exact_factor(
            vector(points, at), vector(directions, at), vector(loops.points, i - 1),
            vector(loops.points, i),
        )  # fmt: skip
        simd.poke(memory, lane, re[0])
        simd.poke(memory, WIDTH + lane, re[1])
        simd.poke(memory, 2 * WIDTH + lane, im[0])
        simd.poke(memory, 3 * WIDTH + lane, im[1])
    return (
        (simd.load(memory, 0, WIDTH), simd.load(memory, WIDTH, WIDTH)),
        (simd.load(memory, 2 * WIDTH, WIDTH), simd.load(memory, 3 * WIDTH, WIDTH)),
    )


@inlined
def _polynomial(a, z, factors):
    """Return the polynomial (((a z + f[0]) z + f[1]) z + f[2]) z + f[3], with `factors` f."""
    a = simd.fused(a, z, factors[0])
    return simd.fused(simd.fused(simd.fused(a, z, factors[1]), z, factors[2]), z, factors[3])


@inlined
def angles(x, y):
    """Return the angles, in -pi..pi, of complex numbers x + i y that are not zero, in lanes."""
    one, none = simd.full_like(x, 1.0), simd.full_like(x, 0.0)
    a, b = abs(x), abs(y)
    # First the angle of (larger, smaller), 0 to pi/4; where it is steep, less pi/4.
    t = simd.lesser(a, b) / simd.greater(a, b)
    steep = t > simd.full_like(x, STEEP)
    t = simd.select(steep, (t - one) / (t + one), t)
    z, p = t * t, simd.full_like(x, P[0])
    angle = simd.fused(t, z * _polynomial(p, z, P[1:]) / _polynomial(z + Q[0], z, Q[1:]), t)
    angle = simd.select(steep, angle + math.pi / 4, angle)
    angle = simd.select(b > a, math.pi / 2 - angle, angle)
    angle = simd.select(x < none, math.pi - angle, angle)
    return simd.select(y < none, -angle, angle)


@entry
def add_boundary(loops, points, directions, begin, end, found):
    """Turn signed crossings of rays, in `found`, into winding numbers, for points begin..end-1.

    The rays' `directions` (n, 3) are those of WAYS, next to the axes. `loops` is the boundary: its
    vertices in loops, each of which repeats its first one at the end; begins[i] is 1 for the first
    vertex of a loop, where no edge ends. Results are NaN for points that are not finite.
    """
    # m is the boundary's centre, and s a power of two that scales its half size to at most 1;
    # low..high is the box of the whole surface. `used` has the bits of lanes whose points need sums
    # of angles.
    lines, rays, where = as_pointers(loops), simd.pointer(directions), simd.pointer(points)
    numbers, s = simd.pointer(found), simd.peek(lines.frame, 3)
    memory = simd.pointer_to(stack_memory(POINT_BYTES), 0.0)
    m, low, high = vector(lines.frame, 0), vector(lines.around, 0), vector(lines.around, 1)
    for i in range(begin, end, WIDTH):
        size, used = min(end - i, WIDTH), np.int64(0)
        for k in range(WIDTH):
            p, axis, way = vector(where, i + min(k, size - 1)), np.int64(0), 1.0
            x = (p[0] - m[0]) * s, (p[1] - m[1]) * s, (p[2] - m[2]) * s
            if not finite(p):
                simd.poke(numbers, i + min(k, size - 1), NAN)
            if k < size and lines.size > 0 and finite(p):
                outside = p[0] < low[0] or p[1] < low[1] or p[2] < low[2]
                outside = outside or p[0] > high[0] or p[1] > high[1] or p[2] > high[2]
                if outside and not largest(x) <= FAR:
                    far = largest(x) <= OUT_OF_SIGHT
                    simd.poke(numbers, i + k, far_number(lines, s, p) if far else 0.0)
                elif largest(x) <= FARTHEST:
                    used |= np.int64(1) << k
                    axis, way = way_of(vector(rays, i + k))
            if used >> k & 1 == 0:
                # The lane has no point, or a finished one: any finite point will do.
                p = m
            for j in range(3):
                simd.poke(memory, j * WIDTH + k, p[j] * s)
            simd.poke(memory, 3 * WIDTH + k, np.float64(axis))
            simd.poke(memory, 4 * WIDTH + k, way)
        if used == 0:
            continue
        axes, way = simd.load(memory, 3 * WIDTH, WIDTH), simd.load(memory, 4 * WIDTH, WIDTH)
        one = simd.splat(1.0, WIDTH)
        first, second = axes < one, axes == one
        q = (
            simd.load(memory, 0, WIDTH), simd.load(memory, WIDTH, WIDTH),
            simd.load(memory, 2 * WIDTH, WIDTH),
        )  # fmt: skip
        q = _permuted(q, first, second, way)
        lanes = simd.mask_of(used, WIDTH)
        turns, re, im = _arguments(lines, s, where, rays, i, lanes, q, first, second, way)
        # `rest` is what the low parts change of the angle; TURNS is 1 / (2 pi). Where the ray leads
        # down, vectors are negated, and with them the signs of angles.
        rest = (im[1] * re[0] - re[1] * im[0]) / (re[0] * re[0] + im[0] * im[0])
        angle = angles(re[0], im[0])
        part = simd.fused(angle, TURNS[0], simd.fused(angle, TURNS[1], rest * TURNS[0]))
        simd.store(memory, 0, turns * way * simd.splat(0.5, WIDTH))
        simd.store(memory, WIDTH, part * way)
        for k in range(size):
            if used >> k & 1:
                whole = simd.peek(numbers, i + k) - simd.peek(memory, k)
                simd.poke(numbers, i + k, whole - simd.peek(memory, WIDTH + k))
