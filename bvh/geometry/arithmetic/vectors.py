"""Vectors of three numbers as tuples: their products and differences, every operation rounded."""

from bvh.runtime.jit import inlined

minus = inlined(lambda a, b: (a[0] - b[0], a[1] - b[1], a[2] - b[2]))
dot = inlined(lambda a, b: a[0] * b[0] + a[1] * b[1] + a[2] * b[2])
scaled = inlined(lambda v, s: (v[0] * s, v[1] * s, v[2] * s))
negated = inlined(lambda v: (-v[0], -v[1], -v[2]))
absolute = inlined(lambda v: (abs(v[0]), abs(v[1]), abs(v[2])))
plus = inlined(lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]))
# The point p + t v.
moved_along = inlined(lambda p, v, t: (p[0] + t * v[0], p[1] + t * v[1], p[2] + t * v[2]))


@inlined
def cross(a, b):
    """Return the cross product of two vectors."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@inlined
def combined(r, u, s, v, t, w):
    """Return the vector r u + s v + t w."""
    x, y, z = r * u[0] + s * v[0], r * u[1] + s * v[1], r * u[2] + s * v[2]
    return x + t * w[0], y + t * w[1], z + t * w[2]
