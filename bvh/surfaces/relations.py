"""How two solids are related: disjoint, touching, overlapping, one inside the other, or equal.

What decides is which of four kinds of places there are: in both, in one alone, in the other alone.
Each such place borders on one of the surfaces, so it is enough to look at the cells around one
point of every segment in which faces meet, and of every piece of surface that meets nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.surfaces.cells import REACH, Cell, Solid, cells_at, middle, size_of
from bvh.surfaces.curves import names_of
from bvh.surfaces.exact_faces import (
    Point,
    between,
    common,
    cross,
    exact_face,
    heights_over,
    minus,
    normal_of,
    rounded,
)
from bvh.surfaces.pair_signs import SIGNS, pair_signs

Pairs = NDArray[np.int32]
Segment = tuple[Point, Point]

BOTH, FIRST, SECOND = (True, True), (True, False), (False, True)
DECIDED = {BOTH, FIRST, SECOND}
NAMES = ("disjoint", "touching", "overlapping", "inside", "contains", "equal")


class Surface:
    """A closed surface in place, and what is found out about it when it is asked for."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.solid = Solid(tree, np.asarray(tree.vertices[tree.faces] + 0.0))

    @cached_property
    def own_pairs(self) -> Pairs:
        """Pairs of its own faces that meet beyond what they share: none of a clean mesh."""
        pairs: Pairs = self.tree.self_overlaps()
        return pairs

    @cached_property
    def _edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Keys of the edges, three a face, the same for the same ends; and an order by them."""
        corners = names_of(self.solid.corners.reshape(-1, 3)).reshape(-1, 3)
        edges = np.sort(np.stack([corners, np.roll(corners, -1, axis=1)], axis=2), axis=2)
        keys = edges[:, :, 0].ravel() << 32 | edges[:, :, 1].ravel()
        return keys, np.argsort(keys, kind="stable")

    @cached_property
    def first_of_edge(self) -> NDArray[np.int64]:
        """The first edge with the same ends, of each edge: three a face."""
        keys, order = self._edges
        first = np.empty(len(keys), np.int64)
        starts = np.flatnonzero(np.concatenate([[True], keys[order[1:]] != keys[order[:-1]]]))
        first[order] = np.repeat(order[starts], np.diff([*starts, len(keys)]))
        return first

    def unpaired(self, faces: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return one of each of the faces that are there an odd number of times."""
        names = names_of(self.solid.corners[faces].reshape(-1, 3)).reshape(-1, 3)
        _, first, count = np.unique(
            names_of(np.sort(names, axis=1)), return_index=True, return_counts=True
        )
        return np.sort(faces[first[count % 2 == 1]])

    def is_flat(self, edge: int) -> bool:
        """Return whether an edge only divides a flat part, such as the diagonal of a quad."""
        keys, order = self._edges
        first, last = (
            np.searchsorted(keys, keys[edge], sorter=order),
            np.searchsorted(keys, keys[edge], "right", sorter=order),
        )
        faces = [exact_face(self.solid.corners[e // 3].tolist()) for e in order[first:last]]
        normal = normal_of(faces[0])
        points = [p for face in faces for p in face]
        return len(faces) == 2 and any(normal) and not any(heights_over(normal, points[0], points))

    @cached_property
    def pieces(self) -> NDArray[np.int64]:
        """The piece of each face: faces that are connected by edges."""
        keys, order = self._edges
        same = keys[order[1:]] == keys[order[:-1]]
        a, b = order[:-1][same] // 3, order[1:][same] // 3
        piece = np.arange(len(self.solid.corners))
        while True:
            least = np.minimum(piece[a], piece[b])
            if (piece[a] == piece[b]).all():
                return piece
            np.minimum.at(piece, piece[a], least)
            np.minimum.at(piece, piece[b], least)
            while (piece[piece] != piece).any():
                piece = piece[piece]


def relation_of(own: Surface, other: Surface, threads: int) -> str:
    """Return how two solids are related, as the first is to the second."""
    if have_same_faces(own.solid.corners, other.solid.corners):
        return NAMES[5]
    rng = np.random.default_rng(0)
    pairs = own.tree.overlap_tree(other.tree, threads=threads)
    cells: set[Cell] = set()
    solids = own.solid, other.solid
    met: tuple[set[int], set[int]] = set(), set()
    segments: dict[frozenset[Point], float] = {}
    for i, j in rng.permutation(_in_more_than_a_point(own, other, pairs)).tolist():
        for ends, size in _segments(own, other, i, j):
            met[0].add(i)
            met[1].add(j)
            key = frozenset(ends)
            if key not in segments:
                segments[key] = size
                cells |= _sampled(solids, ends, size, rng)
        if cells >= DECIDED:
            return NAMES[2]
    if len(pairs) and (len(own.own_pairs) or len(other.own_pairs)):
        for which, surface in enumerate((own, other)):
            for i, j in surface.own_pairs.tolist():
                for ends, size in _segments(surface, surface, i, j):
                    met[which].update((i, j))
                    segments[frozenset(ends)] = size
        for key, size in segments.items():
            for part in _parts(solids, tuple(key)):
                cells |= _sampled(solids, part, size, rng)
    for which, surface in enumerate((own, other)):
        if not cells >= DECIDED:
            cells |= _isolated_cells(solids, which, surface, met[which], len(pairs) > 0, rng)
    if BOTH not in cells:
        return NAMES[1 if len(pairs) else 0]
    return NAMES[2 + (FIRST not in cells) + 2 * (SECOND not in cells)]


def have_same_faces(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Return whether two surfaces have the same faces, in any order."""
    if first.shape != second.shape or not (first.min(axis=(0, 1)) == second.min(axis=(0, 1))).all():
        return False
    names = names_of(np.concatenate([first, second]).reshape(-1, 3)).reshape(2, -1, 3)
    both = [faces[np.lexsort(faces.T)] for faces in np.sort(names, axis=2)]
    return np.array_equal(*both)


def _in_more_than_a_point(own: Surface, other: Surface, pairs: Pairs) -> Pairs:
    """Return the pairs of faces that do not just touch with a corner."""
    signs = np.empty((len(pairs), SIGNS), np.int8)
    corners = kernel_input(own.solid.corners), kernel_input(other.solid.corners)
    pair_signs(*corners, kernel_input(pairs), signs)
    sides = signs[:, :6].reshape(-1, 2, 3)
    corner = (np.abs(sides).sum(axis=2) == 2) & (np.abs(sides.sum(axis=2)) == 2)
    return np.asarray(pairs[~corner.any(axis=1)])


def _segments(own: Surface, other: Surface, i: int, j: int) -> Iterator[tuple[Segment, float]]:
    """Yield the segments that bound what two faces share, and the size of the smaller face."""
    a, b = exact_face(own.solid.corners[i].tolist()), exact_face(other.solid.corners[j].tolist())
    if any(normal_of(a)) and any(normal_of(b)):
        _, found = common(a, b)
        size = min(size_of(a), size_of(b))
        for k in range(len(found) if len(found) > 2 else len(found) - 1):
            yield (found[k], found[(k + 1) % len(found)]), size


def _sampled(
    solids: tuple[Solid, Solid], ends: Segment, size: float, rng: np.random.Generator
) -> set[Cell]:
    """Return the cells around a point of a segment."""
    axis = minus(ends[1], ends[0])
    while True:
        cells = cells_at(solids, middle(*ends, rng), axis, min(size, size_of(ends)), rng)
        if cells is not None:
            return cells


def _parts(solids: tuple[Solid, Solid], ends: tuple[Point, ...]) -> Iterator[Segment]:
    """Yield the parts of a segment between the faces that it meets."""
    start, end = ends
    box = np.array([rounded(p) for p in ends])
    low, high = np.nextafter(box.min(axis=0), -np.inf), np.nextafter(box.max(axis=0), np.inf)
    cuts = {Fraction(0), Fraction(1)}
    for solid in solids:
        for face in solid.faces_at(low, high):
            n = normal_of(face)
            planes = [(n, face[0])]
            if any(n) and not any(heights_over(n, face[0], ends)):
                edges = [minus(face[(k + 1) % 3], face[k]) for k in range(3)]
                planes = [(cross(n, edge), p) for edge, p in zip(edges, face, strict=True)]
            for normal, origin in planes:
                f, g = heights_over(normal, origin, ends)
                f, g = f * end[3], g * start[3]
                if f != g:
                    cuts.add(Fraction(f, f - g))
    for s, t in pairwise(sorted(share for share in cuts if 0 <= share <= 1)):
        yield between(start, end, s), between(start, end, t)


def _isolated_cells(
    solids: tuple[Solid, Solid], which: int, surface: Surface, met: set[int], touching: bool,
    rng: np.random.Generator,
) -> set[Cell]:  # fmt: skip
    """Return the cells on both sides of pieces that share no segment with the other surface."""
    pieces = surface.pieces
    firsts = np.setdiff1d(pieces, pieces[sorted(met)])
    cells: set[Cell] = set()
    if touching:
        # Faces that overlap others of their own surface have been looked at, and their pieces.
        for number in firsts.tolist():
            for k in np.flatnonzero(pieces == number).tolist():
                found = _cells_of_face(solids, surface, k, rng)
                if found:
                    cells |= found
                    break
        return cells
    # Each piece is wholly inside of the other surface, or outside.
    points, other = surface.solid.corners[firsts, 0], solids[1 - which]
    low, high = other.tree.bounds
    near = ((points >= low) & (points <= high)).all(axis=1)
    inside = np.zeros(len(points), np.bool_)
    known = other.are_inside(points[near], 1)
    inside[near] = known if (known >= 0).all() else other.tree.contains(points[near])
    for state in (False, True):
        faces = np.flatnonzero(np.isin(pieces, firsts[inside == state]))
        if len(faces):
            cells |= _two_sided_cells(solids, which, surface, faces, state, rng)
    return cells


def _two_sided_cells(
    solids: tuple[Solid, Solid], which: int, surface: Surface, faces: NDArray[np.int64],
    inside: bool, rng: np.random.Generator,
) -> set[Cell]:  # fmt: skip
    """Return the cells on both sides of faces that are all inside of the other surface, or outside.

    Two cells where the faces bound the solid anywhere. Walls without thickness, such as a face and
    its reverse or a part that is there twice, have the same on both sides, and bound nothing.
    """
    wanted: set[Cell] = {((side, inside), (inside, side))[which] for side in (True, False)}
    faces, cells = surface.unpaired(faces), set[Cell]()
    if len(faces) and _cells_in_doubles(solids, surface, int(faces[0])) == wanted:
        return wanted
    for k in faces.tolist():
        cells |= _cells_of_face(solids, surface, k, rng)
        if cells >= wanted:
            return wanted
    # Faces may be covered in part by faces of other shapes.
    overlapping = np.isin(surface.own_pairs, faces).any(axis=1)
    for i, j in surface.own_pairs[overlapping].tolist():
        for ends, size in _segments(surface, surface, i, j):
            for part in _parts(solids, ends):
                cells |= _sampled(solids, part, size, rng)
                if cells >= wanted:
                    return wanted
    return cells


def _cells_in_doubles(
    solids: tuple[Solid, Solid], surface: Surface, k: int
) -> set[tuple[bool | None, bool | None]]:
    """Return the cells of two points near the middle of a face, on both sides; None if unsure."""
    a, b, c = surface.solid.corners[k]
    with np.errstate(all="ignore"):
        middle, normal = a / 3.0 + b / 3.0 + c / 3.0, np.cross(b - a, c - a)
        step = normal * (REACH * np.abs(b - a).max() / np.abs(normal).max())
    ways = middle - step, middle + step
    if not np.isfinite(ways).all():
        return set()
    return {(solids[0].is_inside(q), solids[1].is_inside(q)) for q in ways}


def _cells_of_face(
    solids: tuple[Solid, Solid], surface: Surface, k: int, rng: np.random.Generator
) -> set[Cell]:
    """Return the cells on both sides of a point of a face; none if it has no area."""
    face = exact_face(surface.solid.corners[k].tolist())
    while any(normal_of(face)):
        # Two random steps: along an edge, then towards the third corner.
        p = middle(middle(face[0], face[1], rng), face[2], rng)
        found = cells_at(solids, p, minus(face[1], face[0]), size_of(face), rng)
        if found is not None:
            return found
    return set()
