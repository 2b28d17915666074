"""Leaves of a scene on a device: rays in the frame of their tree, and their faces in the world.

A face of a leaf has the moved vertices, each coordinate correctly rounded, as `geometry.transforms`
has it; exact tests take these, in the world. A ray in the coordinates of a tree serves to discard.

Its error: two roundings, an ulp, in the inverse map x -> W x + w; four in each row of W o + w and
W d; and one in each coordinate of a moved vertex, carried over by W. Errors of W d are multiplied
by t, where |t d| <= |o| + R if the ray is at the leaf, whose largest coordinates are R. In sum
this is less than 2**-49 of |W| (2 |o| + R) + |w|.
"""

import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import LARGEST, TWO, ZERO, f8
from bvh.devices.layout import Target

ERROR_SHARE, FLOOR = f8(2.0**-49), f8(2.0**-1000)
# Bounds of `rounded_dot`: of the error of its sum, as a share of the terms and at least; and
# of products whose rounding errors are doubles.
SHARE, LEAST, NORMAL = f8(2.0**-100), f8(2.0**-1071), f8(2.0**-900)
# More than what a determinant of three rows loses, as a share of its terms, and by underflow.
DET_SHARE = f8(2.0**-48)


@wp.func
def moved_ray(target: Target, leaf: wp.int32, o: wp.vec3d, d: wp.vec3d):
    """Return (origin, direction, error) of the world ray o, d in the coordinates of a leaf's tree.

    In the box of the tree, no point of the ray is off by more than `error`, as the docstring of
    this module derives.
    """
    extent, error = TWO * wp.abs(o) + target.reach[leaf], wp.float64(0.0)
    origin, direction = wp.vec3d(), wp.vec3d()
    for axis in range(3):
        row = target.inverses[leaf, axis]
        a = wp.vec3d(row[0], row[1], row[2])
        origin[axis] = wp.dot(a, o) + row[3]
        direction[axis] = wp.dot(a, d)
        error = wp.max(error, floats.dot_size(a, extent) + wp.abs(row[3]))
    return origin, direction, ERROR_SHARE * error + FLOOR


@wp.func
def handedness(target: Target, leaf: wp.int32):
    """Return the sign of the determinant of a leaf's map: -1 for a reflection, 0 if unsure.

    It is that of the inverse map. A reflection turns the normals of faces over.
    """
    x, y, z = target.inverses[leaf, 0], target.inverses[leaf, 1], target.inverses[leaf, 2]
    a, b, c = wp.vec3d(x[0], x[1], x[2]), wp.vec3d(y[0], y[1], y[2]), wp.vec3d(z[0], z[1], z[2])
    det, size = wp.dot(a, wp.cross(b, c)), floats.dot_size(a, floats.cross_size(b, c))
    return wp.where(wp.abs(det) > DET_SHARE * size + FLOOR, floats.sign_of(det), 0)


@wp.func
def _is_normal(product: wp.float64, a: wp.float64, b: wp.float64):
    """Return whether the rounding error of `product`, which is fl(a b), is exactly a double."""
    return wp.abs(product) > NORMAL or a == ZERO or b == ZERO


@wp.func
def rounded_dot(m: wp.vec4d, v: wp.vec3d):
    """Return (decided, x): if decided, x is the double nearest to m . (v, 1), and finite."""
    a, e = floats.two_product(m[0], v[0])
    b, f = floats.two_product(m[1], v[1])
    c, g = floats.two_product(m[2], v[2])
    s, h = floats.two_sum(a, b)
    s, i = floats.two_sum(s, c)
    s, j = floats.two_sum(s, m[3])
    # `s` is the high part of the sum, `rest` the low one. If no error e1 to e5 is left, s + rest is
    # exact, and x is correctly rounded.
    low, e1 = floats.two_sum(e, f)
    low, e2 = floats.two_sum(low, g)
    other, e3 = floats.two_sum(h, i)
    other, e4 = floats.two_sum(other, j)
    rest, e5 = floats.two_sum(low, other)
    exact = e1 == ZERO and e2 == ZERO and e3 == ZERO and e4 == ZERO and e5 == ZERO
    exact = exact and _is_normal(a, m[0], v[0]) and _is_normal(b, m[1], v[1])
    exact = exact and _is_normal(c, m[2], v[2])
    size = wp.abs(a) + wp.abs(b) + wp.abs(c) + wp.abs(m[3])
    margin = size * SHARE + LEAST
    x = s + rest
    # Otherwise the sum is rounded correctly if an error of the margin does not change it.
    sure = s + (rest + margin) == s + (rest - margin)
    return (sure or exact) and wp.abs(x) <= LARGEST, x


@wp.func
def moved_point(target: Target, leaf: wp.int32, v: wp.vec3d):
    """Return (decided, x): v, of a leaf's tree, in the world, correctly rounded if decided."""
    a, x = rounded_dot(target.maps[leaf, 0], v)
    b, y = rounded_dot(target.maps[leaf, 1], v)
    c, z = rounded_dot(target.maps[leaf, 2], v)
    return a and b and c, wp.vec3d(x, y, z)


@wp.func
def vertices_of(target: Target, i: wp.int32):
    """Return the three vertices of face i of a target, in the coordinates of its tree."""
    face = target.faces[i]
    return target.vertices[face[0]], target.vertices[face[1]], target.vertices[face[2]]


@wp.func
def corners_of(target: Target, leaf: wp.int32, prim: wp.int32):
    """Return (decided, v0, v1, v2): the vertices of a face in the world, rounded if decided.

    `prim` is the number of the face in its tree. `leaf` is not used in a single tree, whose
    coordinates are those of the world.
    """
    if target.is_scene == 0:
        a, b, c = vertices_of(target, prim)
        return True, a, b, c
    a, b, c = vertices_of(target, target.parts[target.part_of[leaf]].first_face + prim)
    i, v0 = moved_point(target, leaf, a)
    j, v1 = moved_point(target, leaf, b)
    k, v2 = moved_point(target, leaf, c)
    return i and j and k, v0, v1, v2
