"""Tree rows: the one layout in which a tree stands in memory for kernels, and its accessors.

A row is `SIZE` words of int64: the addresses of a tree's arrays and the kind of its primitives. To
hand a kernel one address takes less than to unpack ten arrays, and trees of any number stand side
by side. Batches, single rays, instances, contacts and distances all read it; only users' own loops
(`bvh.kernels`) are given arrays. `TreeArrays.row` fills the row of a tree and keeps it.

To add an array to trees: add its word to the list below, an accessor, and its address to `new_row`;
where all traversals want its pointer, a field to `TreePointers`. The arrays of primitives are the
words from PRIMITIVES on, in the order of their fields; `shapes.py` says how to add a kind.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import Dispatcher, inlined
from bvh.runtime.simd import peek, pointer_to

# The words: addresses, 0 of arrays without items, such as the nodes of an empty tree and the bits
# of faces that all count; the kind of primitives, and their arrays, of which only scenes have more
# than two; what only distances need: the lowest ids, and oriented boxes, of nodes' children.
NODES, IDS, GROUPS, FRAME, BITS, KIND, PRIMITIVES = range(7)
POINTS, FACES = PRIMITIVES, PRIMITIVES + 1
LOWEST, BOXES, SIZE = 12, 13, 14

# Kinds of primitives other than shapes, whose classes have their codes.
TRIANGLES, USERS, LEAVES = 0, -1, -2

# Values whose types pointers take.
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)

Array = NDArray[Any] | None


def addresses(*arrays: Array) -> list[int]:
    """Return the addresses of arrays; 0 for None, and for arrays without items."""
    return [0 if array is None or not array.size else array.ctypes.data for array in arrays]


def new_row(
    nodes: tuple[Array, Array], groups: Array, frame: Array, bits: Array, kind: int,
    primitives: Sequence[Array], lowest: Array = None, boxes: Array = None,
) -> NDArray[np.int64]:  # fmt: skip
    """Return a row, of `nodes` and their ids; what it points to must live as long."""
    row = np.zeros(SIZE, np.int64)
    row[:KIND] = addresses(*nodes, groups, frame, bits)
    row[KIND] = kind
    row[PRIMITIVES : PRIMITIVES + len(primitives)] = addresses(*primitives)
    row[LOWEST:] = addresses(lowest, boxes)
    return row


# The row at an address; whether the tree of a row has no nodes; the kind of its primitives; whether
# its faces have bits (without them all count); the i-th array of its primitives, of numbers as one.
row_at = inlined(lambda address: pointer_to(address, I8))
is_empty = inlined(lambda row: peek(row, NODES) == 0)
kind = inlined(lambda row: peek(row, KIND))
has_bits = inlined(lambda row: peek(row, BITS) != 0)
part = inlined(lambda row, i, like: pointer_to(peek(row, PRIMITIVES + i), like))


def _pointer(word: int, like: object) -> Dispatcher:
    """Return an accessor of the pointer in a word of a row, to numbers like one."""
    return inlined(lambda row: pointer_to(peek(row, word), like))


# See `wide_nodes`, `triangle_groups` and `compact_groups`, `frame`, `face_bits`; ids: of groups at
# `id_place`.
blocks, ids, groups = _pointer(NODES, F4), _pointer(IDS, I4), _pointer(GROUPS, F4)
compact = _pointer(GROUPS, np.int16(0))
frame, bits = _pointer(FRAME, F8), _pointer(BITS, I4)
# The vertices of triangles, or the numbers of other primitives.
points, faces = _pointer(POINTS, F8), _pointer(FACES, I4)
# The lowest primitive below each child of each node, and children's boxes (see `oriented_boxes`).
lowest, boxes = _pointer(LOWEST, I4), _pointer(BOXES, F4)
