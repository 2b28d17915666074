"""What faces that meet share, and numbers of distinct rows, against rational numbers and NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bvh import BVH
from bvh.geometry.arithmetic.rational import Face, common, exact_face
from bvh.geometry.pairs.face_contacts import EDGE, UNDECIDED, kinds_of_contact
from bvh.geometry.pairs.flat_contacts import AREA, POINT, SEGMENT
from bvh.surfaces.numbering import come_in_pairs, connected, first_edges, first_rows, row_ranks
from tests.surfaces.test_relations import MAPS


def kind_of(one: Face, other: Face) -> int:
    """Return what two faces share; UNDECIDED if this need not be found."""
    if not (one.has_area and other.has_area):
        return UNDECIDED
    flat, found = common(one, other)
    if len(found) < 2:
        return POINT
    if flat:
        return SEGMENT if len(found) == 2 else AREA
    ends = set(found)
    edges = [{p, q} for face in (one, other) for p, q in pairwise(face.corners + face.corners[:1])]
    return EDGE if edges.count(ends) == 2 else UNDECIDED


@pytest.mark.parametrize("count", [8, pytest.param(80, marks=pytest.mark.long)])
def test_kinds_of_contact(count: int, rng: np.random.Generator) -> None:
    """Faces in and across planes, on grids, with and without an area, under shears."""
    kinds = set()
    for case in range(count):
        meshes, matrix = [], MAPS[rng.integers(len(MAPS))] * 2.0 ** rng.integers(-20, 20)
        for _ in range(2):
            points = rng.integers(0, 4, (16, 3)).astype(np.float64)
            points[: 16 if case % 2 else 10, case % 3] = 1.0
            faces = rng.integers(0, 16, (40, 3)).astype(np.int32)
            meshes.append((points @ matrix.T + 0.0, faces))
        trees = [BVH.from_triangles(*mesh, warn=False) for mesh in meshes]
        pairs = trees[0].overlap_tree(trees[1])
        found = np.empty(len(pairs), np.int8)
        used = [np.zeros(len(points), np.bool_) for points, _ in meshes]
        kinds_of_contact(*meshes, pairs, found, *used)
        some = pairs[(found != POINT) & (found != AREA)]
        for side, (flags, (_, faces)) in enumerate(zip(used, meshes, strict=True)):
            assert set(flags.nonzero()[0]) == set(faces[some[:, side]].ravel())
        one, other = ([exact_face(v[face].tolist()) for face in f] for v, f in meshes)
        for (i, j), kind in zip(pairs.tolist(), found.tolist(), strict=True):
            wanted = kind_of(one[i], other[j])
            # A point need not be found where the planes of both faces cut the other.
            assert kind == wanted or (wanted == POINT and kind == UNDECIDED)
            kinds.add(kind)
    assert kinds == {POINT, SEGMENT, AREA, EDGE, UNDECIDED}


@pytest.mark.parametrize("bits", [2, 24, 40, 62])
def test_names_of_rows(bits: int, rng: np.random.Generator) -> None:
    """Ranks are those of distinct rows, sorted by the last column first; integers and doubles."""
    rows = rng.integers(-(1 << bits), 1 << bits, (400, 4))
    rows[100:200] = rows[:100]
    rows[200:300, 1:] = rows[:100, 1:]
    for some in (rows, rows.astype(np.float64), rows[:0], rows[:, :1]):
        ranks = np.unique(some[:, ::-1], axis=0, return_inverse=True)[1].reshape(-1)
        assert np.array_equal(row_ranks(some), ranks)
        firsts = np.unique(ranks, return_index=True)[1]
        assert np.array_equal(first_rows(some), firsts[ranks])
        assert come_in_pairs(some.T) == (not len(some))
        assert come_in_pairs(np.concatenate([some, some[::-1]]).T)


def test_edges_and_parts(rng: np.random.Generator) -> None:
    """Edges are matched by their ends; parts have the lowest number they connect."""
    for count in (0, 1, 2000):
        ends = rng.integers(0, 60, (count, 2))
        first, keys = first_edges(ends), np.sort(ends, axis=1) @ [64, 1]
        assert first.tolist() == [keys.tolist().index(key) for key in keys.tolist()]
    a, b = rng.integers(0, 100, (2, 60))
    part, same = connected(a, b, 100), np.eye(100, dtype=bool)
    same[a, b] = same[b, a] = True
    for _ in range(7):
        same = same @ same
    assert np.array_equal(part, same.argmax(axis=1))
