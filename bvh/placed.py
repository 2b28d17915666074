"""Leaves of a scene as kernels see them: trees placed by affine maps, under one set of ids.

A primitive of a scene is known by its *code*: the row of its leaf times 2**32, and its id in that
leaf's tree. Codes order hits as the contract wants ties ordered: by leaf, then by primitive.

A placed triangle is the one whose vertices are the moved ones, each coordinate correctly rounded
(see `affine`); a placed box or oriented box is what the correctly rounded inverse of the map says,
times the box's own rows (see `obbs`). All decisions are exact for these, in world coordinates: a
scene answers as the mesh that all its leaves make together. A ray is brought to the frame of a
tree only to find what it cannot meet; `ways` says how, and how much that may be wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.affine import moved_point, near_sum, row_of
from bvh.jit import inlined, kernel, stay_outlined
from bvh.numerics import vector
from bvh.obbs import obb_interval
from bvh.simd import peek, pointer_to

# Rows of `trees`: addresses of a tree's arrays, and what it holds.
BLOCKS, GROUPS, IDS, POINTS, FACES, KIND, TREE_SIZE = 0, 1, 2, 3, 4, 5, 8
TRIANGLES, BOXES, OBBS = 0, 1, 2

# Rows of `ways`, from the local frame of the top level to that of a tree: three rows of four
# numbers; the root's box there; its largest coordinate; the largest row sum of absolute entries;
# what the shift may be wrong by; how far rounding has moved vertices; whether the map reflects.
ROWS, LOWEST, HIGHEST, BOUND, NORM, SHIFT_ERROR, VERTEX_ERROR, FLIPS, WAY_SIZE = (
    0, 12, 15, 18, 19, 20, 21, 22, 24
)  # fmt: skip

CODE_BITS = 32
PRIM_MASK = 0xFFFFFFFF

F4, F8, I4 = np.float32(0.0), 0.0, np.int32(0)


class Placed(NamedTuple):
    """The leaves of a scene, a row each in flat arrays; pointers inside kernels."""

    maps: NDArray[np.float64]  # twelve numbers: local to world
    inverses: NDArray[np.float64]  # twelve numbers, correctly rounded
    ways: NDArray[np.float64]  # WAY_SIZE numbers
    trees: NDArray[np.int64]  # TREE_SIZE numbers
    masks: NDArray[np.int32]
    owners: NDArray[np.int32]  # the instances they belong to


@inlined
def leaf_of(code):
    """Return the leaf of a primitive."""
    return code >> CODE_BITS


@inlined
def prim_of(code):
    """Return a primitive's id in the tree of its leaf."""
    return code & PRIM_MASK


@inlined
def code_of(leaf, prim):
    """Return the code of a primitive."""
    return (np.int64(leaf) << CODE_BITS) | np.int64(prim)


@inlined
def kind_of(placed, leaf):
    """Return what the tree of a leaf holds."""
    return peek(placed.trees, leaf * TREE_SIZE + KIND)


@inlined
def blocks_of(placed, leaf):
    """Return the nodes of a leaf's tree."""
    return pointer_to(peek(placed.trees, leaf * TREE_SIZE + BLOCKS), F4)


@inlined
def groups_of(placed, leaf):
    """Return the triangle groups of a leaf's tree."""
    return pointer_to(peek(placed.trees, leaf * TREE_SIZE + GROUPS), F4)


@inlined
def prim_ids_of(placed, leaf):
    """Return the primitive ids of a leaf's tree, a row of lanes for each group."""
    return pointer_to(peek(placed.trees, leaf * TREE_SIZE + IDS), I4)


@inlined
def local_corners(placed, code):
    """Return the vertices of a triangle as they are in its tree."""
    at = leaf_of(code) * TREE_SIZE
    points = pointer_to(peek(placed.trees, at + POINTS), F8)
    faces = pointer_to(peek(placed.trees, at + FACES), I4)
    prim = 3 * prim_of(code)
    return (
        vector(points, np.int64(peek(faces, prim))),
        vector(points, np.int64(peek(faces, prim + 1))),
        vector(points, np.int64(peek(faces, prim + 2))),
    )


@kernel
def placed_corners(placed, code):
    """Return the vertices of a triangle as they are in the world."""
    stay_outlined()
    v0, v1, v2 = local_corners(placed, code)
    at = leaf_of(code) * 12
    maps = placed.maps
    return moved_point(maps, at, v0), moved_point(maps, at, v1), moved_point(maps, at, v2)


@inlined
def _product_row(w, rows):
    """Return a row times an affine map, each entry rounded once from double-doubles."""
    p, q, r = rows
    _, x = near_sum((w[0], w[1], w[2], 0.0), (p[0], q[0], r[0]))
    _, y = near_sum((w[0], w[1], w[2], 0.0), (p[1], q[1], r[1]))
    _, z = near_sum((w[0], w[1], w[2], 0.0), (p[2], q[2], r[2]))
    _, h = near_sum(w, (p[3], q[3], r[3]))
    return x, y, z, h


@kernel
def placed_interval(placed, code, o, d):
    """Return (hit, near, far) of a ray and a placed box, as `obbs.obb_interval` does."""
    stay_outlined()
    leaf, prim = leaf_of(code), prim_of(code)
    inverse, at = placed.inverses, leaf * 12
    rows = row_of(inverse, at), row_of(inverse, at + 4), row_of(inverse, at + 8)
    points = pointer_to(peek(placed.trees, leaf * TREE_SIZE + POINTS), F8)
    if kind_of(placed, leaf) == BOXES:
        return obb_interval(o, d, vector(points, 2 * prim), vector(points, 2 * prim + 1), rows)
    own = 18 * prim
    lower, upper = vector(points, 6 * prim), vector(points, 6 * prim + 1)
    rows = (
        _product_row(row_of(points, own + 6), rows),
        _product_row(row_of(points, own + 10), rows),
        _product_row(row_of(points, own + 14), rows),
    )
    return obb_interval(o, d, lower, upper, rows)


def ids_of(primitives: object) -> Any:
    """Return the type of what kernels call primitives by: codes in a scene, ids elsewhere."""
    return np.int64 if isinstance(primitives, Placed) else np.int32


def hit_codes(codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the leaves and the primitives of codes, int32 each; -1 for both where there is no hit.

    The halves of -1 are -1.
    """
    halves = codes.view(np.int32).reshape(-1, 2)
    low = 0 if np.little_endian else 1
    return np.ascontiguousarray(halves[:, 1 - low]), np.ascontiguousarray(halves[:, low])


def owners_of(placed: Placed, leaves: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the instances of leaves; -1 for -1."""
    owners = np.append(placed.owners, np.int32(-1))
    return np.asarray(owners[leaves])
