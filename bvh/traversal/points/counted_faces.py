"""Faces that count for a query of points: those that share a bit with its mask."""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, select, splat
from bvh.tree.face_bits import sharing, sharing_lanes

ALL_LANES = (1 << WIDTH) - 1


@inlined
def counted_lanes(tree, mask, group):
    """Return the lanes of a group whose faces count, as bits."""
    return sharing(tree.face_bits, group, mask) if tree.has_bits else np.int64(ALL_LANES)


@inlined
def counted_bounds(tree, mask, group, low, high):
    """Return bounds of distances to the faces of a group: infinite where they do not count."""
    if not tree.has_bits:
        return low, high
    lanes, none = sharing_lanes(tree.face_bits, group, mask), splat(np.float32(INF), WIDTH)
    return select(lanes, low, none), select(lanes, high, none)
