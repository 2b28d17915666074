"""`TreeArrays`: everything that a kernel needs of a tree, and how it is put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input, owned
from bvh.builders import binned_sah
from bvh.leaves import GROUP_SIZE, pack_triangles
from bvh.nodes import Nodes, local_boxes, local_frame
from bvh.primitives import Primitives, Triangles, world_bounds
from bvh.simd import WIDTH
from bvh.wide_nodes import BLOCK_SIZE, WideNodes, collapse
from bvh.workers import Progress, share

# Builders by the name of the quality they give.
BUILDERS = {"medium": binned_sah.build}


class TreeArrays(NamedTuple):
    """The arrays of a tree, all read-only.

    Attributes
    ----------
    nodes : WideNodes
    groups : ndarray of float32
        Triangles as leaves hold them (see `leaves`); empty for boxes.
    primitives : Triangles, Boxes or Obbs
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
    lower, upper, valid = world_bounds(primitives)
    ids = np.flatnonzero(valid).astype(np.int32)
    frame, bounds = local_frame(lower[ids], upper[ids])
    boxes = local_boxes(lower, upper, frame)
    binary = BUILDERS[quality](boxes, ids, threads=threads, progress=progress)
    frame = np.vstack([frame, binary.bounds[:1].reshape(-1, 3) if len(ids) else np.zeros((2, 3))])
    nodes = widen(binary, WIDTH if isinstance(primitives, Triangles) else 1)
    groups = aligned(0, np.float32)
    if isinstance(primitives, Triangles):
        groups = aligned(len(nodes.ids) * GROUP_SIZE, np.float32)

        def work(begin: int, end: int) -> None:
            pack_triangles(
                primitives.points, primitives.faces, nodes.ids, frame, begin, end, groups
            )

        share(len(nodes.ids), 4096, work, threads)
    return frozen(TreeArrays(nodes, groups, primitives, frame)), owned(bounds)


def widen(binary: Nodes, lanes: int) -> WideNodes:
    """Collapse a binary tree to wide nodes, with rows of `lanes` primitives."""
    if len(binary.links) == 0:
        return WideNodes(aligned(0, np.float32), np.empty((0, lanes), np.int32))
    ids = np.empty((0, lanes), np.int32)
    count, rows = collapse(*binary, lanes, aligned(0, np.float32), ids, True)
    blocks = aligned(count * BLOCK_SIZE, np.float32)
    ids = np.empty((rows, lanes), np.int32)
    collapse(*binary, lanes, blocks, ids, False)
    return WideNodes(blocks, ids)


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the same arrays, all read-only, as kernels are compiled for them."""
    nodes, groups, primitives, frame = arrays
    return TreeArrays(
        WideNodes(*(kernel_input(array) for array in nodes)),
        kernel_input(groups),
        type(primitives)(*(kernel_input(array) for array in primitives)),
        kernel_input(frame),
    )
