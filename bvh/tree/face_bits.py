"""Bits of faces, which select the faces that a query sees: in the order of faces, and of leaves.

A query's mask selects the faces with which it shares a bit. For traversal, the bits are in the
order of the ids in leaves, a row of lanes for each triangle group: one comparison then removes the
faces of a group that are not selected, before any of them can shorten a ray.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, load, mask_bits, select, splat

# The bits of a tree whose faces have none: every mask selects all faces.
NO_BITS = kernel_input(np.empty((0, WIDTH), np.int32))
ALL_LANES = (1 << WIDTH) - 1


def selected(groups: NDArray[np.uint32], mask: int) -> NDArray[np.bool_]:
    """Return which of m faces a mask, int32 or uint32, selects; `groups` (m,) are their bits."""
    return np.asarray(groups & np.uint32(mask & 0xFFFFFFFF) != 0)


@inlined
def _sharing(tree, group, mask):
    """Return a mask of the lanes of triangle group number `group` that share a bit with `mask`."""
    shared = load(tree.face_bits, group * WIDTH, WIDTH) & splat(np.int32(mask), WIDTH)
    return shared != np.int32(0)


@inlined
def selected_lanes(tree, group, mask):
    """Return the lanes of triangle group number `group`, as bits, whose faces `mask` selects.

    A mask selects a face if they share a bit, and every face if the tree has no bits of faces.
    """
    if tree.has_bits:
        return np.int64(mask_bits(_sharing(tree, group, mask)))
    return np.int64(ALL_LANES)


@inlined
def selected_bounds(tree, group, mask, low, high):
    """Return `low` and `high`, bounds of distances to faces, with inf where `mask` selects none."""
    if not tree.has_bits:
        return low, high
    lanes, infinite = _sharing(tree, group, mask), splat(np.float32(INF), WIDTH)
    return select(lanes, low, infinite), select(lanes, high, infinite)
