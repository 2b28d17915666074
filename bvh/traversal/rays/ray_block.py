"""Ray block: memory layout of BLOCK rays, and its accessors.

WIDTH rays lie side by side, their rows one below the other: a ray's numbers are near each other,
and those of WIDTH rays make a vector. A ray is identified by its *lane index*: that of its first
number, from which its other rows are WIDTH apart.

| rows | numbers of a ray |
|---|---|
| NEAR, FAR, INVERSE (3 each) | of the slab test, by axis |
| ORIGIN, DIRECTION (3 each) | in the local frame, where the ray enters the root's box |
| EDGE, T_ERROR | bounds of the filter of triangles |
| LOW, END | the interval of tau; END is the upper bound of the closest hit so far |
| SURE_LOW, SURE_HIGH | the interval of tau that surely is within t_min..t_max |
| SLACK | error bound of tau; infinite where the float32 tests are disabled |
| BEST_LOW | the lower bound of the closest hit so far |
| OCTANT, PRIM | integers: the octant of the direction, the closest primitive so far |
| PRIM_INSTANCE | in a scene, the instanced tree of PRIM |
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import scale_by
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, peek, peek_int, poke, poke_int
from bvh.tree.instanced import Instanced, code_of, leaf_of, prim_of

# Rays in a block: their lanes fit the first-level cache.
BLOCK = 256

NEAR, FAR, INVERSE, ORIGIN, DIRECTION = 0, 3, 6, 9, 12
EDGE, T_ERROR, LOW, END, SURE_LOW, SURE_HIGH, SLACK, BEST_LOW = 15, 16, 17, 18, 19, 20, 21, 22
OCTANT, PRIM, PRIM_INSTANCE = 23, 24, 25

# From one vector of rays to the next; and free rows of the first vector, for two of scratch.
GROUP = 32 * WIDTH
SPARE = 30 * WIDTH

# Rows of doubles, a power of two: the entry in two parts, and the shift.
ENTRY, ENTRY_REST, SHIFT = 0, 1, 2
DOUBLE_ROWS = 4

# Lanes of a vector of doubles, which has as many bytes as one of float32.
HALF = max(WIDTH // 2, 2)

_LANE_BITS = WIDTH.bit_length() - 1
_GROUP_BITS = GROUP.bit_length() - 1
_DOUBLE_BITS = _LANE_BITS + DOUBLE_ROWS.bit_length() - 1


class Block(NamedTuple):
    """The rays of a block; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    which: NDArray[np.int64]  # the number of each ray in the batch


def new_block() -> Block:
    """Return the memory of a ray block."""
    return Block(
        aligned(32 * BLOCK, np.float32),
        np.empty(DOUBLE_ROWS * BLOCK),
        np.empty(BLOCK, np.int64),
    )


@inlined
def lane_index(i):
    """Return the lane index of ray i of the block."""
    return ((i >> _LANE_BITS) << _GROUP_BITS) | (i & (WIDTH - 1))


@inlined
def ray_number(r):
    """Return which ray of the block has lane index r; r may be a vector."""
    return ((r >> _GROUP_BITS) << _LANE_BITS) | (r & (WIDTH - 1))


@inlined
def batch_index(block, r):
    """Return the number in the batch of the ray at r."""
    return peek(block.which, ray_number(r))


@inlined
def double_index(r, row):
    """Return the index of a double of the ray at r."""
    return ((r >> _GROUP_BITS) << _DOUBLE_BITS) + (r & (WIDTH - 1)) + row * WIDTH


@inlined
def read_row(block, r, row):
    """Return a float32 of the ray at r."""
    return peek(block.lanes, r + row * WIDTH)


@inlined
def write_row(block, r, row, value):
    """Write a float32 of the ray at r."""
    poke(block.lanes, r + row * WIDTH, value)


@inlined
def read_int(block, r, row):
    """Return an integer of the ray at r."""
    return peek_int(block.lanes, r + row * WIDTH)


@inlined
def write_int(block, r, row, value):
    """Write an integer of the ray at r."""
    poke_int(block.lanes, r + row * WIDTH, np.int32(value))


@inlined
def read_double(block, r, row):
    """Return a double of the ray at r."""
    return peek(block.doubles, double_index(r, row))


@inlined
def local_interval(block, r, t):
    """Return (low, high) in float32 around the tau of an exact hit distance t."""
    slack = np.float64(read_row(block, r, SLACK))
    if slack == np.inf:
        # The tau of a ray whose float32 tests are disabled may overflow; all is decided exactly.
        return np.float32(-np.inf), np.float32(np.inf)
    scaled = scale_by(t, int(read_double(block, r, SHIFT)))
    tau = (scaled - read_double(block, r, ENTRY)) - read_double(block, r, ENTRY_REST)
    return np.float32(tau - slack), np.float32(tau + slack)


def primitives_class(tree: Any) -> type:
    """Return the class of a tree's primitives, from the type of the tree or of its primitives."""
    kinds = dict(zip(tree.fields, tree.types, strict=True))
    return kinds.get("primitives", tree).instance_class  # type: ignore[no-any-return]


def by_scene(function: Callable[..., Any], in_tree: Any, in_scene: Any) -> None:
    """Choose what a function of a tree, or of its primitives, compiles to: in a scene, or not."""

    def choose(tree: Any, *_: Any) -> Any:
        return in_scene if primitives_class(tree) is Instanced else in_tree

    choose.__signature__ = signature(function)  # type: ignore[attr-defined]
    by_type(function, inline=True)(choose)


def closest_primitive(primitives, block, r):
    """Return the closest primitive of ray r of a block, an id or a scene's code; -1 for none."""


def _closest_id(primitives, block, r):
    return np.int64(read_int(block, r, PRIM))


def _closest_code(primitives, block, r):
    prim = np.int64(read_int(block, r, PRIM))
    return prim if prim < 0 else code_of(read_int(block, r, PRIM_INSTANCE), prim)


by_scene(closest_primitive, _closest_id, _closest_code)


def set_closest_primitive(primitives, block, r, prim):
    """Write the closest primitive of ray r of a block."""


def _set_closest_id(primitives, block, r, prim):
    write_int(block, r, PRIM, prim)


def _set_closest_code(primitives, block, r, prim):
    # The halves of -1 are -1.
    write_int(block, r, PRIM, prim_of(prim))
    write_int(block, r, PRIM_INSTANCE, leaf_of(prim))


by_scene(set_closest_primitive, _set_closest_id, _set_closest_code)
