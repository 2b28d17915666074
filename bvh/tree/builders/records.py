"""Box records, the input of builders, and vector operations on them.

A record is eight float32: minus the lower corner, the primitive's id (its bits), the upper corner,
and an unused lane. Thus the union of two boxes is one vector maximum, and a record is all that a
builder needs of a primitive. The operations are those of `record_operations`.
"""

from bvh.runtime.compiler.deferred import names_of

# Lanes of a record: -x -y -z of the lower corner, id, x y z of the upper corner, unused.
WIDTH, ID, UPPER = 8, 3, 4
# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100

_OPERATIONS = (
    "add bins_of box_record centre corner half_area id_of join lane4 lane_of load "
    "load_bounds meet nothing only_if outward overlaps record scales store store_bounds"
)
__getattr__ = names_of("bvh.tree.builders.record_operations", _OPERATIONS)
