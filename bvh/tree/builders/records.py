"""Box records, the input of builders, and vector operations on them.

A record is eight float32: minus the lower corner, the primitive's id (its bits), the upper corner,
and an unused lane. Thus the union of two boxes is one vector maximum, and a record is all that a
builder needs of a primitive. The operations are those of `record_operations`.
"""

from bvh.runtime.compiler.deferred import names_of
from bvh.tree.builders.record_layout import ID, NARROWEST, UPPER, WIDTH

__all__ = ["ID", "NARROWEST", "UPPER", "WIDTH"]

_OPERATIONS = (
    "add bins_of box_record centre corner half_area id_of join lane4 lane_of load "
    "load_bounds meet nothing only_if outward overlaps record scales store store_bounds"
)
__getattr__ = names_of("bvh.tree.builders.record_operations", _OPERATIONS)
