"""`TreeArrays`: the arrays of a tree, as kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.simd import pointer
from bvh.runtime.tuple_references import as_pointers, pointers_of
from bvh.runtime.user_calls import INTERSECT, user_call
from bvh.tree.face_bits import NO_BITS, row_bits
from bvh.tree.primitives import Custom, Primitives
from bvh.tree.wide_nodes import WideNodes


class TreeArrays(NamedTuple):
    """The arrays of a tree, all read-only."""

    nodes: WideNodes
    groups: NDArray[np.float32]  # see `triangle_groups`; empty for other primitives
    primitives: Primitives
    frame: NDArray[np.float64]  # (4, 3): see `frame`
    # Of the face in each row and lane of ids; without rows where all faces count.
    face_bits: NDArray[np.int32] = NO_BITS


class TreePointers(NamedTuple):
    """The pointers of a tree inside kernels."""

    blocks: Any
    ids: Any
    groups: Any
    primitives: Any
    frame: Any
    face_bits: Any
    has_bits: Any  # without them all faces count


@pointers_of(TreeArrays)
def _tree_pointers(arrays):
    return TreePointers(
        pointer(arrays.nodes.data),
        pointer(arrays.nodes.ids),
        pointer(arrays.groups),
        as_pointers(arrays.primitives),
        pointer(arrays.frame),
        pointer(arrays.face_bits),
        len(arrays.face_bits) > 0,
    )


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the arrays read-only, as kernels take them."""
    nodes, groups, primitives, frame, bits = arrays
    return TreeArrays(
        WideNodes(*map(kernel_input, nodes)), kernel_input(groups), frozen_primitives(primitives),
        kernel_input(frame), kernel_input(bits),
    )  # fmt: skip


def frozen_primitives(primitives: Primitives) -> Primitives:
    """Return the primitives with read-only arrays."""
    if isinstance(primitives, Custom):
        return primitives._replace(points=kernel_input(primitives.points))
    return type(primitives)(*(kernel_input(array) for array in primitives))


def with_bits(arrays: TreeArrays, groups: NDArray[np.uint32]) -> TreeArrays:
    """Return a tree whose faces have bits, by which a query's mask tells those that count."""
    return arrays._replace(face_bits=row_bits(arrays.nodes.ids, groups))


def emptied(arrays: TreeArrays) -> TreeArrays:
    """Return a tree that is as another, but has nothing to be found."""
    data, ids = arrays.nodes
    nodes = WideNodes(kernel_input(data[:0]), kernel_input(ids[:0]))
    return arrays._replace(nodes=nodes, face_bits=NO_BITS)


def bytes_of(*held: Any) -> int:
    """Return the bytes of all arrays in tuples, lists and dicts, each memory once."""
    sizes: dict[int, int] = {}
    rest = list(held)
    while rest:
        part = rest.pop()
        if isinstance(part, np.ndarray):
            # Of a whole and its beginning, the whole counts.
            sizes[part.ctypes.data] = max(sizes.get(part.ctypes.data, 0), part.nbytes)
        elif isinstance(part, tuple | list | dict):
            rest += part.values() if isinstance(part, dict) else part
    return sum(sizes.values())


def kernel_arrays(arrays: TreeArrays) -> tuple[TreeArrays, object]:
    """Return a tree as kernels of this package take it, and what must stay alive meanwhile."""
    primitives = arrays.primitives
    if not isinstance(primitives, Custom):
        return arrays, None
    call = user_call(primitives.intersect, primitives.data, INTERSECT)
    custom = Custom(primitives.points, call.function, call.data)
    return arrays._replace(primitives=custom), call
