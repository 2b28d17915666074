"""`TreeArrays`: the arrays of a tree, its row, and how kernels make pointers from either."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.user_calls import INTERSECT, user_call
from bvh.runtime.jit import inlined
from bvh.runtime.simd import pointer, shifted
from bvh.runtime.tuple_references import Pointer, as_pointers, borrowed, makes_pointers_of
from bvh.tree import rows
from bvh.tree.face_bits import NO_BITS
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Custom, Primitives, Triangles, arrays_of
from bvh.tree.shapes import SHAPES, BoxRow, CapsuleRow, ObbRow, SphereRow
from bvh.tree.triangle_groups import first_id
from bvh.tree.wide_nodes import WideNodes


class _Arrays(NamedTuple):
    """The fields of `TreeArrays`, which is a class of its own for its cached row."""

    nodes: WideNodes
    # float32: see `triangle_groups`; int16: see `compact_groups`; empty for other primitives.
    groups: NDArray[Any]
    primitives: Primitives
    frame: NDArray[np.float64]  # (4, 3): see `frame`
    # The bits of the face in each row and lane of ids; no rows if faces have no bits.
    face_bits: NDArray[np.int32] = NO_BITS


class TriangleRow(NamedTuple):
    """The row of a tree over triangles (see `rows`), as kernels take it."""

    address: int


class CompactRow(NamedTuple):
    """The row of a tree over triangles whose groups are compact, as kernels take it."""

    address: int


class CustomRow(NamedTuple):
    """The row of a tree over a user's primitives, and what `Custom` holds besides arrays."""

    address: int
    intersect: object
    data: object


class SceneRow(NamedTuple):
    """The row of the TLAS of a scene."""

    address: int


TreeRow = TriangleRow | CompactRow | BoxRow | ObbRow | SphereRow | CapsuleRow | CustomRow | SceneRow

# By the class of a tree's primitives: the code of their kind in rows, and the class of its row.
ROWS: dict[type, tuple[int, Callable[..., TreeRow]]] = {
    Triangles: (rows.TRIANGLES, TriangleRow),
    **{shape.arrays: (shape.code, shape.row) for shape in SHAPES},
    Custom: (rows.USERS, CustomRow),
    Instanced: (rows.LEAVES, SceneRow),
}


class TreeArrays(_Arrays):
    """The arrays of a tree, all read-only."""

    @cached_property
    def row(self) -> TreeRow:
        """The row of the tree, as kernels take it; it lives as long as this object."""
        # If two threads make the words at once, both use those that were stored first.
        words = self.__dict__.setdefault("_words", self.words())
        primitives = self.primitives
        # The test and the data of a user's primitives.
        users = primitives[1:] if isinstance(primitives, Custom) else ()
        row_class = CompactRow if self.compact else ROWS[type(primitives)][1]
        return row_class(words.ctypes.data, *users)

    @property
    def compact(self) -> bool:
        """Whether the groups are compact."""
        return self.groups.dtype == np.int16

    def words(
        self, lowest: NDArray[np.int32] | None = None, boxes: NDArray[np.float32] | None = None
    ) -> NDArray[np.int64]:
        """Return the words of a new row: the addresses of the arrays, which must outlive it.

        `lowest` and `boxes` are the lowest primitive and the oriented box of each child of nodes.
        """
        nodes, groups, primitives, frame, bits = self
        kind, _ = ROWS[type(primitives)]
        parts = arrays_of(primitives)
        node_arrays = nodes.data, nodes.ids
        return rows.new_row(node_arrays, groups, frame, bits, kind, parts, lowest, boxes)

    def __getstate__(self) -> None:
        """Pickle no attributes: the tuple has the arrays; a row's addresses are of this process."""


class TreePointers(NamedTuple):
    """The pointers of a tree inside kernels."""

    blocks: Pointer[np.float32]
    ids: Pointer[np.int32]
    groups: Pointer[np.float32]  # of int16 if compact
    primitives: Primitives | Instanced  # pointers
    frame: Pointer[np.float64]
    face_bits: Pointer[np.int32]
    has_bits: bool  # without bits, every mask selects all faces


# A pointer to the first id.
_ids_of = inlined(lambda rows: shifted(pointer(rows), first_id(rows, np.int64(0))))


@makes_pointers_of(TreeArrays)
def _tree_pointers(arrays):
    """Return the `TreePointers` of `TreeArrays`: a pointer to each of the arrays."""
    return TreePointers(
        pointer(arrays.nodes.data), _ids_of(arrays.nodes.rows), pointer(arrays.groups),
        as_pointers(arrays.primitives), pointer(arrays.frame), pointer(arrays.face_bits),
        len(arrays.face_bits) > 0,
    )  # fmt: skip


# The `TreePointers` of the tree of a row, with full groups and given pointers of primitives.
pointers_at = inlined(lambda row, primitives: _pointers_with(row, rows.groups(row), primitives))


@inlined
def _pointers_with(row, groups, primitives):
    """Return the `TreePointers` of the tree of `row`, given pointers to groups and primitives."""
    return TreePointers(
        rows.blocks(row), rows.ids(row), groups, primitives, rows.frame(row), rows.bits(row),
        rows.has_bits(row),
    )  # fmt: skip


def _register(
    kind: type, primitives: Callable[..., object], groups: Callable[..., object] = rows.groups
) -> None:
    """Make `as_pointers` return the `TreePointers` of the tree of a row of the class `kind`.

    `primitives` is a function of the words of the row, and of the row.
    """

    @makes_pointers_of(kind)
    def make(arrays):
        row = rows.row_at(arrays.address)
        return _pointers_with(row, groups(row), primitives(row, arrays))


def _shapes(kind: type) -> Any:
    """Return the function that makes pointers of shapes of the class `kind`."""
    return inlined(lambda row, tree: kind(rows.points(row)))


_triangles = inlined(lambda row, tree: Triangles(rows.points(row), rows.faces(row)))
_register(TriangleRow, _triangles)
_register(CompactRow, _triangles, rows.compact)
for shape in SHAPES:
    _register(shape.row, _shapes(shape.arrays))
# Data counts no references.
_register(
    CustomRow,
    inlined(lambda row, tree: Custom(rows.points(row), tree.intersect, borrowed(tree.data))),
)


@inlined
def _instanced(row, tree):
    """Return `Instanced` of pointers: part(row, i, number) is array i, of numbers of this type."""
    return Instanced(
        rows.part(row, 0, 0.0), rows.part(row, 1, 0.0), rows.part(row, 2, 0.0),
        rows.part(row, 3, np.int64(0)), rows.part(row, 4, np.int32(0)),
        rows.part(row, 5, np.int32(0)),
    )  # fmt: skip


_register(SceneRow, _instanced)


# Whether the tree of a row has no nodes, so that nothing is found in it.
is_empty = inlined(lambda tree: rows.is_empty(rows.row_at(tree.address)))


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the tree with read-only arrays, as kernels take them."""
    # Triangle groups end with the ids, so they replace the rows, and ids are stored once.
    (data, rows), groups, primitives, frame, bits = arrays
    rows = groups.view(np.int32).reshape(len(rows), -1) if groups.size else rows
    return TreeArrays(
        WideNodes(kernel_input(data), kernel_input(rows)), kernel_input(groups),
        frozen_primitives(primitives), kernel_input(frame), kernel_input(bits),
    )  # fmt: skip


def frozen_primitives(primitives: Primitives) -> Primitives:
    """Return the primitives with read-only arrays."""
    if isinstance(primitives, Custom):
        return primitives._replace(points=kernel_input(primitives.points))
    return type(primitives)(*(kernel_input(array) for array in primitives))


def with_bits(arrays: TreeArrays, groups: NDArray[np.uint32]) -> TreeArrays:
    """Return the tree with the bits of its faces in the order of its leaves (see `face_bits`).

    `groups` (m,) are the bits of each face.
    """
    # The id -1 of unused lanes selects the 0 at the end.
    bits = np.append(groups, np.uint32(0)).view(np.int32)[arrays.nodes.ids]
    return arrays._replace(face_bits=kernel_input(bits) if bits.size else NO_BITS)


def emptied(arrays: TreeArrays) -> TreeArrays:
    """Return the tree without nodes, in which queries find nothing."""
    data, rows = arrays.nodes
    nodes = WideNodes(kernel_input(data[:0]), kernel_input(rows[:0]))
    return arrays._replace(nodes=nodes, face_bits=NO_BITS)


def bytes_of(*held: object) -> int:
    """Return the bytes, in sum, of all arrays in nested tuples, lists and values of dicts."""
    # Arrays at one address count once.
    sizes: dict[int, int] = {}
    rest = list(held)
    while rest:
        part = rest.pop()
        if isinstance(part, np.ndarray):
            # One array may be the beginning of another: count the larger one.
            sizes[part.ctypes.data] = max(sizes.get(part.ctypes.data, 0), part.nbytes)
        elif isinstance(part, tuple | list | dict):
            rest += part.values() if isinstance(part, dict) else part
    return sum(sizes.values())


def kernel_arrays(arrays: TreeArrays) -> tuple[TreeArrays, object]:
    """Return (tree, owner) of a tree over a user's primitives, for kernels.

    The tree returned has the addresses of the user's test and data in their place. The owner, a
    `UserCall`, keeps both alive: it must outlive the kernels' use of the addresses.
    """
    primitives: Any = arrays.primitives
    call = user_call(primitives.intersect, primitives.data, INTERSECT)
    custom = Custom(primitives.points, call.function, call.data)
    return arrays._replace(primitives=custom), call
