"""Wide nodes, which queries traverse: their memory layout and accessors.

A node has WIDTH children, whose boxes are tested together. It is 8 rows of WIDTH float32 lanes, one
lane a child: lower x y z, upper x y z (local frame, rounded outward), the child's code, and the
visiting order, the last two as int32 bits. A code > 0 is a node; a code < 0 is a leaf,
~(first * 8 + count - 1), of up to 8 consecutive rows of ids. An unused lane has lower = +inf,
upper = -inf and code 0: no ray enters it, and no child is the root.

Lane k of the order row holds, for each of the 8 octants of directions, the child to be pushed
k-th, so that the nearest comes last: 2, 3 or 4 bits an octant for 4, 8 or 16 lanes.

In the accessors `at` is a position in the nodes' data: of a node (`node_at`), or of a child, which
is that of its node plus its lane.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH
from bvh.tree.triangle_groups import group_at

ROWS = 8
NODE_SIZE = ROWS * WIDTH
LOWER, UPPER, CODES, ORDER = 0, 3, 6, 7
LANE_BITS = {4: 2, 8: 3, 16: 4}[WIDTH]

# The box of an unused lane.
NO_BOX = (np.float32(INF),) * 3, (np.float32(-INF),) * 3

# Entries of a stack: depth never exceeds 2 * log2(n) + 8 <= 68, and each level leaves up to
# WIDTH - 1 of them.
STACK = 70 * WIDTH

LEAF_BITS = 3
MAX_LEAF_ROWS = 1 << LEAF_BITS


class WideNodes(NamedTuple):
    """The nodes of a tree, and the primitives of its leaves."""

    data: NDArray[np.float32]  # (nodes * NODE_SIZE,)
    # The rows of leaves. Each ends with the ids of its primitives, -1 for none; in a tree over
    # triangles it is a whole triangle group, in other trees it has ids alone.
    rows: NDArray[np.int32]

    @property
    def ids(self) -> NDArray[np.int32]:
        """The ids in each row, -1 for none, shape (rows, lanes): a view."""
        return self.rows[:, -WIDTH:]

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.data) // NODE_SIZE


# The number of nodes; the position of a node; that of a child, by the number node * WIDTH + lane.
node_count = inlined(lambda data: len(data) // NODE_SIZE)
node_at = inlined(lambda node: node * NODE_SIZE)
child_at = inlined(lambda number: number // WIDTH * NODE_SIZE + number % WIDTH)
# The node that a child is of, by the position of the child.
node_of = inlined(lambda at: at // NODE_SIZE)
# The shift of a visiting order that reads it for an octant.
octant_shift = inlined(lambda octant: octant * LANE_BITS)

# Accessors of codes: to read that of a child, to load n lanes of a node, and to store either.
child_code, child_codes, set_child_code = simd.rows(np.int32, CODES * WIDTH)
# The same for visiting orders, which are to be shifted by `octant_shift`.
child_order, child_orders, set_child_orders = simd.rows(np.int32, ORDER * WIDTH)


@inlined
def near_planes(octant):
    """Return, for each axis, where a node has the planes that rays of an octant meet first."""
    # Bit k of the octant is set if directions are negative on axis k: then the upper plane is near.
    # The result is the offset, in numbers from the node on, of a row with a plane for each child.
    lower_to_upper = (UPPER - LOWER) * WIDTH
    return (
        LOWER * WIDTH + lower_to_upper * (octant & 1),
        (LOWER + 1) * WIDTH + lower_to_upper * (octant >> 1 & 1),
        (LOWER + 2) * WIDTH + lower_to_upper * (octant >> 2),
    )


@inlined
def all_planes(x, y, z):
    """Return the offsets in a node of all six rows of planes: near ones, x, y, z, then far ones."""
    # On each axis the near and far planes are the lower and the upper ones, in either order, so the
    # sum of both offsets is the same.
    both = (LOWER + UPPER) * WIDTH
    return x, y, z, both - x, both + 2 * WIDTH - y, both + 4 * WIDTH - z


# A lower and an upper coordinate of a child's box.
child_lower = inlined(lambda data, at, axis: simd.peek(data, at + (LOWER + axis) * WIDTH))
child_upper = inlined(lambda data, at, axis: simd.peek(data, at + (UPPER + axis) * WIDTH))
_read_box, _load_boxes, _ = simd.rows(np.float32, *range(0, 6 * WIDTH, WIDTH))


@inlined
def child_box(data, at):
    """Return the lower and upper corner of the box of the child at position `at`."""
    box = _read_box(data, at)
    return box[:3], box[3:]


@inlined
def set_child_box(data, at, low, high):
    """Set the corners of the box of the child at position `at`."""
    for axis in range(3):
        simd.poke(data, at + (LOWER + axis) * WIDTH, low[axis])
        simd.poke(data, at + (UPPER + axis) * WIDTH, high[axis])


@inlined
def child_boxes(data, at):
    """Return the lower and upper corners of all children's boxes, each as three vectors of lanes.

    `at` is the position of the node.
    """
    boxes = _load_boxes(data, at, WIDTH)
    return boxes[:3], boxes[3:]


@inlined
def node_box(data, node):
    """Return the box around all children of a node; lower > upper if it has none."""
    low, high = child_boxes(data, node_at(node))
    # The largest lane is minus the lowest of the negated ones.
    return (
        (simd.lowest(low[0]), simd.lowest(low[1]), simd.lowest(low[2])),
        (-simd.lowest(-high[0]), -simd.lowest(-high[1]), -simd.lowest(-high[2])),
    )


@inlined
def half_area_of(low, high):
    """Return half the surface area, in float64, of a box given by its corners."""
    x = np.float64(high[0]) - low[0]
    y = np.float64(high[1]) - low[1]
    z = np.float64(high[2]) - low[2]
    return x * y + y * z + z * x


# The code of a leaf of `count` rows from `first` on, and its first row.
leaf_code = inlined(lambda first, count: ~(first * MAX_LEAF_ROWS + count - 1))
first_row = inlined(lambda code: ~code >> LEAF_BITS)
# The numbers of rows of leaves, by their codes in lanes; -1 - code is ~code.
rows_in = inlined(
    lambda codes: (
        (simd.splat(np.int32(-1), WIDTH) - codes & simd.splat(np.int32(MAX_LEAF_ROWS - 1), WIDTH))
        + simd.splat(np.int32(1), WIDTH)
    )
)


@inlined
def leaf_rows(code):
    """Return (first, count) of the rows of ids of a leaf, given by its code."""
    # See `leaf_code`: ~code is first * MAX_LEAF_ROWS + count - 1.
    packed = ~code
    return packed >> LEAF_BITS, (packed & (MAX_LEAF_ROWS - 1)) + 1


@inlined
def prefetch_child(nodes, groups, child, lines):
    """Prefetch the first `lines` cache lines, of 64 bytes, of the child with the code `child`."""
    # The lines are the beginning of a node in `nodes`, or of the first group of a leaf in `groups`.
    # Addresses of both are computed, without a branch; only one is used.
    node = simd.address(nodes, node_at(child))
    leaf = simd.address(groups, group_at(first_row(child)))
    at = node if child >= 0 else leaf
    for line in range(lines):
        simd.prefetch_address(at + 64 * line)


class Lanes(NamedTuple):
    """Wide nodes as arrays for NumPy, one row a node, one column a child."""

    boxes: NDArray[np.float32]  # (nodes, 6, lanes): lower x y z, upper x y z
    codes: NDArray[np.int32]  # of the children; 0 in unused lanes
    orders: NDArray[np.int32]  # visiting orders of all octants (see `octants_of`)
    inner: NDArray[np.bool_]  # True where the child is a node
    leaf: NDArray[np.bool_]  # True where the child is a leaf; in unused lanes both are False


def lanes_of(data: NDArray[np.float32]) -> Lanes:
    """Return the data of wide nodes as `Lanes`: views, and which lanes are nodes and leaves."""
    rows = data.reshape(-1, ROWS, WIDTH)
    codes = rows[:, CODES].view(np.int32)
    # The box of an unused lane is from inf to -inf. By mistake, code 0 could have another box: such
    # a child counts as a node, so that `stats.check` finds it.
    used = rows[:, LOWER] <= rows[:, UPPER]
    return Lanes(
        rows[:, :6], codes, rows[:, ORDER].view(np.int32), used & (codes >= 0), used & (codes < 0)
    )


def rows_of(codes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return arrays (first, count) of the rows of ids of leaves, given by their codes."""
    # See `leaf_code`: ~code is first * MAX_LEAF_ROWS + count - 1.
    packed = ~codes.astype(np.int64)
    return packed // MAX_LEAF_ROWS, packed % MAX_LEAF_ROWS + 1


def octants_of(orders: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the visiting orders of nodes for each octant, shape (nodes, 8, lanes)."""
    # Lane k of `orders` (nodes, lanes) has LANE_BITS bits for each octant: the k-th child to push.
    shifts = (LANE_BITS * np.arange(8))[None, :, None]
    return orders[:, None, :] >> shifts & (WIDTH - 1)


def half_areas(bounds: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return half the surface area of each box; `bounds` (n, 6) are lower and upper corners."""
    x, y, z = (bounds[:, 3:] - bounds[:, :3]).astype(np.float64).T
    return np.asarray(x * y + y * z + z * x)
