"""Edge rule: which one of the faces that share an edge or vertex is crossed by a ray through it.

A ray through an edge or a vertex touches several faces. Move it by an infinitesimal: its origin by
(e, e**2, e**3), e > 0 smaller than any number. It then meets no edge at all, but for edges parallel
to it, and crosses a closed surface like any ray in general position: an even number of times from
outside to outside. (Edelsbrunner and Mücke 1990, "Simulation of simplicity".)

The side of an edge (a, b), f = d . ((a-o) x (b-o)), then changes by the product of (e, e**2, e**3)
with d x (b-a). Where f is zero, the first component of d x (b-a) that is not zero decides. All
three are zero for an edge along d; the two others of its triangle then are on opposite sides,
because the three f add up to the normal's product with d, which is zero: the triangle is not
crossed, whatever the rule. The same holds for a triangle whose plane contains the ray, and for
one without area.
"""

from bvh.geometry.arithmetic.edge_sides import exact_side
from bvh.geometry.arithmetic.exact_sums import add_product, new_sum, take_sign
from bvh.geometry.arithmetic.floats import reach_of
from bvh.geometry.triangles import scaled_ray
from bvh.runtime.jit import by_type, kernel, stay_outlined
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Triangles, corners, is_triangle


@kernel
def moved_side(o, d, scaled, a, b):
    """Return the side on which a ray passes the edge (a, b) if its origin o is moved.

    The origin moves by the infinitesimal (e, e**2, e**3). The side, -1 or 1, is the sign of
    d . ((a-o) x (b-o)), 0 only for edges along d. `scaled` is what `triangles.scaled_ray` returns.
    """
    stay_outlined()
    side = exact_side(o, d, scaled[0], scaled[1], a, b)
    if side != 0:
        return side
    # The first component of d x (b - a) that is not 0 decides: its sign is that of an exact sum of
    # d[j] b[k] - d[j] a[k] - d[k] b[j] + d[k] a[j]. A term has a sign and four factors.
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        total = new_sum()
        add_product(total, 1.0, d[j], b[k], 1.0, 1.0)
        add_product(total, -1.0, d[j], a[k], 1.0, 1.0)
        add_product(total, -1.0, d[k], b[j], 1.0, 1.0)
        add_product(total, 1.0, d[k], a[j], 1.0, 1.0)
        side = take_sign(total)
        if side != 0:
            return side
    return 0


@kernel
def _crosses_corners(vertices, o, d):
    """Return whether a ray, its origin moved by an infinitesimal, crosses a triangle (v0, v1, v2).

    It does if it passes all edges on the same side.
    """
    stay_outlined()
    v0, v1, v2 = vertices
    ray = o, d, scaled_ray(o, d, reach_of(v0, v1, v2))
    side = moved_side(*ray, v0, v1)
    return side == moved_side(*ray, v1, v2) and side == moved_side(*ray, v2, v0) and side != 0


@kernel
def _is_ahead_of_corners(vertices, side):
    """Return whether a triangle that a ray begins on is ahead of the ray's moved origin."""
    # `side` is the sign of d . n, for the normal n. The origin moves to the side of n if the first
    # component of n that is not 0 is positive: then the ray meets the plane only if `side` is -1.
    stay_outlined()
    # The normal is the sum of a x b over the edges (a, b); the sign of component i is that of an
    # exact sum, whose terms have a sign and four factors.
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        total = new_sum()
        for n in range(3):
            a, b = vertices[n], vertices[(n + 1) % 3]
            add_product(total, 1.0, a[j], b[k], 1.0, 1.0)
            add_product(total, -1.0, a[k], b[j], 1.0, 1.0)
        sign = take_sign(total)
        if sign != 0:
            return sign == -side
    return False


@by_type()
def is_ahead(primitives, prim, side):
    """Return whether a ray that begins on a primitive meets it when its origin is moved.

    The origin moves by (e, e**2, e**3), for an infinitesimal e: to the side of the plane that the
    normal n points to, if the first nonzero component of n is positive, else to the other side. The
    ray then meets the plane if its direction d points back to it: `side` is the sign of d . n. The
    result is True for all primitives but triangles.
    """
    if primitives.instance_class not in (Triangles, Instanced):
        return lambda primitives, prim, side: True
    return lambda primitives, prim, side: (
        not is_triangle(primitives, prim) or _is_ahead_of_corners(corners(primitives, prim), side)
    )


@by_type()
def crosses(primitives, prim, o, d):
    """Return whether a ray that touches a primitive crosses it if its origin is moved.

    It moves by (e, e**2, e**3), for an infinitesimal e. All primitives but triangles are crossed.
    """
    if primitives.instance_class not in (Triangles, Instanced):
        return lambda primitives, prim, o, d: True
    return lambda primitives, prim, o, d: (
        not is_triangle(primitives, prim) or _crosses_corners(corners(primitives, prim), o, d)
    )
