"""Binary nodes: their layout, known in this file alone, and the test of a ray against one.

Node i has a box, `bounds[i]` = (lower x y z, upper x y z) as float32 in the tree's local frame,
rounded outward, and a link, `links[i]` = (index, count): a leaf (count > 0) holds the primitives
`order[index : index + count]`; an inner node (count = 0) has the children `index` and `index + 1`.

Why float32 boxes discard nothing that counts. The local frame is x' = (x - c) * 2**k with abs(x')
<= 1, so primitive boxes survive the rounding to float32 with one step outward. (Extents near the
largest double reach 16; there that step, 2**-25 of a plane, is wider than all below.) In the ray
test, let o' be the ray's computed local origin and R = 1 + its largest component. Computing o'
loses 2**-53 R; adding the margin, subtracting a plane and multiplying by the rounded inverse lose
less than 5 * 2**-53 R, measured as a displacement of the plane; treating a component of d' below
2**-1022 as zero displaces it by less; a hit distance t is a rounded value and stands for real
distances up to 2**-53 t away, which is another 2**-53 R. All planes are therefore moved outward by
16 * 2**-53 R, more than twice the sum, folded into two origins, one for near planes and one for far
planes, so that a node costs nothing more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.jit import entry, inlined
from bvh.numerics import (
    INF,
    LARGEST,
    SMALLEST,
    exponent,
    largest,
    lose_nan_max,
    lose_nan_min,
    power_of_two,
    scale_by,
)

# Depth never exceeds 2 * log2(n) + 8 (see builders), and a ray leaves one entry a level.
STACK_SIZE = 96

MARGIN = 16.0 * 2.0**-53


class Nodes(NamedTuple):
    """A binary tree over primitives, as flat arrays."""

    bounds: NDArray[np.float32]  # (n, 6)
    links: NDArray[np.int32]  # (n, 2)
    order: NDArray[np.int32]  # (primitives in the tree,)


class LocalRay(NamedTuple):
    """A ray in the local frame of a tree, ready for `enter`.

    Its parameter is t' = t * 2**shift, for a direction scaled to a largest component of about one:
    in [1, 4), and below that only for denormal directions.
    """

    near: tuple[float, float, float]
    far: tuple[float, float, float]
    inverse: tuple[float, float, float]
    shift: int


def local_frame(
    lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Choose the local frame x' = (x - c) * 2**k for primitives within the given boxes.

    Returns
    -------
    frame : ndarray of float64, shape (2, 3)
        First c, then (k, the largest absolute coordinate, 0).
    bounds : ndarray of float64, shape (2, 3)
        Lower and upper corner of all boxes; NaN if there are none.
    """
    frame = np.zeros((2, 3))
    if len(lower) == 0:
        return frame, np.full((2, 3), np.nan)
    bounds = np.stack([lower.min(axis=0), upper.max(axis=0)])
    # Halve before adding: two coordinates of 1e308 must not overflow.
    frame[0] = 0.5 * bounds[0] + 0.5 * bounds[1]
    half = (0.5 * bounds[1] - 0.5 * bounds[0]).max()
    # Twice the half extent leaves room for the rounding of the centre.
    k = -int(np.frexp(half)[1]) if half > 0.0 else 0
    k = min(max(k, -1020), 1020)
    frame[1] = k, np.abs(bounds).max(), max(1.0, float(np.ldexp(half, k)) * (1.0 + 2.0**-20))
    return frame, bounds


def local_boxes(
    lower: NDArray[np.float64], upper: NDArray[np.float64], frame: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Bring boxes to the local frame, rounded outward to float32, shape (n, 6).

    Subtracting the centre loses 2**-53 of the result and float32 keeps 2**-24 of it, so one
    float32 step outward from the nearest value covers both.
    """
    boxes = np.empty((len(lower), 6), np.float32)
    _local_boxes(lower, upper, kernel_input(frame), boxes)
    return boxes


@entry
def _local_boxes(lower, upper, frame, boxes):
    """Fill `boxes` for `local_boxes`."""
    s = power_of_two(int(frame[1, 0]))
    for i in range(len(boxes)):
        for axis in range(3):
            low = np.float32((lower[i, axis] - frame[0, axis]) * s)
            high = np.float32((upper[i, axis] - frame[0, axis]) * s)
            boxes[i, axis] = np.nextafter(low, np.float32(-INF))
            boxes[i, axis + 3] = np.nextafter(high, np.float32(INF))


@inlined
def is_leaf(links, node):
    """Tell a leaf from an inner node."""
    return links[node, 1] > 0


@inlined
def link_leaf(links, node, first, count):
    """Make a node the leaf of `count` primitives from `order[first]` on."""
    links[node, 0] = first
    links[node, 1] = count


@inlined
def link_inner(links, node, child):
    """Make a node the parent of `child` and `child + 1`."""
    links[node, 0] = child
    links[node, 1] = 0


@inlined
def local_ray(center, k, o, d):
    """Bring a ray to the local frame (center, 2**k) of a tree."""
    s = power_of_two(k)
    x, y, z = (o[0] - center[0]) * s, (o[1] - center[1]) * s, (o[2] - center[2]) * s
    kd = min(exponent(largest(d)), 1022)
    r = power_of_two(-kd)
    ix, iy, iz = 1.0 / (d[0] * r), 1.0 / (d[1] * r), 1.0 / (d[2] * r)
    m = MARGIN * (1.0 + largest((x, y, z)))
    # Near planes move towards the ray's start, far planes away from it, by the sign of 1/d:
    # that of a zero is kept, and picks the planes in `enter`, too.
    mx, my, mz = (m if ix > 0.0 else -m), (m if iy > 0.0 else -m), (m if iz > 0.0 else -m)
    return LocalRay((x + mx, y + my, z + mz), (x - mx, y - my, z - mz), (ix, iy, iz), k + kd)


@inlined
def local_upper(t, shift):
    """Return a local parameter that no hit at t (a rounded value) can exceed."""
    return INF if t >= LARGEST else scale_by(t + SMALLEST, shift)


@inlined
def local_lower(t, shift):
    """Return a local parameter that no hit at t (a rounded value) can fall below."""
    return -INF if t <= -LARGEST else scale_by(t - SMALLEST, shift)


@inlined
def enter(bounds, node, ray, t0, t1):
    """Return (first, last) of a ray's stay in a node's box within t0..t1; a miss if first > last.

    A plane that the ray lies in gives 0 * inf = NaN, which is lost: the plane does not cut.
    """
    near, far, inverse = ray.near, ray.far, ray.inverse
    for axis in range(3):
        i = inverse[axis]
        # Choose near and far plane by the sign of the inverse, not by comparing their distances.
        first = 0 if i > 0.0 else 3
        t0 = lose_nan_max(t0, (bounds[node, axis + first] - near[axis]) * i)
        t1 = lose_nan_min(t1, (bounds[node, axis + 3 - first] - far[axis]) * i)
    return t0, t1
