"""Curves in which two meshes meet, or one meets itself: segments of pairs of faces.

Which segments share an end follows from exact signs, not from coordinates: an end is an edge of one
mesh and the face of the other that it crosses, which all pairs of faces around it have in common;
or, where vertices lie in planes and edges meet edges, a point in rational numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import (
    Face,
    Row,
    common,
    crossing,
    dots,
    exact_face,
    exact_point,
    rounded,
)
from bvh.geometry.pairs.common_polygons import CROSSED, MOST, ROWS, UNSURE, common_polygons
from bvh.geometry.pairs.edge_segments import edge_segments, identify_ends
from bvh.geometry.pairs.face_contacts import UNDECIDED
from bvh.geometry.pairs.flat_contacts import AREA, POINT
from bvh.runtime.arguments import kernel_input
from bvh.surfaces.cells import signs_of_corners
from bvh.surfaces.numbering import Mesh, first_edges, first_rows
from bvh.surfaces.pair_signs import SIDES, crossing_points

Reals = NDArray[np.float64]
Ids = NDArray[np.int32]
Whole = NDArray[np.int64]

# An end of a segment is identified by a row: (mesh whose edge it is on, both point ids of the edge,
# face of the other mesh that the edge crosses); or (RATIONAL, number of the point, 0, 0).
RATIONAL = 2
# Edges of faces without area: number of the mesh, point ids of both ends.
Thin = set[tuple[int, int, int]]


class Polygons(NamedTuple):
    """Convex polygons that pairs of faces in one plane share; they are computed when asked for."""

    own: Mesh
    other: Mesh
    pairs: Ids  # (n, 2)

    def arrays(self) -> list[Reals]:
        """Return the corners of each polygon."""
        count, meshes = len(self.pairs), (self.own, self.other)
        corners, found = np.empty((MOST * count, 3)), np.empty(count, object)
        (starts, sizes), scratch = np.empty((2, count), np.int64), np.empty((ROWS, MOST + 1), int)
        arrays = [mesh[:2] for mesh in meshes]
        common_polygons(*arrays, kernel_input(self.pairs), scratch, corners, starts, sizes)
        for size in range(3, MOST + 1):
            # Many arrays of one size are made faster from a larger one. Adding 0.0 turns -0.0 into
            # 0.0.
            rows = np.flatnonzero(sizes == size)
            polygons = corners[starts[rows, None] + np.arange(size)] + 0.0
            for n, polygon in zip(rows.tolist(), polygons, strict=True):
                found[n] = polygon
        for n in np.flatnonzero(sizes == UNSURE).tolist():
            faces = (
                exact_face(mesh.corners(k).tolist())
                for mesh, k in zip(meshes, self.pairs[n].tolist(), strict=True)
            )
            found[n] = np.array([rounded(p) for p in common(*faces)[1]])
        return list(found)


_NONE = Mesh(np.empty((0, 3)), np.empty((0, 3), np.int32), np.empty(0, np.int32))
NO_POLYGONS = Polygons(_NONE, _NONE, np.empty((0, 2), np.int32))


class Curves(NamedTuple):
    """Segments in which faces meet, and polygons that faces in one plane share."""

    segments: Reals  # (n, 2, 3)
    faces: Ids  # (n, 2)
    edges: Ids  # (n, 2, 3): mesh and vertices of the edge that an end is on; a vertex is repeated
    ends: Whole  # (n, 2): numbers of the ends, equal where segments share an end
    polygons: Polygons
    polygon_faces: Ids  # (p, 2)


def curves_of(
    own: Mesh, other: Mesh, pairs: Ids, shared: NDArray[np.int8], same_mesh: bool
) -> Curves:
    """Return the curves in which faces of two meshes meet; if `same_mesh`, of a mesh and itself.

    All but `same_mesh` are results of `kinds_of_pairs`. Pairs share an area (`flat`), are decided
    by signs alone (`generic`), or left to edges in planes and rational numbers.
    """
    flat = pairs.take(np.flatnonzero(shared == AREA), 0)
    unknown = np.flatnonzero(shared == UNDECIDED)
    signs = _signs_of(own, other, pairs[unknown])
    generic, crossed = crossed_edges(signs)
    # Two crossings are the ends of a segment.
    cut = np.flatnonzero(generic & (crossed.sum(axis=1) == 2))
    by_signs, (pair, event) = pairs[unknown[cut]], crossed[cut].nonzero()
    shared[unknown[generic]] = POINT
    touching, exact_end, slow = _segments_of_edges(own, other, pairs, shared, signs[~generic])
    exact = _exact_pairs(own, other, slow)
    thin, point_numbers = _thin_edges((own, other), exact, same_mesh), dict[Row, int]()
    ends, points, edges = _segment_ends(own, other, by_signs[pair], event, same_mesh)
    if thin:
        _rename_thin((own, other), by_signs[pair], event, ends, points, thin, point_numbers)
    _, events = crossed_edges(_signs_of(own, other, slow))
    others = _in_rationals(own, other, exact, events, same_mesh, thin, point_numbers)
    touching = _with_numbers(touching, exact_end, others, point_numbers)
    # Exact points have numbers already; those of other ends follow.
    rows, count = np.concatenate([ends, others.ends]), len(point_numbers)
    numbers = np.where(rows[:, 0] == RATIONAL, rows[:, 1], count + first_rows(rows)).reshape(-1, 2)
    generic_ones = _Found(
        points.reshape(-1, 2, 3), by_signs, edges.reshape(-1, 2, 3), numbers[: len(by_signs)]
    )
    others = others._replace(ends=numbers[len(by_signs) :])
    parts = [part for part in (generic_ones, touching, others) if len(part.faces)]
    columns: Any = [*parts, others][0]
    if len(parts) > 1:
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        faces = columns[1].astype(np.int64)
        order = np.argsort(faces[:, 0] << 32 | faces[:, 1])
        columns = [column[order] for column in columns]
    # An edge in a face belongs to two faces: keep the first of segments with the same ends.
    firsts = first_edges(columns[3])
    first = np.flatnonzero(firsts == np.arange(len(firsts)))
    polygons = Polygons(own, other, flat) if len(flat) else NO_POLYGONS
    segments, faces, edges, ends = (column.take(first, 0) for column in columns)
    segments += 0.0  # turns -0.0 into 0.0
    return Curves(segments, faces, edges, ends, polygons, flat)


def _signs_of(own: Mesh, other: Mesh, pairs: Ids) -> NDArray[np.int8]:
    """Return the signs (n, SIGNS) of pairs (n, 2) of faces, see `pair_signs`."""
    corners = own.corners(pairs[:, 0]), other.corners(pairs[:, 1])
    return signs_of_corners(*corners, np.arange(len(pairs), dtype=np.int32)[:, None].repeat(2, 1))


class _Found(NamedTuple):
    """Segments, with faces and edges as in `Curves`."""

    segments: Reals
    faces: Ids
    edges: Ids
    ends: NDArray[Any]  # (2 n, 4): the rows that identify the ends; later (n, 2), as in `Curves`


def crossed_edges(signs: NDArray[np.int8]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (n,) which pairs are decided by signs that are not 0, and (n, 6) which edges cross.

    `signs` (n, SIGNS) are those of `pair_signs`. The six edges are those of the first face, then
    those of the second. An edge crosses the other face if its ends are on different sides of that
    face's plane, and if it passes all edges of that face on the same side.
    """
    generic = (signs[:, :SIDES] != 0).all(axis=1)
    passes = signs[:, SIDES:].reshape(-1, 3, 3)
    crossed = np.empty((len(signs), 6), np.bool_)
    for side, passed in ((0, passes), (1, passes.transpose(0, 2, 1))):
        sides = signs[:, 3 * side : 3 * side + 3]
        spans = sides * np.roll(sides, -1, axis=1) < 0
        within = (passed[:, :, 0] == passed[:, :, 1]) & (passed[:, :, 0] == passed[:, :, 2])
        unsure = (passed == 0).any(axis=2)
        generic &= ~(spans & unsure).any(axis=1)
        crossed[:, 3 * side : 3 * side + 3] = spans & within & ~unsure
    return generic, crossed


def _segment_ends(
    own: Mesh, other: Mesh, pairs: Ids, event: Whole, same_mesh: bool
) -> tuple[Whole, Reals, Ids]:
    """Return (rows, points, edges) of n crossings of an edge of one face with the other face.

    `pairs` (n, 2) are the faces, and `event` (n,) is 3 s + k for edge k of the face on side s, 0 or
    1. A row (4,) identifies a crossing: the side, or 0 if `same_mesh`; both point ids of the edge;
    the face it crosses. Points (3,) are rounded. An edge (3,) is its side and its two vertices.
    """
    rows = np.empty((len(pairs), 4), np.int64)
    points, edges = np.empty((len(pairs), 3)), np.empty((len(pairs), 3), np.int32)
    for side, (mesh, second) in enumerate(((own, other), (other, own))):
        some = event // 3 == side
        face, k = pairs[some, side], event[some] % 3
        ids = np.stack([mesh.faces[face, k], mesh.faces[face, (k + 1) % 3]], axis=1)
        point_ids, ends = mesh.point_ids[ids], mesh.vertices[ids]
        wall, ones = pairs[some, 1 - side], np.ones(len(face), np.int64)
        mesh_ids = 0 * ones if same_mesh else side * ones
        rows[some] = np.column_stack([mesh_ids, np.sort(point_ids), wall])
        edges[some] = np.column_stack([side * ones, np.sort(ids)])
        # Edges start at the end of the lower z, y or x, the first that differs: the point of a
        # crossing is the same in all its pairs.
        axis = 2 - (ends[:, 0] != ends[:, 1])[:, ::-1].argmax(axis=1)
        one, two = np.take_along_axis(ends, axis[:, None, None], 2)[:, :, 0].T
        backward = one > two
        ends[backward] = ends[backward, ::-1]
        walls, found = second.corners(wall), np.empty((len(face), 3))
        crossing_points(kernel_input(ends), kernel_input(walls), found)
        # NaN: double-doubles are not accurate enough.
        for n in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
            p, q = map(exact_point, ends[n].tolist())
            found[n] = rounded(crossing(p, q, exact_face(walls[n].tolist()).plane))
        points[some] = found
    return rows, points, edges


def _segments_of_edges(
    own: Mesh, other: Mesh, pairs: Ids, shared: NDArray[np.int8], signs: NDArray[np.int8]
) -> tuple[_Found, Callable[[int], Row], Ids]:
    """Return (segments, exact_end, slow) of pairs in which an edge is in the plane of a face.

    `exact_end(n)` is the exact point of end n. `slow` are the pairs left to rational numbers. The
    row of an end is that of `identify_ends`. `shared` and `signs` are as in `edge_segments`.
    """
    most = np.count_nonzero((shared != POINT) & (shared != AREA))
    codes, points = np.empty((most, 2), np.int8), np.empty((most, 2, 3))
    rows, contacts = np.empty(most, np.int64), (kernel_input(pairs), kernel_input(shared))
    inputs = own[:2], other[:2], *contacts, kernel_input(signs)
    count, left, thin = edge_segments(*inputs, rows, codes, points)
    slow = rows[most - left :]
    if thin:
        # Faces without area are ignored, but ends on their edges need rational numbers.
        count, slow = 0, np.append(rows[:count], slow)
    left_pairs = pairs[np.sort(slow)]
    points, codes, pairs = points[:count], codes[:count], pairs.take(rows[:count], 0)
    edges, ends = np.empty((count, 2, 3), np.int32), np.empty((2 * count, 4), np.int32)
    ids = [(mesh.faces, mesh.point_ids) for mesh in (own, other)]
    identify_ends(codes, kernel_input(pairs), *ids, edges, ends)

    def exact_end(n: int) -> Row:
        """Return the exact point of end n."""
        code, (i, j) = int(codes[n // 2, n % 2]), pairs[n // 2]
        if code < CROSSED:
            return exact_point(points[n // 2, n % 2].tolist())
        # Edge k of the first face crosses edge m of the second.
        k, m = divmod(code - CROSSED, 3)
        one, two = own.corners(i).tolist(), other.corners(j).tolist()
        p, q, plane = one[k], one[(k + 1) % 3], exact_face(two).sides[m]
        # If edge k is in that plane, across the second face, cut edge m by the plane through k.
        heights = dots(plane, [exact_point(p), exact_point(q)])
        if 0 in heights:
            p, q, plane = two[m], two[(m + 1) % 3], exact_face(one).sides[k]
        return crossing(exact_point(p), exact_point(q), plane)

    touching = _Found(points, pairs, edges, ends)
    return touching, exact_end, left_pairs


def _with_numbers(
    touching: _Found, exact_end: Callable[[int], Row], others: _Found, numbers: dict[Row, int]
) -> _Found:
    """Return `touching` with numbers of ends (n, 2), negative ones except for exact points.

    `others` has rows of ends in rational numbers (see RATIONAL). `touching` and `exact_end` are
    results of `_segments_of_edges`; `numbers` has the number of each exact point so far, and gets
    more.
    """
    # Equal points have equal coordinates (a place), as these are rounded correctly. Points at one
    # place are surely equal if all are corners, or crossings of the same edges.
    count, ends = len(touching.ends), touching.ends
    by_number = others.ends[:, 0] == RATIONAL
    unsure = np.empty(0, np.int64)
    places = ends[:, 0]  # enough if all are corners
    if by_number.any() or (ends[:, 1] >= 0).any():
        points = touching.segments.reshape(-1, 3), others.segments.reshape(-1, 3)[by_number]
        places = first_rows(np.concatenate(points) + 0.0)
        rows = np.concatenate([ends, others.ends[by_number]])
        distinct = first_rows(np.column_stack([places, rows]))
        kinds = places[distinct == np.arange(len(distinct))]
        unsure = np.flatnonzero(np.bincount(kinds)[places[:count]] > 1)
    # A sure end is numbered by its place, negative to differ from the numbers of exact points.
    found = -1 - places[:count].astype(np.int64)
    for n in unsure.tolist():
        found[n] = numbers.setdefault(exact_end(n), len(numbers))
    return touching._replace(ends=found.reshape(-1, 2))


class _Pair(NamedTuple):
    """Two faces, one of each mesh: their rows there, and both in rational numbers."""

    rows: tuple[int, int]
    faces: tuple[Face, Face]


def _exact_pairs(own: Mesh, other: Mesh, pairs: Ids) -> list[_Pair]:
    """Return each of the pairs (n, 2) of faces as a `_Pair`; a face is made exact only once."""
    first, second = (cache(lambda k, m=mesh: exact_face(m.corners(k).tolist()))
                     for mesh in (own, other))  # fmt: skip
    return [_Pair((i, j), (first(i), second(j))) for i, j in pairs.tolist()]


def _thin_edges(meshes: tuple[Mesh, Mesh], pairs: list[_Pair], same_mesh: bool) -> Thin:
    """Return the edges of those faces in `pairs` that have no area.

    Such a face closes a T-junction: a point of one of its edges is on another of them, too. So an
    end on such an edge must be identified by its point, not by the edge.
    """
    return {
        (0 if same_mesh else side, *meshes[side].edge(pair.rows[side], k))
        for pair in pairs
        for side in range(2)
        if not pair.faces[side].has_area
        for k in range(3)
    }


def _rename_thin(
    meshes: tuple[Mesh, Mesh], pairs: Ids, event: Whole, ends: Whole, points: Reals, thin: Thin,
    numbers: dict[Row, int],
) -> None:  # fmt: skip
    """Identify the ends on edges in `thin` by their points: change rows of `ends` and `points`.

    `pairs` and `event` are as in `_segment_ends`; `numbers` are those of exact points so far.
    """
    for n, (side, first, second) in enumerate(ends[:, :3].tolist()):
        if (side, first, second) in thin:
            mesh, k = int(event[n]) // 3, int(event[n]) % 3
            corners = meshes[mesh].corners(pairs[n, mesh])
            wall = exact_face(meshes[1 - mesh].corners(pairs[n, 1 - mesh]).tolist())
            p, q = (exact_point(corner.tolist()) for corner in (corners[k], corners[(k + 1) % 3]))
            point = crossing(p, q, wall.plane)
            ends[n] = RATIONAL, numbers.setdefault(point, len(numbers)), 0, 0
            points[n] = rounded(point)


def _in_rationals(
    own: Mesh, other: Mesh, pairs: list[_Pair], crossed: NDArray[np.bool_], same_mesh: bool,
    thin: Thin, numbers: dict[Row, int],
) -> _Found:  # fmt: skip
    """Return the segments of pairs, exactly.

    `crossed` (n, 6) are edges that surely cross faces (see `crossed_edges`); the rest as in `_end`.
    """
    segments, faces, edges, rows = [], [], [], []
    for pair, events in zip(pairs, crossed, strict=True):
        if not all(face.has_area for face in pair.faces):
            continue
        _, found = common(*pair.faces)
        if len(found) == 2:
            for p in found:
                row, edge = _end(p, (own, other), pair, events, numbers, same_mesh, thin)
                rows.append(row)
                edges.append(edge)
            segments.append([rounded(p) for p in found])
            faces.append(pair.rows)
    return _Found(
        np.array(segments, np.float64).reshape(-1, 2, 3), np.array(faces, np.int32).reshape(-1, 2),
        np.array(edges, np.int32).reshape(-1, 2, 3), np.array(rows, np.int64).reshape(-1, 4),
    )  # fmt: skip


def _end(
    p: Row, meshes: tuple[Mesh, Mesh], pair: _Pair, events: NDArray[np.bool_],
    numbers: dict[Row, int], same_mesh: bool, thin: Thin,
) -> tuple[tuple[int, int, int, int], tuple[int, int, int]]:  # fmt: skip
    """Return the row that identifies the end `p` of a segment, and the edge or vertex it is on.

    `events` (6,) tells which edges cross the other face: the three of the first face, then those of
    the second. An end at such a crossing is identified by the edge and the other face, as in all
    pairs that have this end; any other end, and one on an edge in `thin`, by its number in
    `numbers`, which gets new points. `same_mesh` tells whether both meshes are the same one.
    """
    rows, exact = pair.rows, pair.faces
    for event in events.nonzero()[0].tolist():
        side, k = divmod(event, 3)
        mesh, corners = meshes[side], exact[side].corners
        if crossing(corners[k], corners[(k + 1) % 3], exact[1 - side].plane) == p:
            ids = mesh.faces[rows[side], [k, (k + 1) % 3]].tolist()
            name = 0 if same_mesh else side, *mesh.edge(rows[side], k)
            if name in thin:
                break
            return (*name, rows[1 - side]), (side, min(ids), max(ids))
    number = numbers.setdefault(p, len(numbers))
    return (RATIONAL, number, 0, 0), _feature(p, meshes, rows, exact)


def _feature(
    p: Row, meshes: tuple[Mesh, Mesh], pair: tuple[int, int], exact: tuple[Face, Face]
) -> tuple[int, int, int]:
    """Return (side, vertex, vertex) of an edge that the end p is on, or a vertex, repeated."""
    edges = []
    for side in range(2):
        ids: list[int] = meshes[side].faces[pair[side]].tolist()
        # The point is in both faces, and so on the edges over which its height is 0.
        for k, height in enumerate(dots(p, exact[side].sides)):
            if exact[side].corners[k] == p:
                return side, ids[k], ids[k]
            if height == 0:
                edges.append((side, *sorted((ids[k], ids[(k + 1) % 3]))))
    side, first, second = edges[0]
    return side, first, second
