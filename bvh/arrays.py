"""`TreeArrays`: everything that a kernel needs of a tree, and how it is put together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input, owned
from bvh.builders import binned_sah, hlbvh, sbvh
from bvh.nodes import Nodes
from bvh.preparation import prepare
from bvh.primitives import Primitives, Triangles
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
    records, frame, bounds = prepare(primitives, threads)
    if quality == "high" and isinstance(primitives, Triangles):
        nodes = sbvh.build(primitives, records, frame, threads=threads, progress=progress)
    else:
        nodes = BUILDERS[quality](records, threads=threads, progress=progress)
    return frozen(TreeArrays(nodes, primitives, frame)), owned(bounds)


def frozen(arrays: TreeArrays) -> TreeArrays:
    """Return the same arrays, all read-only, as kernels are compiled for them."""
    nodes, primitives, frame = arrays
    return TreeArrays(
        Nodes(*(kernel_input(array) for array in nodes)),
        type(primitives)(*(kernel_input(array) for array in primitives)),
        kernel_input(frame),
    )
