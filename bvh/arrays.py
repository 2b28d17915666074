"""`TreeArrays`: everything that a kernel needs of a tree, and how it is put together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input, owned
from bvh.builders import binned_sah, hlbvh, sbvh
from bvh.builders.refit import refit
from bvh.builders.subtrees import SMALLEST_TASK
from bvh.jit import warms
from bvh.nodes import Nodes, local_boxes
from bvh.preparation import prepare
from bvh.primitives import Primitives, Triangles, world_bounds
from bvh.workers import Progress

# Builders by the name of the quality they give; "high" splits triangles, and only them, in space.
BUILDERS = {"low": hlbvh.build, "medium": binned_sah.build, "high": binned_sah.build}


class TreeArrays(NamedTuple):
    """The arrays of a tree, all read-only.

    Attributes
    ----------
    nodes : Nodes
    primitives : Triangles, Boxes or Obbs
    frame : ndarray of float64, shape (2, 3)
        The local frame of the node boxes (see `nodes.local_frame`).
    """

    nodes: Nodes
    primitives: Primitives
    frame: NDArray[np.float64]


def build(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[TreeArrays, NDArray[np.float64]]:
    """Build the tree over primitives; return it with its bounds in the world, shape (2, 3)."""
    if not isinstance(quality, str) or quality not in BUILDERS:
        raise ValueError(f"quality must be one of {sorted(BUILDERS)}, got {quality!r}")
    if quality == "high" and isinstance(primitives, Triangles):
        records, count, frame, bounds = prepare(primitives, threads, sbvh.BUDGET)
        nodes = sbvh.build(primitives, records, count, frame, threads=threads, progress=progress)
    else:
        records, _, frame, bounds = prepare(primitives, threads)
        nodes = BUILDERS[quality](records, threads=threads, progress=progress)
    return frozen(TreeArrays(nodes, primitives, frame)), owned(bounds)


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the same arrays, all read-only, as kernels are compiled for them."""
    nodes, primitives, frame = arrays
    return TreeArrays(
        Nodes(*(kernel_input(array) for array in nodes)),
        frozen_primitives(primitives),
        kernel_input(frame),
    )


def frozen_primitives(primitives: Primitives) -> Primitives:
    """Return the same primitives, read-only."""
    return type(primitives)(*(kernel_input(array) for array in primitives))


@warms("builders")
def _warm() -> None:
    """Compile what building in every quality needs."""
    # More triangles than one thread builds alone.
    count = 2 * SMALLEST_TASK
    points = np.random.default_rng(0).random((3 * count, 3))
    triangles = Triangles(points, np.arange(3 * count, dtype=np.int32).reshape(-1, 3))
    for quality in BUILDERS:
        arrays, _ = build(frozen_primitives(triangles), quality, 1, None)
    lower, upper, _ = world_bounds(arrays.primitives)
    refit(arrays.nodes, local_boxes(lower, upper, arrays.frame))
