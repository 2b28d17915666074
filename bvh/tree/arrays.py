"""`TreeArrays`: the arrays of a tree, as kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.simd import pointer
from bvh.runtime.tuple_references import as_pointers, pointers_of
from bvh.runtime.user_calls import INTERSECT, user_call
from bvh.tree.primitives import Custom, Primitives
from bvh.tree.wide_nodes import WideNodes


class TreeArrays(NamedTuple):
    """The arrays of a tree, all read-only."""

    nodes: WideNodes
    groups: NDArray[np.float32]  # see `triangle_groups`; empty for other primitives
    primitives: Primitives
    frame: NDArray[np.float64]  # (4, 3): see `frame`


class TreePointers(NamedTuple):
    """The pointers of a tree inside kernels."""

    blocks: Any
    ids: Any
    groups: Any
    primitives: Any
    frame: Any


@pointers_of(TreeArrays)
def _tree_pointers(arrays):
    return TreePointers(
        pointer(arrays.nodes.data),
        pointer(arrays.nodes.ids),
        pointer(arrays.groups),
        as_pointers(arrays.primitives),
        pointer(arrays.frame),
    )


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the arrays read-only, as kernels take them."""
    nodes, groups, primitives, frame = arrays
    return TreeArrays(
        WideNodes(*map(kernel_input, nodes)), kernel_input(groups), frozen_primitives(primitives),
        kernel_input(frame),
    )  # fmt: skip


def frozen_primitives(primitives: Primitives) -> Primitives:
    """Return the primitives with read-only arrays."""
    if isinstance(primitives, Custom):
        return primitives._replace(points=kernel_input(primitives.points))
    return type(primitives)(*(kernel_input(array) for array in primitives))


def kernel_arrays(arrays: TreeArrays) -> tuple[TreeArrays, object]:
    """Return a tree as kernels of this package take it, and what must stay alive meanwhile."""
    primitives = arrays.primitives
    if not isinstance(primitives, Custom):
        return arrays, None
    call = user_call(primitives.intersect, primitives.data, INTERSECT)
    custom = Custom(primitives.points, call.function, call.data)
    return arrays._replace(primitives=custom), call
