"""World bounds of instances, from a few boxes around each tree: its *extent*.

The box of a rotated box is larger than that of its content. The boxes of a tree's upper nodes are
tighter, for most surfaces the vertices of a polytope around the mesh are tighter still, and the
vertices of a mesh with few of them are optimal. Rays through 300 rotated instances cast 5 to 17 %
faster with polytopes than with upper nodes for balls and gears, 0 to 3 % for scans. Each box is
stored as centre and half size: its image under M is M centre -+ abs(M) half.

Padding for rounding: with u = 2**-53 and S = abs(M) reach + abs(t), reach being the largest
coordinates of the tree: vertices of a polytope are off by 2 u S, a coordinate of the centre's
image by at most 3 u S (three fused steps), what is added to either side by 3 u S; their sum or
difference, the shift, and the last step, which adds the padding, by u S each: 11 u S in sum.
2**-49 S = 16 u S covers that and the rounding of S itself; 2**-1060 covers what underflows. A bound
that is a double and not beyond the real coordinate of a vertex is not beyond the double nearest to
that either, which is the vertex (see `transforms`).

An instance of a box is defined by the rounded inverse W of M, not by M (see `instanced`). So it is
bounded under the rounded inverse of W, which is far from M where M is nearly singular; rounding of
its entries adds u S. The rows R W of an oriented box are rounded once more: planes in the tree's
frame, R y + r = z there, are off by u (abs(R) (abs(W) abs(x) + abs(W's shift)) + abs(r)), and
corners by abs(R**-1) times that. With K the largest row sum of abs(R**-1) abs(R), and F that of
abs(R**-1) (abs(R) abs(y) + abs(z)), that is no more than 2 u (K (abs(W) abs(x) + ...) + F), the
factor 2 for coordinates that grow by it.

An instance of a ball has the radius s r, for the scale s of M. With G = M' M / s**2, whose entries
differ from those of the identity by less than 2 * UNEVEN, the ball's image under M has radii that
differ from s r by less than 4 UNEVEN s r, and so in the tree's frame by less than 4 UNEVEN r: the
eigenvalues of G are within 6 UNEVEN of 1, and their roots within 3 UNEVEN, to first order.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, LARGEST, row_of, vector
from bvh.geometry.arithmetic.vectors import dot
from bvh.geometry.obbs import INVERTED, inverses
from bvh.geometry.transforms import UNEVEN
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, warms
from bvh.runtime.simd import WIDTH, fused, greater, lesser, load, lowest, splat
from bvh.runtime.threads import share
from bvh.tree.arrays import TreeArrays
from bvh.tree.frame import FrameView
from bvh.tree.hulls import mark_used, polytope
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import shape_of
from bvh.tree.wide_nodes import lanes_of

# Largest number of boxes, or vertices, of an extent.
MAX_BOXES = 64
# Doubles in a vector; an extent consists of groups of LANES boxes, six rows each: centres, halves.
LANES = max(WIDTH // 2, 2)
GROUP = 6 * LANES

# Instances between two chances to interrupt.
CHUNK = 2048


def _rotation(a: float, b: float) -> NDArray[np.float64]:
    """Return the rotation about x by a, then about z by b, as a map (3, 4) without translation."""
    about_x = np.array([[1, 0, 0, 0], [0, np.cos(a), -np.sin(a), 0], [0, np.sin(a), np.cos(a), 0]])
    about_z = np.array([[np.cos(b), -np.sin(b), 0], [np.sin(b), np.cos(b), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_x)


# Rotations under which extents are compared.
TURNS = np.array([_rotation(a, b) for a in (0.4, 1.1, 1.9) for b in (0.5, 1.3, 2.6)])

PADDING, MIN_PADDING = 2.0**-49, 2.0**-1060
# How far an instance of a round shape may be beyond the image of the shape, as a share of a radius.
GROWTH = 4.0 * UNEVEN


class Extents(NamedTuple):
    """Extents of several trees, in groups of LANES boxes."""

    boxes: NDArray[np.float64]  # (groups * GROUP,): rows of centres x y z and half sizes x y z
    offsets: NDArray[np.int64]  # tree i has the groups offsets[i]..offsets[i + 1]
    reach: NDArray[np.float64]  # (trees, 3): the largest absolute coordinates on each axis


def extent_of(arrays: TreeArrays, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return up to MAX_BOXES world boxes (k, 6) whose convex hull contains all valid primitives.

    `bounds` (2, 3) are the corners of the whole tree. An empty tree has no boxes; the vertices of a
    polytope are boxes with equal corners.
    """
    if len(arrays.nodes.data) == 0:
        return np.empty((0, 6))
    if not isinstance(arrays.primitives, Triangles):
        return _upper_boxes(arrays, bounds)
    points, faces = arrays.primitives
    used = np.zeros(len(points), np.bool_)
    if mark_used(points, faces, used) <= MAX_BOXES:
        return np.hstack([points[used], points[used]])
    boxes, vertices = _upper_boxes(arrays, bounds), polytope(points, used, bounds, MAX_BOXES)
    return boxes if vertices is None else _tighter(np.hstack([vertices, vertices]), boxes)


def _tighter(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the one of a tree's two extents (k, 6) that bounds it closer when it is rotated.

    Closer is the one with the lower sum of volumes of bounds under the rotations TURNS.
    """
    extents = gathered([a, b])
    tree_of = np.repeat(np.arange(2, dtype=np.int32), len(TURNS))
    boxes = instance_bounds(extents, tree_of, np.concatenate([TURNS, TURNS]))
    with np.errstate(over="ignore"):
        volumes = (boxes[:, 3:] - boxes[:, :3]).prod(axis=1).reshape(2, -1).sum(axis=1)
    return b if volumes[1] < volumes[0] else a


def _upper_boxes(arrays: TreeArrays, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return world boxes (k, 6) of upper nodes that contain all primitives, cut off at `bounds`."""
    local, frame = _opened(arrays), FrameView(arrays.frame)
    # Rounding keeps the order of numbers, so rounded corners enclose vertices, which are doubles;
    # one step outward covers what underflows.
    with np.errstate(over="ignore", under="ignore"):
        boxes = local.reshape(-1, 2, 3) * np.ldexp(1.0, -frame.exponent) + frame.centre
    boxes[:, 0] = np.maximum(np.nextafter(boxes[:, 0], -np.inf), bounds[0])
    boxes[:, 1] = np.minimum(np.nextafter(boxes[:, 1], np.inf), bounds[1])
    return np.asarray(boxes.reshape(-1, 6))


def _opened(arrays: TreeArrays) -> NDArray[np.float64]:
    """Return local boxes (k, 6) of nodes and leaves that together contain all primitives."""
    # From the root down, the largest node is replaced by its children while k is at most MAX_BOXES.
    view = lanes_of(arrays.nodes.data)
    boxes = np.moveaxis(view.boxes, 1, 2).astype(np.float64)
    closed: list[tuple[float, int, int]] = []
    done: list[tuple[int, int]] = []

    def add(node: int) -> None:
        """Add a node's children: leaves to `done`, nodes to the heap `closed`, largest first."""
        # Both have (node, lane) of the child.
        for c in np.flatnonzero(view.inner[node] | view.leaf[node]).tolist():
            if view.leaf[node, c]:
                done.append((node, c))
            else:
                x, y, z = (boxes[node, c, 3:] - boxes[node, c, :3]).tolist()
                heapq.heappush(closed, (-(x * y + y * z + z * x), node, c))

    add(0)
    # A node is replaced by its children, of which there may be WIDTH.
    while closed and len(closed) + len(done) + WIDTH - 1 <= MAX_BOXES:
        _, node, c = heapq.heappop(closed)
        add(int(view.codes[node, c]))
    lanes = np.array(done + [(node, c) for _, node, c in closed])
    return np.asarray(boxes[lanes[:, 0], lanes[:, 1]])


def gathered(extents: Sequence[NDArray[np.float64]]) -> Extents:
    """Return the extents of trees, boxes (k, 6) from `extent_of`, in groups of LANES boxes."""
    groups, offsets = [], [0]
    reach = np.zeros((len(extents), 3))
    for i, boxes in enumerate(extents):
        count = -(-len(boxes) // LANES)
        offsets.append(offsets[-1] + count)
        if count == 0:
            continue
        # Spare lanes repeat the last box.
        boxes = boxes[np.minimum(np.arange(count * LANES), len(boxes) - 1)]
        low, high = boxes[:, :3], boxes[:, 3:]
        centre = 0.5 * low + 0.5 * high
        half = np.maximum(high - centre, centre - low)
        half = np.where(half > 0.0, np.nextafter(half, np.inf), 0.0)
        reach[i] = np.abs(boxes).reshape(-1, 2, 3).max(axis=(0, 1))
        rows = np.hstack([centre, half]).reshape(count, LANES, 6)
        groups.append(np.swapaxes(rows, 1, 2).ravel())
    boxes = np.concatenate(groups) if groups else np.empty(0)
    return Extents(*map(kernel_input, (boxes, np.array(offsets, np.int64), reach)))


@inlined
def _span(boxes, begin, end, a, b, c):
    """Return (low, high), the range of a x + b y + c z over the boxes of groups begin..end."""
    # In the loop, x, y, z are the centres and u, v, w the half sizes of LANES boxes.
    p, q, r = abs(a), abs(b), abs(c)
    low, high = splat(INF, LANES), splat(-INF, LANES)
    for g in range(begin, end):
        at = g * GROUP
        x, u = load(boxes, at, LANES), load(boxes, at + 3 * LANES, LANES)
        y, v = load(boxes, at + LANES, LANES), load(boxes, at + 4 * LANES, LANES)
        z, w = load(boxes, at + 2 * LANES, LANES), load(boxes, at + 5 * LANES, LANES)
        middle = fused(x, a, fused(y, b, z * c))
        half = fused(u, p, fused(v, q, w * r))
        low, high = lesser(middle - half, low), greater(middle + half, high)
    # The lowest and the highest of all lanes.
    return lowest(low), -lowest(-high)


@entry
def _bound(extents, tree_of, matrices, begin, end, found):
    """Write the boxes of the instances begin..end to `found` (n, 6).

    Instance i is the tree tree_of[i] under the map of the 12 numbers from matrices[12 i] on.
    `extents` are `Extents` of the trees.
    """
    for i in range(begin, end):
        tree = np.int64(tree_of[i])
        first, last = extents.offsets[tree], extents.offsets[tree + 1]
        for axis in range(3):
            a, b, c, t = row_of(matrices, 12 * i + 4 * axis)
            if first == last:  # an empty tree
                found[i, axis], found[i, axis + 3] = INF, -INF
                continue
            size = dot((abs(a), abs(b), abs(c)), vector(extents.reach, tree)) + abs(t)
            if not size < 0.25 * LARGEST:
                # Vertices may overflow: the box is unbounded on this axis.
                found[i, axis], found[i, axis + 3] = -LARGEST, LARGEST
                continue
            low, high = _span(extents.boxes, first, last, a, b, c)
            padding = size * PADDING + MIN_PADDING
            found[i, axis], found[i, axis + 3] = (low + t) - padding, (high + t) + padding


def instance_bounds(
    extents: Extents, tree_of: NDArray[np.int32], matrices: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return boxes (n, 6) of instances: every vertex, moved and correctly rounded, is inside.

    `tree_of` has the tree of each instance, and `matrices` (n, 3, 4) its finite affine map. Boxes
    of empty trees have lower corners +inf and upper corners -inf.
    """
    found = np.empty((len(matrices), 6))
    which, maps = kernel_input(np.asarray(tree_of, np.int32)), kernel_input(matrices)
    share(len(found), CHUNK, lambda begin, end: _bound(extents, which, maps, begin, end, found), 1)
    return found


def skew_of(arrays: TreeArrays) -> tuple[float, float, float]:
    """Return (K, F, largest radius) of a tree, by which bounds of its instances are padded.

    K and F, derived at the top of this file, bound how rounding moves instances of oriented boxes;
    they are 0 for other trees. The radius is -1 unless the tree is over round shapes.
    """
    if isinstance(arrays.primitives, Triangles):
        return 0.0, 0.0, -1.0
    ids, shape = arrays.nodes.ids, shape_of(arrays.primitives)
    points = arrays.primitives.points[ids[ids >= 0]]
    radius = shape.largest_radius(points)
    if len(points) == 0:
        return 0.0, 0.0, radius
    return *shape.skew(points, FrameView(arrays.frame).farthest), radius


def box_instance_bounds(
    extents: Extents, tree_of: NDArray[np.int32], rows: NDArray[np.float64],
    skews: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return boxes (n, 6) of instances of boxes and oriented boxes.

    `rows` (n, 3, 4) are the correctly rounded inverses of the instances' maps, `tree_of` (n,) their
    trees, and `skews` (trees, 3) what `skew_of` returns for each tree. A box is all of space where
    the inverse of `rows` is too inaccurate.
    """
    back, status = inverses(rows)
    found = instance_bounds(extents, tree_of, back)
    row_sum, far, _ = skews[tree_of].T
    # The padding derived at the top of this file: `row_sum` is K, `far` is F, `rows` are W.
    with np.errstate(all="ignore"):
        reach = np.maximum(np.abs(found[:, :3]), np.abs(found[:, 3:]))
        size = (np.abs(rows[:, :, :3]) @ reach[:, :, None])[:, :, 0] + np.abs(rows[:, :, 3])
        lost = 2.0**-52 * (row_sum * size.max(axis=1) + far)
        slack = np.where(row_sum == 0.0, 0.0, lost)[:, None] * np.abs(back[:, :, :3]).sum(axis=2)
        bounded = (status == INVERTED) & (slack <= reach).all(axis=1)
        bounded &= (np.abs(found) + np.hstack([slack, slack]) < LARGEST).all(axis=1)
        wide = np.hstack([found[:, :3] - slack, found[:, 3:] + slack])
    everywhere = np.repeat([-LARGEST, LARGEST], 3)
    # The boxes of empty trees stay +inf and -inf.
    empty = found[:, :1] > found[:, 3:4]
    return np.where(empty, found, np.where(bounded[:, None], wide, everywhere))


@warms("extents")
def _warm() -> None:
    """Compile the bounds of instances."""
    points, faces, used = np.eye(3), np.arange(3, dtype=np.int32)[None], np.zeros(3, np.bool_)
    mark_used(kernel_input(points), kernel_input(faces), used)
    polytope(points, used, np.stack([np.zeros(3), np.ones(3)]), MAX_BOXES)
    extents = gathered([np.zeros((1, 6))])
    instance_bounds(extents, np.zeros(1, np.int32), np.eye(3, 4)[None])
