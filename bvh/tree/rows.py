"""Tree rows: the one layout in which a tree stands in memory for kernels, and its accessors.

A row is `SIZE` words of int64: the addresses of a tree's arrays and the kind of its primitives. One
address is passed to a kernel in less time than ten arrays, and an array of addresses stands for any
number of trees. Batches, single rays, instances, contacts and distances all read rows; only users'
own loops (`bvh.kernels`) take arrays. `TreeArrays.row` fills the row of a tree and stores it.

To add an array to trees: add its word to the list below, an accessor, and its address to `new_row`;
if all traversals use its pointer, a field to `TreePointers`. The arrays of primitives are the
words from PRIMITIVES on, in the order of their fields; `shapes.py` says how to add a kind.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import Dispatcher, inlined
from bvh.runtime.simd import peek, pointer_to

# The words of a row. NODES to BITS are addresses of the tree's arrays, KIND is the kind of its
# primitives; from PRIMITIVES on follow the addresses of their arrays, six for scenes, at most two
# for others. LOWEST and BOXES are tables for distances: the lowest ids, and oriented boxes, of
# nodes' children. The address of an array without items is 0, as of the nodes of an empty tree.
NODES, IDS, GROUPS, FRAME, BITS, KIND, PRIMITIVES = range(7)
POINTS, FACES = PRIMITIVES, PRIMITIVES + 1
# Of a part of a mesh, as a leaf of a scene: the address of the ids that its faces have in the mesh,
# which break ties; 0 of other trees.
WHOLE_IDS = PRIMITIVES + 2
LOWEST, BOXES, SIZE = 12, 13, 14

# Kinds of primitives other than shapes, whose classes have their codes.
TRIANGLES, USERS, LEAVES = 0, -1, -2

# One value of each type of numbers that pointers can have.
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)

Array = NDArray[Any] | None


def addresses(*arrays: Array) -> list[int]:
    """Return the addresses of arrays; 0 for None, and for arrays without items."""
    return [0 if array is None or not array.size else array.ctypes.data for array in arrays]


def new_row(
    nodes: tuple[Array, Array], groups: Array, frame: Array, bits: Array, kind: int,
    primitives: Sequence[Array], lowest: Array = None, boxes: Array = None,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the row of a tree: SIZE words with the addresses of its arrays, which must outlive it.

    `nodes` are (data of wide nodes, ids in leaves), `bits` are the group bits of faces, `kind` is
    the code of the primitives' kind, and `primitives` are their arrays. `lowest` and `boxes` have
    the lowest primitive and the oriented box of each child. None stands for a missing array.
    """
    row = np.zeros(SIZE, np.int64)
    row[:KIND] = addresses(*nodes, groups, frame, bits)
    row[KIND] = kind
    row[PRIMITIVES : PRIMITIVES + len(primitives)] = addresses(*primitives)
    row[LOWEST:] = addresses(lowest, boxes)
    return row


# The row at an address.
row_at = inlined(lambda address: pointer_to(address, I8))
# Whether the tree of a row has no nodes; the kind of its primitives.
is_empty = inlined(lambda row: peek(row, NODES) == 0)
kind = inlined(lambda row: peek(row, KIND))
# Whether the faces of a tree have bits: without them, every mask selects all.
has_bits = inlined(lambda row: peek(row, BITS) != 0)
# The pointer to array i of the primitives, whose numbers have the type of `like`.
part = inlined(lambda row, i, like: pointer_to(peek(row, PRIMITIVES + i), like))


def _accessor(word: int, like: object) -> Dispatcher:
    """Return the function (row) -> pointer to the array whose address is a word of the row."""
    # The array has numbers of the type of `like`.
    return inlined(lambda row: pointer_to(peek(row, word), like))


# The nodes, the ids in leaves (of triangles at `triangle_groups.id_place`), and triangle groups, of
# float32 or compact; the frame and the bits of faces: see the files of these names.
blocks, ids, groups = _accessor(NODES, F4), _accessor(IDS, I4), _accessor(GROUPS, F4)
compact = _accessor(GROUPS, np.int16(0))
frame, bits = _accessor(FRAME, F8), _accessor(BITS, I4)
# The vertices of triangles, or the numbers of other primitives.
points, faces = _accessor(POINTS, F8), _accessor(FACES, I4)
# The id in the whole mesh of face i of a part.
whole_id = inlined(lambda row, i: peek(pointer_to(peek(row, WHOLE_IDS), I8), i))
# The lowest primitive below each child of each node, and children's boxes (see `oriented_boxes`).
lowest, boxes = _accessor(LOWEST, I4), _accessor(BOXES, F4)
