"""Instanced trees: arrays of the transforms and trees of a scene, as kernels read them.

A primitive of a scene is identified by its *code*: the row of its instanced tree times 2**32, plus
its id in that tree. So codes break ties by instance, then by primitive; those of parts of a mesh,
by ids in the mesh (see `precedes`).

An instanced triangle has the moved vertices, each coordinate correctly rounded (see `transforms`);
an instanced box is defined by the correctly rounded inverse of the map, times the box's own rows
(see `obbs`); an instanced sphere or capsule has the moved ends of its axis, and its radius times
the scale of the map, rounded. All decisions are exact for these, in world coordinates: a scene
gives the same results as one mesh of all its trees. A ray is transformed to the frame of a tree
only to rule out what it cannot hit, with bounds of the errors of the transform.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.transforms import rows_of, transformed_point
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import peek
from bvh.runtime.threads import share
from bvh.tree import rows as tree_rows
from bvh.tree import shapes

# Numbers of `transforms`, the local transforms from the frame of the TLAS to that of a tree: four
# columns of three numbers; in the tree's frame, the root's box and its largest coordinate; the
# largest row sum of absolute entries; bounds of the error of the translation, and of the rounding
# of vertices; whether the map is a reflection; its scale, for spheres and capsules alone.
COLUMNS, LOWEST, HIGHEST, BOUND, NORM, SHIFT_ERROR, VERTEX_ERROR, MIRRORED, SCALE = (
    0, 12, 15, 18, 19, 20, 21, 22, 23
)  # fmt: skip
TRANSFORM_SIZE = 24

# Numbers of a map.
MAP_SIZE = 12
# Kinds of trees over shapes; those from SPHERES on are round.
BOXES, SPHERES = shapes.BoxShape.code, shapes.SphereShape.code

CODE_BITS = 32
PRIM_MASK = 0xFFFFFFFF
# Codes that a thread takes at a time.
CODES_AT_ONCE = 1 << 15

# Primitives of a scene by their codes, or of a tree by their ids.
Ids: TypeAlias = NDArray[np.int32] | NDArray[np.int64]


class Instanced(NamedTuple):
    """The instanced trees of a scene, a row each in flat arrays; pointers inside kernels."""

    maps: NDArray[np.float64]  # MAP_SIZE numbers: from a tree's coordinates to the world
    inverses: NDArray[np.float64]  # MAP_SIZE numbers, correctly rounded
    transforms: NDArray[np.float64]  # TRANSFORM_SIZE numbers: see COLUMNS and so on
    trees: NDArray[np.int64]  # the address of the tree's row (see `rows`)
    masks: NDArray[np.int32]  # the instance's group bits, which select it for queries
    owners: NDArray[np.int32]  # the instance id


# The leaf (row of an instanced tree) and the id there of a primitive by its code; the code by both.
leaf_of = inlined(lambda code: code >> CODE_BITS)
prim_of = inlined(lambda code: code & PRIM_MASK)
code_of = inlined(lambda leaf, prim: (np.int64(leaf) << CODE_BITS) | np.int64(prim))
# The row of a leaf's tree, and the kind of its primitives.
row_of = inlined(lambda instanced, leaf: tree_rows.row_at(peek(instanced.trees, leaf)))
kind_of = inlined(lambda instanced, leaf: tree_rows.kind(row_of(instanced, leaf)))


@kernel
def _code_precedes(instanced, a, b):
    """Return whether, of two hits at equal t, that of the code a comes before that of b."""
    stay_outlined()
    row, other = row_of(instanced, leaf_of(a)), row_of(instanced, leaf_of(b))
    if peek(row, tree_rows.WHOLE_IDS) == 0:
        return a < b
    return tree_rows.whole_id(row, prim_of(a)) < tree_rows.whole_id(other, prim_of(b))


@inlined
def face_corners(points, faces, prim):
    """Return the three vertices of face `prim` of a mesh, `points` and `faces`."""
    i, j, k = vector(faces, prim)
    return vector(points, np.int64(i)), vector(points, np.int64(j)), vector(points, np.int64(k))


@inlined
def local_corners(instanced, code):
    """Return the vertices of a triangle, by its code, in the coordinates of its tree."""
    row = row_of(instanced, leaf_of(code))
    return face_corners(tree_rows.points(row), tree_rows.faces(row), prim_of(code))


@kernel
def instanced_corners(instanced, code):
    """Return the vertices of a triangle, by its code, in world coordinates."""
    stay_outlined()
    v0, v1, v2 = local_corners(instanced, code)
    at = leaf_of(code) * MAP_SIZE
    maps = instanced.maps
    return (
        transformed_point(maps, at, v0),
        transformed_point(maps, at, v1),
        transformed_point(maps, at, v2),
    )


@inlined
def is_mirrored(instanced, leaf):
    """Return whether the map of the tree in row `leaf` is a reflection: it swaps front and back."""
    return peek(instanced.transforms, leaf * TRANSFORM_SIZE + MIRRORED) != 0.0


@inlined
def _local_component(transforms, at, v):
    """Return the product of v and the row of a 3 x 3 matrix that begins at transforms[at]."""
    # Matrices are stored by columns, so the row's numbers are 3 apart.
    a, b, c = peek(transforms, at), peek(transforms, at + 3), peek(transforms, at + 6)
    return a * v[0] + b * v[1] + c * v[2]


@inlined
def local_direction(transforms, at, v):
    """Return the vector v of the TLAS's frame in a tree's, by the map from transforms[at] on."""
    x, y = _local_component(transforms, at, v), _local_component(transforms, at + 1, v)
    return x, y, _local_component(transforms, at + 2, v)


@inlined
def local_point(transforms, at, p):
    """Return the point p of the TLAS's frame in a tree's, by the map from transforms[at] on."""
    x, y, z = local_direction(transforms, at, p)
    at += COLUMNS + 9  # the fourth column, the translation
    return x + peek(transforms, at), y + peek(transforms, at + 1), z + peek(transforms, at + 2)


@kernel
def instanced_interval(instanced, code, o, d):
    """Return (hit, near, far) of the line of a ray (o, d) in the instanced box with a code."""
    # The line is inside the box, oriented or not, for t in near..far, if it hits.
    stay_outlined()
    leaf, tree = leaf_of(code), row_of(instanced, leaf_of(code))
    rows = rows_of(instanced.inverses, leaf * MAP_SIZE)
    is_box = tree_rows.kind(tree) == BOXES
    return shapes.instanced_box_interval(is_box, tree_rows.points(tree), prim_of(code), rows, o, d)


@kernel
def instanced_capsule(instanced, code):
    """Return (p, q, radius) of an instanced sphere or capsule, in world coordinates.

    p and q are the ends of its axis, equal for a sphere.
    """
    stay_outlined()
    leaf, tree = leaf_of(code), row_of(instanced, leaf_of(code))
    scale = peek(instanced.transforms, leaf * TRANSFORM_SIZE + SCALE)
    is_sphere, points = tree_rows.kind(tree) == SPHERES, tree_rows.points(tree)
    return shapes.moved_capsule(
        is_sphere, points, prim_of(code), instanced.maps, leaf * MAP_SIZE, scale
    )


@kernel
def instanced_round(instanced, code, o, d):
    """Return (hit, near, far) of the line of a ray (o, d) in an instanced sphere or capsule."""
    # The line is inside for t in near..far, if it hits.
    stay_outlined()
    return shapes.round_interval(*instanced_capsule(instanced, code), o, d)


def primitives_class(tree: Any) -> type:
    """Return the class of primitives, given Numba's type of them or of their tree."""
    # Only the type of a tree has the field `primitives`.
    kinds = dict(zip(tree.fields, tree.types, strict=True))
    return kinds.get("primitives", tree).instance_class  # type: ignore[no-any-return]


def one_of_two(
    takes_second: Callable[[Any], bool], first: Callable[..., Any], second: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function for kernels that compiles to `first` or `second`, of the same arguments."""
    # `takes_second` gets Numba's type of the first argument.

    def choose(kind: Any, *_: Any) -> Any:
        return second if takes_second(kind) else first

    # Numba requires that `choose` has the parameters of the functions that it returns.
    choose.__signature__ = signature(first)  # type: ignore[attr-defined]
    return by_type(inline=True)(choose)


# A function of a tree, or of its primitives, that compiles to one of two: for a mesh, for a scene.
by_scene = partial(one_of_two, lambda tree: primitives_class(tree) is Instanced)
# Whether the hit of a ray on primitive a comes before that on b, another one, at equal t.
precedes = by_scene(
    lambda primitives, a, b: a < b, lambda primitives, a, b: _code_precedes(primitives, a, b)
)


def split_codes(codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return (leaves, ids) of codes (n,), int32 each; both are -1 for the code -1."""
    # The upper half of a code is the leaf, and the lower half the id.
    halves = codes.view(np.int32).reshape(-1, 2)
    low = 0 if np.little_endian else 1
    return np.ascontiguousarray(halves[:, 1 - low]), np.ascontiguousarray(halves[:, low])


def named_codes(
    codes: NDArray[np.int64], owners: NDArray[np.int32], threads: int = 1,
    rows: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Return (instances, leaves, ids) of codes (n,), or of codes[rows] if `rows` are given.

    All three are -1 for the code -1. `owners` has the instance of each leaf. A row of -1 stands for
    the last code, which callers with such rows have set to -1.
    """
    n = len(codes if rows is None else rows)
    owner, leaf, prim = (np.empty(n, np.int32) for _ in range(3))
    owners = np.append(owners, np.int32(-1))  # for the leaf -1

    def name(begin: int, end: int) -> None:
        # `take` wraps -1 to the last row. NumPy converts indices in [] in a buffer, and ignores a
        # failure to allocate it.
        some = codes[begin:end] if rows is None else codes.take(rows[begin:end], mode="wrap")
        leaf[begin:end], prim[begin:end] = split_codes(some)
        owners.take(leaf[begin:end], out=owner[begin:end], mode="wrap")

    share(n, CODES_AT_ONCE, name, threads)
    return owner, leaf, prim
