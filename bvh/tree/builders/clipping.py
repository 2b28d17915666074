"""Clipping of triangles: boxes of their parts between planes, for spatial splits.

Why nothing is lost. A part is closed at both planes, and its box contains it: so every point of a
triangle is in the box of one of its parts, however often they are cut again. Vertices are rounded
to the local frame, by at most 2**-49 (coordinates are below 16). A point of the real triangle, and
the point of the rounded triangle with the same barycentric coordinates, differ no more than that.
So each part is cut off at planes SLACK further out than needed, where its corners are computed with
an error below 2**-45; extended by SLACK again, and rounded outward to float32, its box contains the
real points up to the planes themselves, where the box is cut off.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import kernel
from bvh.tree.builders.records import UPPER, id_of, load, meet, outward, overlaps, record, store
from bvh.tree.frame import centre, scale
from bvh.tree.primitives import corners

# See above: more than all rounding of vertices and corners.
SLACK = 2.0**-44


@kernel
def local_triangle(triangles, i, frame, out):
    """Write the vertices of a triangle in the local frame."""
    middle, s = centre(frame), scale(frame)
    a, b, c = corners(triangles, i)
    for axis in range(3):
        out[0, axis] = (a[axis] - middle[axis]) * s
        out[1, axis] = (b[axis] - middle[axis]) * s
        out[2, axis] = (c[axis] - middle[axis]) * s


@kernel
def part_between(v, axis, low, high, id):
    """Return the record of a triangle's part between two planes, extended by SLACK."""
    x0, y0, z0, x1, y1, z1 = INF, INF, INF, -INF, -INF, -INF
    for k in range(3):
        a, b = v[k], v[(k + 1) % 3]
        # A corner of the part is a vertex, or the crossing of an edge with a plane.
        for part in range(3):
            t = 0.0
            if part == 0:
                inside = low <= a[axis] <= high
            else:
                plane = low if part == 1 else high
                inside = min(a[axis], b[axis]) < plane < max(a[axis], b[axis])
                if inside:
                    t = (plane - a[axis]) / (b[axis] - a[axis])
            if inside:
                x, y, z = (
                    a[0] + t * (b[0] - a[0]),
                    a[1] + t * (b[1] - a[1]),
                    a[2] + t * (b[2] - a[2]),
                )
                x0, y0, z0 = min(x0, x), min(y0, y), min(z0, z)
                x1, y1, z1 = max(x1, x), max(y1, y), max(z1, z)
    return outward(
        record(
            np.float32(x0 - SLACK), np.float32(y0 - SLACK), np.float32(z0 - SLACK), id,
            np.float32(x1 + SLACK), np.float32(y1 + SLACK), np.float32(z1 + SLACK),
        )
    )  # fmt: skip


@kernel
def clip(v, records, row, axis, low, high, out, target):
    """Write the record of the part of a record's triangle between two planes across an axis.

    The planes are float32. Returns whether the part is not empty.
    """
    part = part_between(v, axis, low - SLACK, high + SLACK, id_of(records, row))
    # Never beyond what is clipped, nor beyond the planes.
    store(out, target, meet(part, load(records, row)))
    out[target, axis] = min(out[target, axis], np.float32(-low))
    out[target, axis + UPPER] = min(out[target, axis + UPPER], np.float32(high))
    return overlaps(load(out, target))
