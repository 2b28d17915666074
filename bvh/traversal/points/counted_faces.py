"""Faces that count for a query of points: those that share a bit with its mask."""

from typing import NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, select, splat
from bvh.runtime.tuple_references import Pointer
from bvh.tree.face_bits import sharing, sharing_lanes

ALL_LANES = (1 << WIDTH) - 1


class CountedFaces(NamedTuple):
    """Which faces of a tree count: those whose bits (see `face_bits`) share one with a mask."""

    bits: Pointer[np.int32]
    has_bits: bool  # without them all count
    mask: int


@inlined
def counted_lanes(faces, group):
    """Return the lanes of a group whose faces count, as bits."""
    return sharing(faces.bits, group, faces.mask) if faces.has_bits else np.int64(ALL_LANES)


@inlined
def counted_bounds(faces, group, low, high):
    """Return bounds of distances to the faces of a group: infinite where they do not count."""
    if not faces.has_bits:
        return low, high
    lanes, none = sharing_lanes(faces.bits, group, faces.mask), splat(np.float32(INF), WIDTH)
    return select(lanes, low, none), select(lanes, high, none)
