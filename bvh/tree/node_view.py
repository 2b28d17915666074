"""`TreeNodes`: the nodes of a tree as plain arrays in world coordinates, for a user's traversal."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.tree.arrays import TreeArrays
from bvh.tree.frame import FrameView
from bvh.tree.wide_nodes import lanes_of, rows_of


class TreeNodes(NamedTuple):
    """The nodes of a tree for a traversal of your own, returned by `BVH.nodes`.

    Row 0 is the root, and children have larger rows than their parent. There are no rows if nothing
    can be hit. All arrays are read-only, and functions compiled with Numba take the tuple as it is.

    Boxes are conservative, and primitives are as given: a box is rounded outward and contains, in
    exact arithmetic, what is below it. A test of a ray against a box must round outward, too, or
    be `bvh.ray_box`, whose result is correctly rounded. In a tree of quality "high" a
    triangle may be in several leaves: each point of it is in the box of one of them.

    Attributes
    ----------
    lower, upper : ndarray of float64, shape (n, 3)
        Corners of the box of each node.
    begin, end : ndarray of int32, shape (n,)
        The children of a node are the rows ``begin[i] : end[i]``, up to 16 of them, in no order
        that means anything; the primitives of a leaf are ``prim_id[begin[i] : end[i]]``.
    is_leaf : ndarray of bool, shape (n,)
        True for leaves.
    prim_id : ndarray of int32, shape (m,)
        Primitives of the leaves. Those that cannot be hit (see `TreeStats.ignored`) are in none.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [5, 0, 0]], [[1, 1, 1], [6, 1, 1]])
    >>> nodes = tree.nodes
    >>> rows = nodes.is_leaf.nonzero()[0]
    >>> sorted(i for row in rows for i in nodes.prim_id[nodes.begin[row] : nodes.end[row]].tolist())
    [0, 1]
    >>> bool((nodes.lower[0] <= 0.0).all() and (nodes.upper[0] >= [6.0, 1.0, 1.0]).all())
    True
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    is_leaf: NDArray[np.bool_]
    prim_id: NDArray[np.int32]


def tree_nodes(arrays: TreeArrays) -> TreeNodes:
    """Return the nodes of a tree: the root, then the children of each wide node in order."""
    view, ids, frame = lanes_of(arrays.nodes.data), arrays.nodes.ids, FrameView(arrays.frame)
    # A lane of a wide node that has a child becomes a row; an unused one does not.
    used = view.inner | view.leaf
    # Row 0 is the root, and the children of wide node i are the rows begins[i]..ends[i].
    ends = np.cumsum(used.sum(axis=1)) + 1
    begins = ends - used.sum(axis=1)
    # The number of primitives before each row of ids, and last their total.
    before = np.concatenate([[0], np.cumsum((ids >= 0).sum(axis=1))])
    # The code of an inner child is the number of its wide node.
    leaf, child = view.leaf[used], np.where(view.inner, view.codes, 0)[used]
    begin, end = begins[child], ends[child]
    # Leaves refer to primitives: those in `count` rows of ids from the row `first` on.
    first, count = rows_of(view.codes[view.leaf])
    begin[leaf], end[leaf] = before[first], before[first + count]
    boxes = np.moveaxis(view.boxes, 1, 2)[used].astype(np.float64)
    if len(boxes):
        root = *boxes[:, :3].min(axis=0), *boxes[:, 3:].max(axis=0)
        boxes, leaf = np.vstack([root, boxes]), np.append(False, leaf)
        begin, end = np.append(begins[0], begin), np.append(ends[0], end)
    with np.errstate(over="ignore", under="ignore"):
        # One step outward covers the rounding of the sum, and of a denormal product.
        corners = np.ldexp(boxes, -frame.exponent) + np.tile(frame.centre, 2)
        lower = np.nextafter(corners[:, :3], -np.inf)
        upper = np.nextafter(corners[:, 3:], np.inf)
    found = TreeNodes(
        lower, upper, begin.astype(np.int32), end.astype(np.int32), leaf, ids[ids >= 0]
    )
    for array in found:
        array.flags.writeable = False
    return found
