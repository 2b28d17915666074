"""Binary nodes: their layout, known in this file alone, and the local frame of their boxes.

Node i has a box, `bounds[i]` = (lower x y z, upper x y z) as float32 in the tree's local frame,
rounded outward, and a link, `links[i]` = (index, count): a leaf (count > 0) holds the primitives
`order[index : index + count]`; an inner node (count = 0) has the children `index` and `index + 1`.
Depth never exceeds 2 * log2(n) + 8 (see `builders`).

Why float32 boxes discard nothing that counts. The local frame is x' = (x - c) * 2**k with abs(x')
<= 1 (up to 16 where extents come near the largest double; the frame says how much). Bringing a
plane there loses 2**-53 of the result, and one float32 step outward covers that and the rounding,
so a box contains its primitives. What the test of a ray loses is covered by margins of the ray: see
`traversal.block`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.jit import entry, inlined
from bvh.numerics import INF, power_of_two


class Nodes(NamedTuple):
    """A binary tree over primitives, as flat arrays."""

    bounds: NDArray[np.float32]  # (n, 6)
    links: NDArray[np.int32]  # (n, 2)
    order: NDArray[np.int32]  # (primitives in the tree,)


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
