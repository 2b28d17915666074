"""A point of two triangles that touch: where a feature of one meets one of the other, rounded."""

from bvh.geometry.arithmetic.floats import INF, exponent, largest, power_of_two, reach_of
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.geometry.pairs.triangle_distance import all_scaled, nearest_features, point_on, put_back
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.jit import kernel, stay_outlined

# The largest distance from both triangles, in a box of about 1, of a point that counts as common.
COMMON = 2.0**-52


@kernel
def _nearer(p, a, b, least, best):
    """Return (distance, point) of p or `best`, whichever is nearer to both triangles."""
    # A point's distance is the larger of its distances from a and from b: `least` for `best`.
    stay_outlined()
    distance = max(nearest_on_triangle(p, *a)[0], nearest_on_triangle(p, *b)[0])
    return (distance, p) if distance < least else (least, best)


@kernel
def common_point(a, b):
    """Return a point that the triangles a and b, known to touch, have in common, rounded."""
    # It is the first candidate that is as near to both (COMMON) as the rounding of its coordinates
    # allows or, if there is none, the one that is computed nearest to both.
    # Where triangles touch, a vertex or an edge of one meets the face of the other, or two edges
    # meet.
    stay_outlined()
    # The exponent of the largest coordinate, limited so that 2**scale and 2**-scale are doubles.
    scale = min(max(exponent(max(reach_of(*a), reach_of(*b))), -1022), 1022)
    f = power_of_two(-scale)
    a, b = all_scaled(a, f), all_scaled(b, f)
    least, best = INF, a[0]
    # Attempt 0 tries the points where edges cross the planes of faces, which usually suffice.
    # Attempt 1 tries a nearest point of a, all vertices, and where the lines of edges meet planes.
    for attempt in range(2):
        if attempt == 1:
            _, x, _, _ = nearest_features(a, b)
            least, best = _nearer(x, a, b, least, best)
        for side in range(2):
            face, other = (a, b) if side == 0 else (b, a)
            n = cross(minus(face[1], face[0]), minus(face[2], face[0]))
            for k in range(3):
                p, q = other[k], other[(k + 1) % 3]
                if attempt == 1:
                    least, best = _nearer(p, a, b, least, best)
                # Heights of p and q above the plane of the face, times |n|.
                h, g = dot(n, minus(p, face[0])), dot(n, minus(q, face[0]))
                if h != g and largest(n) > 0.0 and (attempt == 1 or (h <= 0.0) != (g <= 0.0)):
                    x = point_on(p, q, h / (h - g))
                    least, best = _nearer(x, a, b, least, best)
                if least <= COMMON:
                    return put_back(best, scale)
    return put_back(best, scale)
