"""Oriented boxes around the children of wide nodes: their memory layout, fitting and accessors.

Boxes along the axes are loose once a tree is turned. A node's oriented boxes are twelve rows of
WIDTH float32 lanes, in the tree's local frame: the centre (x y z) and three half axes h, so that a
box is all of c + t0 h0 + t1 h1 + t2 h2 with t from -1 to 1. The centre of an unused lane is NaN, as
is that of a child without triangles.

Axes are the principal ones of the triangles' surface, or those of the frame where that box is
smaller. Half axes are lengthened by 2**-19 of the frame's bound B, more than the sum of three
errors: 8 * 2**-24 * 3**0.5 B of the projections of vertices, in float32; 3 * 2**-23 * 3**0.5 B of
axes that are not quite at right angles; 2**-22 B of the rounding of c and h.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, vector
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, greater, lesser, lowest, peek, poke, rows, select, splat
from bvh.tree.arrays import TreeArrays
from bvh.tree.frame import FrameView
from bvh.tree.triangle_groups import E2, ROWS, dot, group_at, group_edges, group_origin, used_lanes
from bvh.tree.wide_nodes import child_code, half_areas, lanes_of, leaf_rows, node_at, rows_of

BOX_ROWS = 12
BOX_SIZE = BOX_ROWS * WIDTH
MARGIN = 2.0**-19


# Accessors of all twelve rows of a node: of one child, and of all children.
_numbers, _lanes, _ = rows(np.float32, *range(0, BOX_SIZE, WIDTH))


@inlined
def node_boxes(boxes, node):
    """Return (centre, h0, h1, h2) of the boxes of a node's children, in lanes; h are half axes."""
    v = _lanes(boxes, node * BOX_SIZE, WIDTH)
    return v[:3], v[3:6], v[6:9], v[9:]


@inlined
def one_box(boxes, child):
    """Return (centre, h0, h1, h2), h half axes, of the box of child number node * WIDTH + lane."""
    v = _numbers(boxes, child // WIDTH * BOX_SIZE + child % WIDTH)
    return v[:3], v[3:6], v[6:9], v[9:]


@entry
def _measure(data, groups, parents, axes, ends):
    """Set `ends` (children, 3, 2), inf at first, to (min, -max) of vertices on each child's axes.

    `axes` has three unit vectors for each child. `parents` has the number, node * WIDTH + lane, of
    each node as a child, -1 for the root. The ends of a child without triangles stay inf.
    """
    for child in range(len(parents) * WIDTH):
        code = child_code(data, node_at(child // WIDTH) + child % WIDTH)
        first, count = leaf_rows(code)
        # The range is empty for a child that is not a leaf.
        for g in range(first, first + count if code < 0 else first):
            at = group_at(g)
            used = used_lanes(groups, at)
            v = group_origin(groups, at)
            e1, e2 = group_edges(groups, at)
            # Extend the boxes of the child, and of all children above it.
            box = np.int64(child)
            while box >= 0:
                for axis in range(3):
                    k = 3 * box + axis
                    x, y, z = vector(axes, k)
                    u = splat(x, WIDTH), splat(y, WIDTH), splat(z, WIDTH)
                    a, none = dot(v, u), splat(np.float32(INF), WIDTH)
                    b, c = a + dot(e1, u), a + dot(e2, u)
                    low = lowest(select(used, lesser(a, lesser(b, c)), none))
                    high = lowest(select(used, -greater(a, greater(b, c)), none))
                    poke(ends, 2 * k, min(peek(ends, 2 * k), low))
                    poke(ends, 2 * k + 1, min(peek(ends, 2 * k + 1), high))
                box = peek(parents, box // WIDTH)


def oriented_boxes(arrays: TreeArrays) -> NDArray[np.float32]:
    """Return the oriented boxes of all nodes of a tree over triangles, in one flat array.

    A node has twelve rows, with a lane for each child: centre (x y z) and three half axes.
    """
    lanes = lanes_of(arrays.nodes.data)
    nodes, bound = len(lanes.codes), FrameView(arrays.frame).bound
    # The nodes of each level, from the root down.
    parents, levels = np.full(nodes, -1), [np.arange(min(nodes, 1))]
    while len(levels[-1]):
        node, lane = np.nonzero(lanes.inner[levels[-1]])
        node = levels[-1][node]
        levels.append(lanes.codes[node, lane].astype(np.int64))
        parents[levels[-1]] = node * WIDTH + lane
    # The moments of each child: of a leaf, the sum over its `count` groups from `first` on; of a
    # node, the sum over its children, the lowest level first.
    sums = np.zeros((nodes, WIDTH, 10))
    first, count = rows_of(lanes.codes[lanes.leaf])
    moments = _moments(arrays)
    for k in range(int(count.max(initial=0))):
        at = np.argwhere(lanes.leaf)[count > k]
        sums[at[:, 0], at[:, 1]] += moments[first[count > k] + k]
    for level in levels[:0:-1]:
        sums.reshape(-1, 10)[parents[level]] = sums[level].sum(axis=1)
    axes = np.ascontiguousarray(_axes(sums.reshape(-1, 10)), np.float32)
    ends = np.full((nodes * WIDTH, 3, 2), np.inf, np.float32)
    _measure(
        arrays.nodes.data, arrays.groups, parents, kernel_input(axes.ravel()), ends.reshape(-1),
    )  # fmt: skip
    low, high = ends[..., 0].astype(float), -ends[..., 1].astype(float)
    box = lanes.boxes.astype(float).transpose(0, 2, 1).reshape(-1, 6)
    # Boxes along the axes of the frame are kept where they are no larger.
    with np.errstate(invalid="ignore"):
        plain = half_areas(box) <= half_areas(np.hstack([low, high]))
    axes[plain] = np.eye(3)
    low[plain], high[plain] = box[plain, :3], box[plain, 3:]
    return _rows_of_boxes(axes, low, high, np.isfinite(ends[:, 0, 0]), bound)


def plain_boxes(arrays: TreeArrays) -> NDArray[np.float32]:
    """Return the nodes' own boxes, along the axes of the frame, as centres and half axes, flat."""
    # The result has the form of that of `oriented_boxes`.
    lanes, bound = lanes_of(arrays.nodes.data), FrameView(arrays.frame).bound
    box = lanes.boxes.astype(float).transpose(0, 2, 1).reshape(-1, 6)
    used = (lanes.inner | lanes.leaf).ravel()
    axes = np.broadcast_to(np.eye(3), (len(box), 3, 3))
    return _rows_of_boxes(axes, box[:, :3], box[:, 3:], used, bound)


def _rows_of_boxes(
    axes: NDArray[Any], low: NDArray[np.float64], high: NDArray[np.float64],
    used: NDArray[np.bool_], bound: float,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the flat rows of boxes that extend from `low` to `high` (n, 3) along `axes` (n, 3, 3).

    Boxes that are not `used` get the centre NaN. `bound` is the frame's largest local coordinate,
    and half axes are lengthened by MARGIN times that.
    """
    with np.errstate(invalid="ignore"):
        middle, half = 0.5 * (low + high), 0.5 * (high - low) + MARGIN * bound
        centre = (middle[:, :, None] * axes).sum(axis=1)
        centre[~used] = np.nan
        found = np.hstack([centre, (axes * half[:, :, None]).reshape(-1, 9)])
    found = found.reshape(-1, WIDTH, BOX_ROWS).transpose(0, 2, 1)
    return kernel_input(np.ascontiguousarray(found, np.float32).ravel())


def _moments(arrays: TreeArrays) -> NDArray[np.float64]:
    """Return ten moments of the surface of each triangle group, (groups, 10).

    These are twice the area, and twice the integrals of x, y, z, xx, xy, xz, yy, yz and zz.
    """
    # a is the vertex v0, u and v are the edges e1 and e2 of each triangle.
    groups = arrays.groups.reshape(-1, ROWS, WIDTH)[:, : E2 + 3].transpose(1, 0, 2)
    ax, ay, az, ux, uy, uz, vx, vy, vz = np.ascontiguousarray(groups, np.float64)
    n = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    # Twice the area; 0 in unused lanes. With it, the integral of x over a triangle is a third of
    # the sum over vertices, that of x y a twelfth of (the sum of products + the product of sums).
    weight = np.sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) * (arrays.nodes.ids >= 0)
    vertices = (ax, ax + ux, ax + vx), (ay, ay + uy, ay + vy), (az, az + uz, az + vz)
    total = [p + q + r for p, q, r in vertices]
    sums = [weight.sum(axis=1), *((weight * t).sum(axis=1) / 3.0 for t in total)]
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        (p, q, r), (x, y, z) = vertices[i], vertices[j]
        square = p * x + q * y + r * z + total[i] * total[j]
        sums.append((weight * square).sum(axis=1) / 12.0)
    return np.stack(sums, axis=-1)


def _axes(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the principal axes of surfaces, (n, 3, 3), as rows; those of the frame for none."""
    # `sums` (n, 10) are moments: area, x, y, z, xx, xy, xz, yy, yz and zz. Divided by the area,
    # they are means; `spread` is the covariance matrix of surface points.
    with np.errstate(all="ignore"):
        mean = sums[:, 1:4] / sums[:, :1]
        spread = sums[:, [4, 5, 6, 5, 7, 8, 6, 8, 9]].reshape(-1, 3, 3) / sums[:, :1, None]
        spread = spread - mean[:, :, None] * mean[:, None, :]
    spread[~np.isfinite(spread).all(axis=(1, 2))] = np.eye(3)
    return np.linalg.eigh(spread)[1].transpose(0, 2, 1)
