"""`TreeArrays`: everything that a kernel needs of a tree, and how it is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input, owned
from bvh.builders import binned_sah, hlbvh, sbvh
from bvh.builders.subtrees import SMALLEST_TASK
from bvh.jit import warms
from bvh.leaves import GROUP_SIZE, pack_triangles
from bvh.nodes import Nodes, local_boxes
from bvh.preparation import prepare
from bvh.primitives import Custom, Primitives, Triangles, world_bounds
from bvh.simd import WIDTH
from bvh.user_calls import INTERSECT, user_call
from bvh.wide_nodes import BLOCK_SIZE, MAX_LEAF_ROWS, WideNodes, collapse, new_scratch
from bvh.workers import Progress, hold_memory_ready, share

# Builders of trees over triangles by the name of the quality they give; "high" splits them.
BUILDERS: dict[str, Callable[..., Nodes]] = {
    "low": hlbvh.build, "medium": binned_sah.build, "high": sbvh.build
}  # fmt: skip

# Groups that a thread packs at a time.
PACK_CHUNK = 2048


class TreeArrays(NamedTuple):
    """The arrays of a tree, all read-only.

    Attributes
    ----------
    nodes : WideNodes
    groups : ndarray of float32
        Triangles as leaves hold them (see `leaves`); empty for boxes.
    primitives : Triangles, Boxes, Obbs or Custom
    frame : ndarray of float64, shape (4, 3)
        The local frame of the node boxes (see `nodes.local_frame`), and the root's box in it.
    """

    nodes: WideNodes
    groups: NDArray[np.float32]
    primitives: Primitives
    frame: NDArray[np.float64]


def build(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[TreeArrays, NDArray[np.float64]]:
    """Build the tree over primitives; return it with its bounds in the world, shape (2, 3)."""
    if not isinstance(quality, str) or quality not in BUILDERS:
        raise ValueError(f"quality must be one of {sorted(BUILDERS)}, got {quality!r}")
    binary, frame, bounds = build_binary(primitives, quality, threads, progress)
    nodes = widen(binary, WIDTH if isinstance(primitives, Triangles) else 1)
    frame = np.vstack([frame, _root_box(binary)])
    groups = pack(primitives, nodes, frame, threads)
    return frozen(TreeArrays(nodes, groups, primitives, frame)), owned(bounds)


def build_binary(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[Nodes, NDArray[np.float64], NDArray[np.float64]]:
    """Build the binary tree; return it with its local frame and its bounds in the world."""
    if not isinstance(primitives, Triangles):
        # Boxes are tested one by one, whatever the quality.
        records, _, frame, bounds = prepare(primitives, threads)
        nodes = binned_sah.build(
            records, threads=threads, progress=progress, group_bits=0, max_leaf=MAX_LEAF_ROWS
        )
    elif quality == "high":
        records, count, frame, bounds = prepare(primitives, threads, sbvh.BUDGET)
        nodes = sbvh.build(primitives, records, count, frame, threads=threads, progress=progress)
    else:
        records, _, frame, bounds = prepare(primitives, threads)
        nodes = BUILDERS[quality](records, threads=threads, progress=progress)
    return nodes, frame, bounds


def _root_box(binary: Nodes) -> NDArray[np.float64]:
    box = np.zeros((2, 3))
    if len(binary.links) > 0:
        box[:] = binary.bounds[0].reshape(2, 3)
    return box


def widen(binary: Nodes, lanes: int) -> WideNodes:
    """Collapse a binary tree to wide nodes, with rows of `lanes` primitives."""
    none, no_ids = aligned(0, np.float32), np.empty((0, lanes), np.int32)
    if len(binary.links) == 0:
        return WideNodes(none, no_ids)
    scratch = new_scratch(binary.links)
    hold_memory_ready()
    count, rows = collapse(*binary, lanes, none, no_ids, True, scratch)
    nodes = WideNodes(aligned(count * BLOCK_SIZE, np.float32), np.empty((rows, lanes), np.int32))
    collapse(*binary, lanes, *nodes, False, scratch)
    return nodes


def pack(
    primitives: Primitives, nodes: WideNodes, frame: NDArray[np.float64], threads: int
) -> NDArray[np.float32]:
    """Lay out the triangles of all leaves for the filter; nothing for boxes."""
    if not isinstance(primitives, Triangles):
        return aligned(0, np.float32)
    points, faces = primitives
    groups = aligned(len(nodes.ids) * GROUP_SIZE, np.float32)
    ids, frame = kernel_input(nodes.ids), kernel_input(frame)

    def work(begin: int, end: int) -> None:
        pack_triangles(points, faces, ids, frame, begin, end, groups)

    share(len(ids), PACK_CHUNK, work, threads)
    return groups


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the same arrays, all read-only, as kernels are compiled for them."""
    nodes, groups, primitives, frame = arrays
    return TreeArrays(
        WideNodes(*(kernel_input(array) for array in nodes)),
        kernel_input(groups),
        frozen_primitives(primitives),
        kernel_input(frame),
    )


def frozen_primitives(primitives: Primitives) -> Primitives:
    """Return the same primitives, read-only."""
    if isinstance(primitives, Custom):
        return primitives._replace(points=kernel_input(primitives.points))
    return type(primitives)(*(kernel_input(array) for array in primitives))


def kernel_arrays(arrays: TreeArrays) -> tuple[TreeArrays, object]:
    """Return a tree as our own kernels are handed it, and what must be kept until they are done.

    A user's test of a ray is handed to them by its address.
    """
    primitives = arrays.primitives
    if not isinstance(primitives, Custom):
        return arrays, None
    call = user_call(primitives.intersect, primitives.data, INTERSECT)
    custom = Custom(primitives.points, call.function, call.data)
    return arrays._replace(primitives=custom), call


@warms("builders")
def _warm() -> None:
    """Compile what building in every quality needs."""
    # More triangles than one thread builds alone.
    count = 2 * SMALLEST_TASK
    points = np.random.default_rng(0).random((3 * count, 3))
    faces = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    triangles = frozen_primitives(Triangles(points, faces))
    for quality in BUILDERS:
        build(triangles, quality, 1, None)
    _, frame, _ = build_binary(triangles, "medium", 1, None)
    lower, upper, _ = world_bounds(triangles)
    local_boxes(lower, upper, frame)
