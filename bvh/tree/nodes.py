"""Binary nodes, which builders make: their memory layout and accessors, and float32 boxes.

Node i has a box, `bounds[i]` = (lower x y z, upper x y z) as float32 in the tree's local frame,
rounded outward, and a link, `links[i]` = (index, count): a leaf (count > 0) holds the primitives
`order[index : index + count]`; an inner node (count = 0) has the children `index` and `index + 1`.
Depth never exceeds 2 * log2(n) + 8 (see `builders`).

Why float32 boxes miss no hit. The local frame is x' = (x - c) * 2**k with abs(x')
<= 1 (up to 16 where extents come near the largest double; the frame says how much). Bringing a
plane there loses 2**-53 of the result, and one float32 step outward covers that and the rounding,
so a box contains its primitives. No plane is much nearer to zero than SMALLEST_PLANE: a product
with a denormal number, which a step from zero would be, takes CPUs some hundred cycles. Rounding in
the test of a ray is covered by margins of the ray: see `traversal.rays.ray_setup`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import next_above, vector
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.tree.frame import centre, scale

SMALLEST_PLANE = 2.0**-100


class Nodes(NamedTuple):
    """A binary tree over primitives, as flat arrays."""

    bounds: NDArray[np.float32]  # (n, 6): lower and upper corner of each node's box
    links: NDArray[np.int32]  # (n, 2): (first primitive, count) of a leaf, else (first child, 0)
    order: NDArray[np.int32]  # ids of primitives, leaf by leaf
    # Threads share the nodes by parts: the nodes parts[i]..parts[i + 1] have all their children
    # in the same part. Nodes before parts[0] are the top; a tree with nodes has at least one part.
    parts: NDArray[np.int64]


def local_boxes(
    lower: NDArray[np.float64], upper: NDArray[np.float64], frame: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return boxes (n, 6) in a local frame, rounded outward, of boxes with world corners (n, 3)."""
    boxes = np.empty((len(lower), 6), np.float32)
    _local_boxes(lower, upper, kernel_input(frame), boxes)
    return boxes


@inlined
def above(x):
    """Return the float32 next above the float32 x; SMALLEST_PLANE if abs(x) is less than that."""
    # Smaller planes would make products with denormal numbers, which are slow.
    smallest = np.float32(SMALLEST_PLANE)
    return smallest if abs(x) < smallest else next_above(x)


@inlined
def local_box(low, high, middle, s):
    """Return corners of the box (low, high) relative to `middle`, times s, rounded outward."""
    # Lower coordinates are negated, so that `above` rounds them down. As rounding keeps the order
    # of numbers, the local box of a union of boxes is the union of their local boxes.
    return (
        (
            -above(np.float32((middle[0] - low[0]) * s)),
            -above(np.float32((middle[1] - low[1]) * s)),
            -above(np.float32((middle[2] - low[2]) * s)),
        ),
        (
            above(np.float32((high[0] - middle[0]) * s)),
            above(np.float32((high[1] - middle[1]) * s)),
            above(np.float32((high[2] - middle[2]) * s)),
        ),
    )


@entry
def _local_boxes(lower, upper, frame, boxes):
    """Write to `boxes` (n, 6) the local boxes of the boxes with corners `lower` and `upper`."""
    middle, s = centre(frame), scale(frame)
    for i in range(len(boxes)):
        low, high = local_box(vector(lower, i), vector(upper, i), middle, s)
        for axis in range(3):
            boxes[i, axis], boxes[i, axis + 3] = low[axis], high[axis]


# Whether a node is a leaf.
is_leaf = inlined(lambda links, node: links[node, 1] > 0)


@inlined
def link_leaf(links, node, first, count):
    """Make a node the leaf of `count` primitives from `order[first]` on."""
    links[node, 0] = first
    links[node, 1] = count


@inlined
def link_inner(links, node, child):
    """Make a node the parent of `child` and `child + 1`; the count 0 marks an inner node."""
    links[node, 0] = child
    links[node, 1] = 0
