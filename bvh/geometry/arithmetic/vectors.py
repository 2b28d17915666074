"""Vectors of three numbers as tuples: their products and differences, every operation rounded."""

from bvh.runtime.jit import inlined


@inlined
def minus(a, b):
    """Return the difference of two vectors."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@inlined
def dot(a, b):
    """Return the dot product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inlined
def cross(a, b):
    """Return the cross product of two vectors."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@inlined
def scaled(v, s):
    """Return a vector times a number."""
    return (v[0] * s, v[1] * s, v[2] * s)


@inlined
def negated(v):
    """Return the opposite of a vector."""
    return (-v[0], -v[1], -v[2])
