"""What a query works on, inside kernels: pointers to a tree, to rays, and to a block of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.jit import inlined
from bvh.numerics import vector
from bvh.primitives import pointed
from bvh.simd import peek, pointer

# The mask of rays that every instance of a scene is there for.
EVERY = kernel_input(np.full(1, -1, np.int32))


class Rays(NamedTuple):
    """Rays of a batch; an array may have one row for all of them."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    masks: NDArray[np.int32] = EVERY


class RayPointers(NamedTuple):
    """Rays inside kernels: pointers, and 0 for an array that has one row for all rays, else 1."""

    origins: Any
    directions: Any
    t_min: Any
    t_max: Any
    masks: Any
    o_step: int
    d_step: int
    low_step: int
    high_step: int
    mask_step: int


class TreePointers(NamedTuple):
    """A tree inside kernels."""

    blocks: Any
    ids: Any
    groups: Any
    primitives: Any
    frame: Any


class Query(NamedTuple):
    """A tree, the rays of a batch, and the block of them that is on its way."""

    tree: Any
    rays: Any
    block: Any


@inlined
def pointed_rays(rays):
    """Return rays with pointers and steps in place of arrays."""
    return RayPointers(
        pointer(rays.origins),
        pointer(rays.directions),
        pointer(rays.t_min),
        pointer(rays.t_max),
        pointer(rays.masks),
        np.int64(len(rays.origins) > 1),
        np.int64(len(rays.directions) > 1),
        np.int64(len(rays.t_min) > 1),
        np.int64(len(rays.t_max) > 1),
        np.int64(len(rays.masks) > 1),
    )


@inlined
def pointed_tree(tree):
    """Return a tree with pointers in place of arrays."""
    return TreePointers(
        pointer(tree.nodes.blocks),
        pointer(tree.nodes.ids),
        pointer(tree.groups),
        pointed(tree.primitives),
        pointer(tree.frame),
    )


@inlined
def read_ray(rays, i):
    """Return (o, d, t_min, t_max) of ray i."""
    return (
        vector(rays.origins, i * rays.o_step),
        vector(rays.directions, i * rays.d_step),
        peek(rays.t_min, i * rays.low_step),
        peek(rays.t_max, i * rays.high_step),
    )
