"""Trees and rays inside kernels: pointers, and how a ray is read through them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.arrays import TreeArrays
from bvh.jit import inlined
from bvh.numerics import vector
from bvh.references import as_pointers, pointers_of
from bvh.simd import (
    convert,
    gather,
    lane,
    lane_numbers,
    load_threes,
    mask_bits,
    peek,
    pointer,
    splat,
)
from bvh.traversal.block import HALF

# The mask of rays that meet every instance of a scene.
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


class Context(NamedTuple):
    """The context of a traversal: a tree, the rays of a batch, and the block of them at work."""

    tree: Any
    rays: Any
    block: Any


@pointers_of(Rays)
def _ray_pointers(arrays):
    return RayPointers(
        pointer(arrays.origins),
        pointer(arrays.directions),
        pointer(arrays.t_min),
        pointer(arrays.t_max),
        pointer(arrays.masks),
        np.int64(len(arrays.origins) > 1),
        np.int64(len(arrays.directions) > 1),
        np.int64(len(arrays.t_min) > 1),
        np.int64(len(arrays.t_max) > 1),
        np.int64(len(arrays.masks) > 1),
    )


@pointers_of(TreeArrays)
def _tree_pointers(arrays):
    return TreePointers(
        pointer(arrays.nodes.blocks),
        pointer(arrays.nodes.ids),
        pointer(arrays.groups),
        as_pointers(arrays.primitives),
        pointer(arrays.frame),
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


@inlined
def read_rows(array, index, step):
    """Return the rows `step * index` of an (n, 3) array, side by side, as three vectors."""
    return (
        gather(array, index, 3 * step, 0),
        gather(array, index, 3 * step, 1),
        gather(array, index, 3 * step, 2),
    )


@inlined
def read_lanes(rays, index):
    """Return (o, d, t_min, t_max) of HALF rays, side by side, as vectors.

    Fast where the rays are neighbours, or share what is read.
    """
    first = lane(index, 0)
    # Each of them: in an order that is given, the first and the last alone would not tell.
    steps = convert(lane_numbers(HALF), np.int64(0))
    consecutive = mask_bits(index == steps + first) == (1 << HALF) - 1
    return (
        _neighbours(rays.origins, rays.o_step, consecutive, first, index),
        _neighbours(rays.directions, rays.d_step, consecutive, first, index),
        _numbers(rays.t_min, rays.low_step, index),
        _numbers(rays.t_max, rays.high_step, index),
    )


@inlined
def _neighbours(array, step, consecutive, first, index):
    if step == 0:
        x, y, z = vector(array, np.int64(0))
        return splat(x, HALF), splat(y, HALF), splat(z, HALF)
    if consecutive:
        return load_threes(array, 3 * first, HALF)
    return read_rows(array, index, np.int64(1))


@inlined
def _numbers(array, step, index):
    if step == 0:
        return splat(peek(array, np.int64(0)), HALF)
    return gather(array, index, 1, 0)
