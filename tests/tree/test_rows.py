"""Rows of trees: what they point to, for each kind of primitives, and how long they live."""

import copy
import pickle
from typing import Any

import numba
import numpy as np
import pytest

import bvh
from bvh.runtime.simd import address
from bvh.runtime.tuple_references import as_pointers
from bvh.tree import rows
from bvh.tree.arrays import TreeArrays, emptied, is_empty, with_bits
from bvh.tree.primitives import arrays_of

CORNERS = np.zeros((3, 3)), np.ones((3, 3))


@numba.njit
def never(prim_id, origin, direction, t_min, t_max, data):
    return np.inf, 0.0, 0.0


@numba.njit
def places(tree):
    """Return where the arrays of a tree are, of a row or of arrays, but those of primitives."""
    p = as_pointers(tree)
    return (
        address(p.blocks, 0), address(p.ids, 0), address(p.groups, 0), address(p.frame, 0),
        address(p.face_bits, 0) if p.has_bits else 0, address(p.primitives.points, 0),
    )  # fmt: skip


@numba.njit
def empty(row):
    return is_empty(row)


def trees() -> list[Any]:
    return [
        pytest.param(bvh.BVH.from_triangles(np.eye(4, 3), [[0, 1, 2], [1, 2, 3]]), id="triangles"),
        pytest.param(bvh.BVH.from_boxes(*CORNERS), id="boxes"),
        pytest.param(bvh.BVH.from_obbs(*CORNERS, np.tile(np.eye(4), (3, 1, 1))), id="obbs"),
        pytest.param(bvh.BVH.from_custom(*CORNERS, never), id="custom"),
    ]  # fmt: skip


@pytest.mark.parametrize("tree", trees())
def test_a_row_points_to_the_arrays_of_its_tree(tree: bvh.BVH) -> None:
    arrays = tree.arrays
    words = arrays.words()
    nodes, groups, primitives, frame, _ = arrays
    assert words[: rows.BITS].tolist() == rows.addresses(nodes.data, nodes.ids, groups, frame)
    assert words[rows.BITS] == 0
    own = rows.addresses(*arrays_of(primitives))
    assert words[rows.POINTS : rows.POINTS + len(own)].tolist() == own
    assert not words[rows.LOWEST :].any()


@pytest.mark.parametrize("tree", [param for param in trees() if param.id != "custom"])
def test_kernels_find_the_same_by_a_row_as_by_arrays(tree: bvh.BVH) -> None:
    arrays = tree.arrays
    assert places(arrays.row)[5] == arrays.primitives.points.ctypes.data
    by_row, by_arrays = places(arrays.row), places(arrays)
    # A row has no address of an array without items.
    same = [row == array for row, array in zip(by_row, by_arrays, strict=True)]
    assert all(same) or (same.count(False) == 1 and by_row[2] == arrays.groups.size == 0)
    assert not empty(arrays.row) and empty(emptied(arrays).row)


def test_bits_of_faces_are_in_a_row_where_there_are_any() -> None:
    arrays = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]).arrays
    assert arrays.words()[rows.BITS] == 0
    marked = with_bits(arrays, np.full(1, 2, np.uint32))
    assert marked.words()[rows.BITS] == marked.face_bits.ctypes.data


def test_a_row_is_made_once_and_belongs_to_its_arrays() -> None:
    arrays = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]).arrays
    row = arrays.row
    assert arrays.row is row
    for other in (pickle.loads(pickle.dumps(arrays)), copy.copy(arrays), arrays._replace()):
        assert type(other) is TreeArrays and other.row.address != row.address
