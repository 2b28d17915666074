"""Build of a tree: from primitives to its arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import aligned, kernel_input, owned
from bvh.runtime.jit import warms
from bvh.runtime.simd import WIDTH
from bvh.runtime.threads import Progress, share
from bvh.tree.arrays import TreeArrays, frozen, frozen_primitives
from bvh.tree.build_records import prepare
from bvh.tree.builders import binned_sah, hlbvh, sbvh
from bvh.tree.builders.subtrees import SMALLEST_TASK
from bvh.tree.collapse import widen
from bvh.tree.nodes import Nodes, local_boxes
from bvh.tree.primitives import Primitives, Triangles, world_bounds
from bvh.tree.triangle_groups import GROUP_SIZE, pack_triangles
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, WideNodes

# Builders of trees over triangles, by quality; "high" also splits triangles.
BUILDERS: dict[str, Callable[..., Nodes]] = {
    "low": hlbvh.build, "medium": binned_sah.build, "high": sbvh.build
}  # fmt: skip

# Triangle groups that a thread packs at a time.
PACK_CHUNK = 2048


def build(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[TreeArrays, NDArray[np.float64]]:
    """Build a tree over primitives; return it and its bounds in the world, shape (2, 3)."""
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
    """Build a binary tree; return it, its local frame (2, 3), and its bounds in the world."""
    if not isinstance(primitives, Triangles):
        # Other primitives are tested one by one, whatever the quality.
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


def pack(
    primitives: Primitives, nodes: WideNodes, frame: NDArray[np.float64], threads: int
) -> NDArray[np.float32]:
    """Return the triangle groups of all leaves; empty for other primitives."""
    if not isinstance(primitives, Triangles):
        return aligned(0, np.float32)
    points, faces = primitives
    groups = aligned(len(nodes.ids) * GROUP_SIZE, np.float32)
    ids, frame = kernel_input(nodes.ids), kernel_input(frame)

    def work(begin: int, end: int) -> None:
        pack_triangles(points, faces, ids, frame, begin, end, groups)

    share(len(ids), PACK_CHUNK, work, threads)
    return groups


@warms("builders")
def _warm() -> None:
    """Compile the builders of every quality."""
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
