"""Leaves of a scene on a device: their maps, inverses and boxes, and the top, a tree over boxes.

When instances move, only their maps are sent; kernels do the rest. At first the top has the nodes
of the CPU's TLAS; whenever instances have moved, it is built anew (see `building`).

The world box of a leaf is that of a few boxes around its tree, moved. The padding that
`tree.world_bounds` derives holds: three products and two sums lose no more than three fused steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.building import build, fit, set_frame
from bvh.devices.exact import floats
from bvh.devices.exact.floats import INF, LARGEST, ONE, OPTIONS, ZERO, dd3, f8
from bvh.devices.exact.volumes import exact_sum, is_moderate
from bvh.devices.layout import Target, target_on
from bvh.geometry.obbs import inverses
from bvh.queries.hierarchy import BVH
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.leaves import FlattenedInstances
from bvh.scene.scene_view import SceneView
from bvh.tree import world_bounds
from bvh.tree.binary_nodes import binary_nodes
from bvh.tree.primitives import Triangles
from bvh.tree.wide_nodes import WideNodes

wp.set_module_options(OPTIONS)

PADDING, MIN_PADDING = f8(world_bounds.PADDING), f8(world_bounds.MIN_PADDING)
# Boxes of larger maps are all of space, as some coordinates may overflow.
LARGE = f8(0.25) * LARGEST


@wp.struct
class Extents:
    """The boxes around each tree of a scene that bound its instances (see `world_bounds`)."""

    boxes: wp.array2d(dtype=wp.vec3d)  # (n, 2): centre and half size
    offsets: wp.array(dtype=wp.int32)  # tree k has the boxes offsets[k]..offsets[k + 1]
    reach: wp.array(dtype=wp.vec3d)  # the largest absolute coordinates of each tree's boxes


@wp.func
def _inverse_row(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, t: wp.vec3d):
    """Return (decided, row): the first row of the inverse of the map x a + y b + z c + t.

    If decided, its four numbers are within an ulp.
    """
    # The row is (b x c, -t . (b x c)) / (a . (b x c)), by double-doubles or, where these do not
    # decide, by exact sums. Round k = -1 of the loop is that of the last number.
    p, q, r, s = (
        floats.unrounded(a), floats.unrounded(b), floats.unrounded(c), floats.unrounded(-t),
    )  # fmt: skip
    n, sizes = floats.sized_cross(q, r)
    det, det_size = floats.sized_dot(n, sizes, p)
    value, size = floats.sized_dot(n, sizes, s)
    row, sure, columns = wp.vec4d(), is_moderate(q) and is_moderate(r) and is_moderate(s), int(3)
    for k in range(-1, columns):  # to a variable: Warp would unroll a loop over constants
        along = s
        if k >= 0:
            along = dd3()
            along[k, 0] = ONE
            value, size = wp.vec2d(n[k, 0], n[k, 1]), sizes[k]
        decided, w = floats.round_quotient(value, size, det, det_size)
        if size == ZERO:
            # All products are 0, which is exact for moderate numbers.
            w = ZERO
        elif not decided:
            fits, total, _ = exact_sum(q, r, along, False)
            det_fits, exact, _ = exact_sum(q, r, p, False)
            _rounded, w = floats.round_quotient(total, wp.abs(total[0]), exact, wp.abs(exact[0]))
            w = wp.where(total[0] == ZERO, ZERO, w)
            sure = sure and fits and det_fits and wp.abs(w) <= LARGEST
        row[wp.where(k < 0, 3, k)] = w
    return sure, row


@wp.func
def _span(extents: Extents, tree: wp.int32, m: wp.vec4d):
    """Return (lower, upper), bounds of m . (v, 1), correctly rounded, for all vertices v of a tree.

    m is a row of a leaf's map. The bounds of an empty tree are inf and -inf.
    """
    first, last = extents.offsets[tree], extents.offsets[tree + 1]
    # Products here, as Warp would change the constants themselves.
    v, low, high = wp.vec3d(m[0], m[1], m[2]), INF * ONE, -INF * ONE
    size = floats.dot_size(v, extents.reach[tree]) + wp.abs(m[3])
    # "not <", so that NaN is all of space, too.
    if first < last and not size < LARGE:
        return -LARGEST, LARGEST * ONE
    for k in range(first, last):
        middle = wp.dot(v, extents.boxes[k, 0])
        half = floats.dot_size(v, extents.boxes[k, 1])
        low, high = wp.min(low, middle - half), wp.max(high, middle + half)
    padding = size * PADDING + MIN_PADDING
    return (low + m[3]) - padding, (high + m[3]) + padding


@wp.kernel
def _place(
    target: Target, extents: Extents, leaves: wp.array(dtype=wp.int32),
    maps: wp.array2d(dtype=wp.vec4d), inverses: wp.array2d(dtype=wp.vec4d),
    undecided: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Write the maps of leaves, their inverses and their boxes.

    Row i of `maps` (n, 3) is the map of leaf leaves[i], and row i of `inverses` its inverse. If
    `inverses` is empty, they are computed, and the number of rows that are not decided is added to
    `undecided`.
    """
    i = wp.tid()
    leaf = leaves[i]
    x, y, z = maps[i, 0], maps[i, 1], maps[i, 2]
    a, b, c = wp.vec3d(x[0], y[0], z[0]), wp.vec3d(x[1], y[1], z[1]), wp.vec3d(x[2], y[2], z[2])
    t, rows, tree = wp.vec3d(x[3], y[3], z[3]), int(3), target.part_of[leaf]
    for row in range(rows):  # a variable, as in `_inverse_row`
        # Row 1 of the inverse is row 0 for the columns b c a, row 2 is that for c a b.
        if inverses.shape[0] > 0:
            target.inverses[leaf, row] = inverses[i, row]
        else:
            decided, inverse = _inverse_row(a, b, c, t)
            target.inverses[leaf, row] = inverse
            if not decided:
                wp.atomic_add(undecided, 0, 1)
            spare = a  # Warp would assign a tuple one after the other.
            a = b
            b = c
            c = spare
        m = maps[i, row]
        target.maps[leaf, row] = m
        low, high = _span(extents, tree, m)
        target.leaf_boxes[leaf, 0][row] = low
        target.leaf_boxes[leaf, 1][row] = high
        target.reach[leaf][row] = wp.max(wp.abs(low), wp.abs(high))


def scene_on(view: SceneView, device: Any) -> tuple[Any, Any]:
    """Return (target, extents): a scene of trees over triangles, and the boxes around its trees."""
    n, bounds = len(view), view.extents
    # Trees that are not over triangles are only those of hidden leaves, which no ray enters.
    empty = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), np.int32), warn=False).arrays
    trees = [tree if type(tree.primitives) is Triangles else empty for tree in view.trees]
    target, extents = target_on(trees, device, n), Extents()
    groups = bounds.boxes.reshape(-1, 6, world_bounds.LANES)
    boxes = np.swapaxes(groups, 1, 2).reshape(-1, 2, 3)
    offsets = bounds.offsets * world_bounds.LANES
    for record, name, array, dtype in (
        (extents, "boxes", boxes, wp.vec3d), (extents, "offsets", offsets, wp.int32),
        (extents, "reach", bounds.reach, wp.vec3d), (target, "part_of", view.tree_of, wp.int32),
        (target, "masks", view.masks, wp.int32), (target, "owners", view.owners, wp.int32),
        (target, "maps", np.zeros((n, 3, 4)), wp.vec4d),
        (target, "inverses", np.zeros((n, 3, 4)), wp.vec4d),
        (target, "leaf_boxes", np.zeros((n, 2, 3)), wp.vec3d),
        (target, "reach", np.zeros((n, 3)), wp.vec3d),
    ):  # fmt: skip
        setattr(record, name, wp.array(array, dtype=dtype, device=device))
    place(target, extents, np.arange(n), view.maps)
    build_top(target, view.tlas.arrays.nodes)
    return target, extents


def place(target: Any, extents: Any, leaves: NDArray[np.int64], maps: NDArray[np.float64]) -> int:
    """Set the maps of leaves (k,) of a scene to maps (k, 3, 4), and compute inverses and boxes.

    Return how many rows of inverses the device has not decided, as numbers are of extreme sizes. If
    there are any, the CPU computes the inverses of all these leaves.
    """
    device = target.ids.device
    rows, new_maps = (
        wp.array(array, dtype=dtype, device=device)
        for array, dtype in ((leaves, wp.int32), (maps, wp.vec4d))
    )
    undecided = wp.zeros(1, dtype=wp.int32, device=device)

    def launch(inverse: NDArray[np.float64]) -> int:
        known = wp.array(inverse, dtype=wp.vec4d, device=device)
        inputs = [target, extents, rows, new_maps, known, undecided]
        wp.launch(_place, len(rows), inputs, device=device)
        return int(undecided.numpy()[0])

    count = launch(np.empty((0, 3, 4)))
    if count:
        launch(inverses(maps)[0])
    return count


def build_top(target: Any, nodes: WideNodes | None = None) -> None:
    """Write the top of a scene, the tree over the boxes of leaves, each in a leaf of its own.

    It has the topology of `nodes`, those of the CPU's TLAS; for None it is built anew.
    """
    device, n, before = target.ids.device, len(target.part_of), int(target.top.depth)
    count, _ = set_frame(target, wp.full(n, 1, dtype=wp.int32, device=device))
    if nodes is not None:
        used = nodes.ids >= 0
        starts = np.r_[0, used.sum(axis=1).cumsum()]
        _, children, root, _ = binary_nodes(nodes, starts, 0, 0)
        for array, rows in ((target.children, children), (target.ids, nodes.ids[used])):
            fresh = wp.array(rows, dtype=array.dtype, device=device)
            wp.copy(array, fresh, count=len(rows))
        target.top.root, target.top.count = root.tolist()
        target.top.nodes = len(children)
    elif count:
        build(target, wp.array(np.arange(n), dtype=wp.int32, device=device), count, 1)
    fit(target)
    target.depth += int(target.top.depth) - before


# One thread at a time moves leaves of a `LateView`.
_moving = ForkSafeLock()


class LateView:
    """View of a scene on a device, for hits: its leaves are moved when an attribute is read.

    `moves` and `moved_at` count as those of a `SceneView`, but moves on the device.
    """

    def __init__(self, leaves: FlattenedInstances) -> None:
        self._leaves = leaves
        columns = leaves.tree_of, leaves.maps, leaves.masks, leaves.instance_id
        self.view = SceneView(leaves.trees, *columns)
        self._check()
        # `_late` tells which leaves have not been moved in the view.
        self.moves, self.moved_at = 0, np.zeros(len(leaves), np.int64)
        self._late = np.zeros(len(leaves), np.bool_)

    def _check(self) -> None:
        """Raise a TypeError if a leaf that is not hidden is not over triangles."""
        other = self.view.first_other(-1)
        if other is not None:
            leaf, kind = other
            raise TypeError(
                f"only scenes of triangles can be on a device, but leaf {leaf} is over {kind}"
            )

    def set_masks(self, rows: NDArray[np.int64], masks: NDArray[np.uint32]) -> None:
        """Set the masks of the leaves `rows`; raise a TypeError as `_check` does."""
        self.view.set_masks(rows, masks)
        self._check()

    def note(self, rows: NDArray[np.int64]) -> None:
        """Note that the leaves `rows` have moved on the device."""
        self.moves += 1
        self.moved_at[rows], self._late[rows] = self.moves, True

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the view, after moving leaves that have moved on the device."""
        with _moving.lock:
            rows = np.flatnonzero(self._late)
            if len(rows):
                self.view.move(rows, self._leaves.maps[rows])
                # Only now: after an error the leaves are moved at the next use.
                self._late[rows] = False
        return getattr(self.view, name)
