"""Box records, the input of builders, bins, and operations on both.

A record is a primitive's box and id as one vector of eight float32, a row of an array: minus the
lower corner, the id plus FIRST_ID as bits, the upper corner, and an unused lane. Thus the union of
two boxes is one maximum, and a record is all that a builder needs of a primitive. Boxes without
ids are such vectors, too; so are points, as boxes with equal corners.

A *bin* is a box around some records, whose last lane counts them, as an int32. In the functions
below `row` is a row of an array (n, 8); a `scale` (four lanes, the last unused) is the number of
bins in a unit of each axis.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.compiler.code_types import Builder, Operation, Type, TypingContext, Value
from bvh.runtime.compiler.lazy_modules import LazyModule, ir, types
from bvh.runtime.jit import inlined, llvm_operation
from bvh.runtime.memory import aligned
from bvh.tree.nodes import SMALLEST_PLANE

if TYPE_CHECKING:
    from bvh.runtime.simd import memory
else:
    memory = LazyModule("bvh.runtime.simd.memory")

# Numbers of a record, and lanes: of the id, of the x of the upper corner, and of a bin's count.
WIDTH, ID, UPPER, COUNT = 8, 3, 4, 7

# Ids are stored with this added, below 2**30 + 2**29: as float32 these bits are normal numbers,
# and so are their squares. Operations on all lanes take three times as long with subnormal ones.
FIRST_ID = 1 << 29

# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100

F4 = np.float32(0.0)
# Bits of a float32: all but the sign, and those of infinity and of the smallest plane.
MAGNITUDE, INFINITY_BITS = 0x7FFFFFFF, 0x7F800000
SMALLEST_BITS = int(np.float32(SMALLEST_PLANE).view(np.int32))


def new(count: int) -> NDArray[np.float32]:
    """Return memory for `count` records, none of which is in two cache lines."""
    return aligned(count * WIDTH, np.float32).reshape(-1, WIDTH)


def counts(bins: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return a view of the number of records in each bin; `bins` has shape (..., 8)."""
    return bins.view(np.int32)[..., COUNT]


# Intrinsics, because kernels have many calls of them: functions would take longer to compile.
@llvm_operation
def load(typingctx: TypingContext, array: Type, row: Type) -> Operation:
    """Return row `row` of an array (n, 8) as a vector."""
    signature, write = memory.loading(array, types.IntegerLiteral(WIDTH), types.float32)

    def codegen(context, builder, sig, args):
        return write(context, builder, signature, [args[0], _first_index(builder, args[1])])

    return signature.return_type(array, types.int64), codegen


@llvm_operation
def store(typingctx: TypingContext, array: Type, row: Type, value: Type) -> Operation:
    """Write a vector to row `row` of an array (n, 8)."""
    signature, write = memory.storing(array, value, types.float32)

    def codegen(context, builder, sig, args):
        place = [args[0], _first_index(builder, args[1]), args[2]]
        return write(context, builder, signature, place)

    return types.void(array, types.int64, value), codegen


def _first_index(builder: Builder, row: Value) -> Value:
    """Return the index of the first number of a row."""
    return builder.mul(row, ir.Constant(row.type, WIDTH))


# The union and the intersection of two boxes; lower > upper where the intersection is empty.
join, meet = simd.maximum, simd.minimum
empty_box = inlined(lambda: simd.splat(np.float32(-INF), WIDTH))
lane_of = inlined(lambda array, row, lane: simd.peek(array, row * WIDTH + lane))

# Minus the lower corner, and the upper corner, in four lanes each; the size of a box.
_low = inlined(lambda box: simd.part(box, 0, 4))
_high = inlined(lambda box: simd.part(box, UPPER, 4))
size_of = inlined(lambda box: _high(box) + _low(box))

# The id of a record in a row, and of one as a vector.
id_of = inlined(lambda array, row: simd.peek_int(array, row * WIDTH + ID) - FIRST_ID)
id_in = inlined(lambda r: simd.lane(simd.as_ints(r), np.int32(ID)) - FIRST_ID)
# All lanes of a vector set to one of them.
spread_lane = inlined(lambda v, lane: simd.permute(v, simd.splat(np.int32(lane), WIDTH)))


@inlined
def box_record(low, high, prim):
    """Return the record of the primitive with the id `prim`."""
    # `low` and `high` are the corners of its box, four lanes of float32 each, the last unused.
    box = simd.joined(-low, high)
    id_lane = simd.as_floats(np.int32(prim + FIRST_ID))
    return simd.select(simd.lane_numbers(WIDTH) == ID, id_lane, box)


@inlined
def corner(points, i):
    """Return the three doubles 3 i, 3 i + 1, 3 i + 2 of an array in four lanes, the last 0."""
    at = 3 * i
    # One load of four numbers, but for the last row.
    if at + 4 <= points.size:
        lanes = simd.load(points, at, 4)
        return simd.select(simd.lane_numbers(4) < 3, lanes, 0.0)
    x, y, z = simd.peek(points, at), simd.peek(points, at + 1), simd.peek(points, at + 2)
    return simd.from_lanes((x, y, z, 0.0))


@inlined
def outward(r):
    """Return a record whose box is one float32 larger on each side (see `nodes.above`)."""
    # Minus the lower corner and the upper corner both step towards infinity: a positive number by
    # adding one to its bits, a negative one by subtracting it; infinity stays.
    bits, numbers = simd.as_ints(r), simd.lane_numbers(WIDTH)
    up = simd.select(bits < INFINITY_BITS, bits + 1, bits)
    stepped = simd.select(bits >= 0, up, bits - 1)
    # Values nearer to zero than the smallest plane become that: denormal numbers are slow.
    stepped = simd.select((bits & MAGNITUDE) < SMALLEST_BITS, SMALLEST_BITS, stepped)
    is_corner = (numbers != ID) & (numbers != COUNT)
    return simd.select(is_corner, simd.as_floats(stepped), r)


@inlined
def centre(box):
    """Return twice the centre of a box or record, as a box with equal corners and no id."""
    # Rounding is symmetric, so one half is exactly minus the other.
    low, high = simd.part(box, 0, 4), simd.part(box, UPPER, 4)
    return simd.joined(low - high, high - low)


@inlined
def half_area(box):
    """Return half the surface area of a box that is not empty."""
    size = size_of(box)
    x, y = simd.lane(size, np.int32(0)), simd.lane(size, np.int32(1))
    z = simd.lane(size, np.int32(2))
    return (x * y + y * z) + z * x


@inlined
def overlaps(box):
    """Return whether the result of `meet` is not empty: its size is >= 0 on all three axes."""
    return simd.mask_bits(size_of(box) >= F4) & 7 == 7


@inlined
def slab(axis, low, high):
    """Return the space between two planes across an axis, as a box unbounded on the other axes."""
    # `high` is the coordinate of the upper plane, and `low` is minus that of the lower one.
    numbers = simd.lane_numbers(WIDTH)
    rest = simd.select(numbers == axis + UPPER, high, np.float32(INF))
    return simd.select(numbers == axis, low, rest)


@inlined
def load_bounds(bounds, node):
    """Return row `node` of an (n, 6) array of lower and upper corners as a box."""
    at = 6 * node
    a, b, c = simd.peek(bounds, at), simd.peek(bounds, at + 1), simd.peek(bounds, at + 2)
    x, y, z = simd.peek(bounds, at + 3), simd.peek(bounds, at + 4), simd.peek(bounds, at + 5)
    return simd.from_lanes((-a, -b, -c, F4, x, y, z, F4))


@inlined
def store_bounds(bounds, node, box):
    """Write a box into row `node` of an (n, 6) array of lower and upper corners."""
    for axis in range(3):
        simd.poke(bounds, 6 * node + axis, -simd.lane(box, np.int32(axis)))
        simd.poke(bounds, 6 * node + axis + 3, simd.lane(box, np.int32(axis + UPPER)))


@inlined
def _with_count(box, lanes):
    """Return a box as a bin whose count is lane COUNT of the int32 vector `lanes`."""
    return simd.select(simd.lane_numbers(WIDTH) == COUNT, simd.as_floats(lanes), box)


@inlined
def empty_bin():
    """Return the bin of no records."""
    return simd.select(simd.lane_numbers(WIDTH) == COUNT, F4, np.float32(-INF))


# The number of records of a bin.
count_of = inlined(lambda bin: simd.lane(simd.as_ints(bin), np.int32(COUNT)))
# Four lanes of int32, the last of which is that number.
counts_in = inlined(lambda bin: simd.as_ints(_high(bin)))


@inlined
def join_bins(a, b):
    """Return the bin of the records of both bins: the union of boxes, and the sum of counts."""
    return _with_count(join(a, b), simd.as_ints(a) + simd.as_ints(b))


@inlined
def _put_at(bins, at, r):
    """Extend the bin whose numbers begin at `at` to contain a record, and count it."""
    # As a float a count is denormal: an operation that flushes it to 0 would lose it.
    bin = simd.load(bins, at, WIDTH)
    one = simd.splat(np.int32(1), WIDTH)
    simd.store(bins, at, _with_count(join(bin, r), simd.as_ints(bin) + one))


# Extend the bin in a row to contain a record, and count it.
put = inlined(lambda bins, row, r: _put_at(bins, row * WIDTH, r))


@inlined
def add(bins, row, box):
    """Extend the bin in a row to contain a box, without changing its count."""
    bin = load(bins, row)
    store(bins, row, _with_count(join(bin, box), simd.as_ints(bin)))


@inlined
def scales(box, count):
    """Return the number of bins in a unit of each axis, four lanes, for `count` bins of a box."""
    # It is 0 for an axis on which the box is not wider than NARROWEST. Else it is less by a share
    # of 2**-20, more than all rounding, so that every point of the box is in a bin below `count`.
    size = size_of(box)
    count = simd.splat(np.float32(count) * np.float32(1.0 - 2.0**-20), 4)
    return simd.select(size > np.float32(NARROWEST), count / size, F4)


@inlined
def _bin_lanes(point, box, scale):
    """Return the bin of a point on each axis of a box around it: four lanes of int32, one unused.

    Bins begin at the lower corner of the box, with `scale` bins in a unit.
    """
    return simd.convert((_high(point) + _low(box)) * scale, np.int32(0))


@inlined
def bins_of(point, box, scale):
    """Return (x, y, z): the bin of a point on each axis of a box around it, from 0 on."""
    # The point is doubled, as by `centre`, and so is the box, of doubled centres.
    return simd.three_of(_bin_lanes(point, box, scale))


@inlined
def spans_of(r, box, scale, last):
    """Return the first bin that a record's box is in on each axis, then the last: six integers.

    Bins begin at the lower corner of `box`, `scale` bins in a unit, and are numbered from 0 to
    `last`. The last bin of a record is not before its first one.
    """
    begin, most = _low(box), simd.splat(np.int32(last), 4)
    first = simd.convert((begin - _low(r)) * scale, np.int32(0))
    first = simd.lesser(simd.greater(first, simd.splat(np.int32(0), 4)), most)
    end = simd.convert((begin + _high(r)) * scale, np.int32(0))
    end = simd.lesser(simd.greater(end, first), most)
    return (*simd.three_of(first), *simd.three_of(end))


@inlined
def drop(bins, begin, r, box, scale, stride):
    """Put a record into the bin of its centre on each axis.

    `box` is the box of the doubled centres of all records, with `scale` bins in a unit. The bins
    of axis k begin in row `begin` + k * `stride`.
    """
    x, y, z = simd.three_of(_bin_lanes(centre(r), box, scale) * np.int32(WIDTH))
    begin, stride = begin * WIDTH, stride * WIDTH
    _put_at(bins, begin + x, r)
    _put_at(bins, begin + stride + y, r)
    _put_at(bins, begin + 2 * stride + z, r)
