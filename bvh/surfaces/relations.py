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
from bvh.surfaces.cells import Cell, Solid, cells_at, middle, size_of
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
    if _same_faces(own.solid.corners, other.solid.corners):
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
            cells |= _alone(solids, which, surface, met[which], len(pairs) > 0, rng)
    if BOTH not in cells:
        return NAMES[1 if len(pairs) else 0]
    return NAMES[2 + (FIRST not in cells) + 2 * (SECOND not in cells)]


def _same_faces(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
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


def _alone(
    solids: tuple[Solid, Solid], which: int, surface: Surface, met: set[int], touching: bool,
    rng: np.random.Generator,
) -> set[Cell]:  # fmt: skip
    """Return the cells beside the pieces of a surface that share no segment with the other."""
    pieces = surface.pieces
    firsts = np.setdiff1d(pieces, pieces[sorted(met)])
    if not touching:
        # The pieces are wholly inside of the other surface, or outside.
        points, other = surface.solid.corners[firsts, 0], solids[1 - which]
        low, high = other.tree.bounds
        near = ((points >= low) & (points <= high)).all(axis=1)
        inside = np.zeros(len(points), np.bool_)
        known = other.are_inside(points[near], 1)
        inside[near] = known if (known >= 0).all() else other.tree.contains(points[near])
        return {((side, bool(x)), (bool(x), side))[which] for x in inside for side in (True, False)}
    cells: set[Cell] = set()
    for number in firsts.tolist():
        for k in np.flatnonzero(pieces == number).tolist():
            face, found = exact_face(surface.solid.corners[k].tolist()), None
            if not any(normal_of(face)):
                continue
            while found is None:
                # Two random steps: along an edge, then towards the third corner.
                p = middle(middle(face[0], face[1], rng), face[2], rng)
                found = cells_at(solids, p, minus(face[1], face[0]), size_of(face), rng)
            cells |= found
            break
    return cells
