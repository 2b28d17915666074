"""Box records, the input of builders, and vector operations on them.

A record is eight float32: minus the lower corner, the primitive's id plus FIRST_ID as bits, the
upper corner, and an unused lane. Thus the union of two boxes is one vector maximum, and a record is
all that a builder needs of a primitive. The operations are those of `record_operations`.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import aligned
from bvh.runtime.compiler.deferred import names_of
from bvh.tree.builders.record_layout import COUNT, ID, NARROWEST, UPPER, WIDTH

__all__ = ["COUNT", "ID", "NARROWEST", "UPPER", "WIDTH", "new"]

_OPERATIONS = (
    "add bins_of box_record centre corner count_of drop empty_bin half_area id_in id_of join "
    "join_bins lane4 lane_of load load_bounds meet nothing outward overlaps put record scales "
    "slab spans_of spread_lane store store_bounds"
)
__getattr__ = names_of("bvh.tree.builders.record_operations", _OPERATIONS)


def new(count: int) -> NDArray[np.float32]:
    """Return memory for records, none of which is in two cache lines."""
    return aligned(count * WIDTH, np.float32).reshape(-1, WIDTH)
