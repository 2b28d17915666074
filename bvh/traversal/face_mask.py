"""Face mask: which faces of a triangle group share a bit with the mask of a query."""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, select, splat
from bvh.tree.face_bits import sharing, sharing_lanes

ALL_LANES = (1 << WIDTH) - 1


@inlined
def selected_lanes(tree, group, mask):
    """Return the lanes of triangle group number `group`, as bits, whose faces `mask` selects.

    A mask selects a face if they share a bit, and every face if the tree has no bits of faces.
    """
    return sharing(tree.face_bits, group, mask) if tree.has_bits else np.int64(ALL_LANES)


@inlined
def selected_bounds(tree, group, mask, low, high):
    """Return `low` and `high`, bounds of distances to a group's faces, with inf for excluded faces.

    A face is excluded if it shares no bit with `mask`; none is if the tree has no bits of faces.
    """
    if not tree.has_bits:
        return low, high
    lanes, infinite = sharing_lanes(tree.face_bits, group, mask), splat(np.float32(INF), WIDTH)
    return select(lanes, low, infinite), select(lanes, high, infinite)
