"""Bits of faces, by which a query's mask tells those that count: by face, and as leaves have them.

A face counts for a query where it shares a bit with the query's mask. The bits lie as the ids of
leaves do, a row of lanes for each group of triangles, so that a group of candidates is decided by
one comparison, before any of them can shorten a ray. So those that do not count are as if they
were not there.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, load, mask_bits, splat

# The bits of a tree whose faces have none: all count for every mask.
NO_BITS = kernel_input(np.empty((0, WIDTH), np.int32))


def counted(groups: NDArray[np.uint32], mask: int) -> NDArray[np.bool_]:
    """Return which faces share a bit with a mask, as int32 or uint32."""
    return np.asarray(groups & np.uint32(mask & 0xFFFFFFFF) != 0)


@inlined
def sharing_lanes(bits, group, mask):
    """Return the lanes of a triangle group whose faces share a bit with a mask, as a vector."""
    shared = load(bits, group * WIDTH, WIDTH) & splat(np.int32(mask), WIDTH)
    return shared != np.int32(0)


# The same lanes, as bits.
sharing = inlined(lambda bits, group, mask: np.int64(mask_bits(sharing_lanes(bits, group, mask))))
