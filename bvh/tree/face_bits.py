"""Bits of faces, which select the faces that a query sees: in the order of faces, and of leaves.

A query's mask selects the faces with which it shares a bit. For traversal, the bits are in the
order of the ids in leaves, a row of lanes for each triangle group: one comparison then removes the
faces of a group that are not selected, before any of them can shorten a ray.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, load, mask_bits, splat

# The bits of a tree whose faces have none: every mask selects all faces.
NO_BITS = kernel_input(np.empty((0, WIDTH), np.int32))


def selected(groups: NDArray[np.uint32], mask: int) -> NDArray[np.bool_]:
    """Return which of m faces a mask, int32 or uint32, selects; `groups` (m,) are their bits."""
    return np.asarray(groups & np.uint32(mask & 0xFFFFFFFF) != 0)


@inlined
def sharing_lanes(bits, group, mask):
    """Return a mask of the lanes of triangle group number `group` that share a bit with `mask`."""
    # `bits` has the bits of the face in each lane, WIDTH int32 for each triangle group.
    shared = load(bits, group * WIDTH, WIDTH) & splat(np.int32(mask), WIDTH)
    return shared != np.int32(0)


# The same lanes, as bits.
sharing = inlined(lambda bits, group, mask: np.int64(mask_bits(sharing_lanes(bits, group, mask))))
