"""The volume that two solids share: its size, centroid, surface area and box.

With faces wound so that a solid is on their lower side, and depths that count the sheets around a
point, the volume is a sum over the parts of faces that are inside the other solid. Each part is a
fan around a corner of its face: what it adds follows from the edges of the face, as far as they are
inside the other solid, and from the segments in which faces meet. No part of the shared solid is
constructed. The formula is that of W. R. Franklin; `overlap_terms` derives it, step by step.

Where faces touch, or vertices lie in faces, the second solid is moved by an infinitesimal amount
("simulation of simplicity": Edelsbrunner, Muecke 1990). As volumes are continuous, this changes no
more than the signs that are 0. Sums are in double-doubles. If they nearly cancel, as where solids
only touch, they are repeated in rational numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import common, dot, rounded
from bvh.runtime.arguments import kernel_input, number_of
from bvh.surfaces import overlap_terms
from bvh.surfaces.cells import Pairs, Surfaces, signs_of, signs_of_corners
from bvh.surfaces.curves import crossed_edges
from bvh.surfaces.overlap_terms import AREA, SHARES, SIZE, SUMS
from bvh.surfaces.pair_signs import SIDES
from bvh.surfaces.surface import Reals, Surface, Whole
from bvh.surfaces.volumes import (
    LEAST,
    Vector,
    cross_of,
    dot_of,
    frame_of,
    minus_of,
    nearest,
    rounding_of,
    scaled_back,
    solid_sums,
    vectors,
)

Signs = NDArray[np.int8]

# Sums are accepted if their rounding is below this share of themselves.
ACCURACY = 2.0**-43


class SharedVolume(NamedTuple):
    """The volume that two solids share, its centroid, surface area, and lower and upper corner."""

    volume: float
    centroid: Reals  # (3,)
    area: float
    bounds: Reals  # (2, 3)


NOTHING = SharedVolume(0.0, np.full(3, np.nan), 0.0, np.full((2, 3), np.nan))


class Crossings(NamedTuple):
    """Where edges of one solid cross faces of another, and the depths of its points.

    edges, faces : (n,) the edge that crosses, as the first edge 3 i + k (edge k of face i) with the
        same ends, and the face of the other solid.
    signs : (n,) 1 where the edge enters the other solid, -1 where it leaves.
    of_pairs : (m, 3) for each pair, the crossing of each edge of the face; -1 if there is none.
    depths : the number of sheets of the other solid around each point, by point id.
    """

    edges: Whole
    faces: Whole
    signs: NDArray[np.float64]
    of_pairs: Whole
    depths: Whole


def shared_volume(
    first: Surface, second: Surface, find_pairs: Callable[[], Pairs], threads: int
) -> SharedVolume:
    """Return what two solids share, or NOTHING; `find_pairs` returns all faces that meet."""
    for surface in (first, second):
        check_depths(surface)
    surfaces, pairs = (first, second), find_pairs()
    kept = (first.outward[pairs[:, 0]] != 0) & (second.outward[pairs[:, 1]] != 0)
    pairs = kernel_input(pairs[kept])
    signs = signs_of(surfaces, pairs)
    # One direction is enough where no sign is 0. Solids that only touch may overlap after one move,
    # but not after the opposite one.
    found: list[_Moved] = []
    for turn in (1,) if signs.all() else (1, -1):
        found.append(_Moved(surfaces, pairs, signs, turn, threads))
        if found[-1].is_empty:
            return NOTHING
    volume, centroid, area = found[0].sums()
    if volume == 0.0:
        return NOTHING
    low, high = zip(*(each.bounds() for each in found), strict=True)
    bounds = np.stack([np.max(low, axis=0), np.min(high, axis=0)])
    # Rounding must not take the centroid out of the box.
    centroid = np.clip(centroid, *bounds)
    return SharedVolume(volume, centroid, area, bounds)


def check_depths(surface: Surface) -> None:
    """Raise a ValueError unless the depth of a solid is 0 or 1: parts may touch, not overlap."""
    if len(surface.own_pairs) and not surface.is_embedded:
        pairs = surface.tree.overlap_tree(surface.tree)
        kept = (surface.outward[pairs] != 0).all(axis=1)
        pairs = kernel_input(pairs[kept])
        signs = signs_of((surface, surface), pairs)
        # Depths d are integers, so d**2 >= d. Their integrals, what the solid shares with itself
        # and its own volume, are equal only if d is 0 or 1.
        square = _Moved((surface, surface), pairs, signs, 1, 1).sums()[0]
        if not abs(solid_sums(surface)[0] - square) <= 2.0**-40 * square:
            raise ValueError(
                "volumes need meshes that do not cross themselves, but "
                f"{number_of(len(surface.own_pairs), 'pairs')} of faces overlap beyond common "
                "vertices and edges, see self_overlaps"
            )
        surface.is_embedded = True


class _Moved:
    """Two solids; the second is moved by an infinitesimal amount, of sign `turn` on each axis.

    `pairs` are the faces that meet, and `signs` their `pair_signs` before the move.
    """

    def __init__(
        self, surfaces: Surfaces, pairs: Pairs, signs: Signs, turn: int, threads: int
    ) -> None:
        """Find the signs after the move, and where edges of either solid cross the other."""
        self.surfaces, self.pairs = surfaces, pairs
        self.flat = ~signs[:, :SIDES].any(axis=1)  # pairs of faces in one plane
        corners = [surface.corners for surface in surfaces]
        moved, self._axes, self._turns = signs.copy(), np.arange(3), np.full(3, turn, np.int8)
        overlap_terms.move_apart(*corners, pairs, self._axes, self._turns, moved)
        self.signs = moved
        crossed = crossed_edges(moved)[1]
        self.sides = [
            self._edges_across(which, signs, crossed[:, 3 * which : 3 * which + 3], threads)
            for which in range(2)
        ]

    def _edges_across(
        self, which: int, signs: Signs, crossed: NDArray[np.bool_], threads: int
    ) -> Crossings:
        """Return where edges of solid `which`, flagged in `crossed` (n, 3) by pair, cross faces."""
        own, other = self.surfaces[which], self.surfaces[1 - which]
        row, k = np.nonzero(crossed)
        face, across = self.pairs[row, which].astype(np.int64), self.pairs[row, 1 - which]
        start = own.first_of_edge[3 * face + k]
        # An edge enters if it starts outside: above an outward face.
        backward = own.point_ids[face, k] != own.point_ids[start // 3, start % 3]
        enters = self.signs[row, 3 * which + k] * np.where(backward, -1, 1) * other.outward[across]
        # A crossing counts once, though its edge belongs to several faces.
        _, once, number = np.unique(
            start * len(other.corners) + across, return_index=True, return_inverse=True
        )
        of_pairs = np.full(crossed.shape, -1)
        of_pairs[row, k] = number
        edges, faces, enters = start[once], across[once].astype(np.int64), enters[once]
        changes = np.zeros(3 * len(own.corners), np.int64)
        np.add.at(changes, edges, enters)
        # Points that were in planes of faces before the move, by `signs`, are doubtful.
        doubtful = np.zeros(own.point_ids.max() + 1, np.bool_)
        row, k = np.nonzero(signs[:, 3 * which : 3 * which + 3] == 0)
        doubtful[own.point_ids[self.pairs[row, which], k]] = True
        depths = self._depths(which, changes, doubtful, threads)
        return Crossings(edges, faces, enters.astype(np.float64), of_pairs, depths)

    def _depths(
        self, which: int, changes: Whole, doubtful: NDArray[np.bool_], threads: int
    ) -> Whole:
        """Return the depth of each point of solid `which`: how many sheets of the other it is in.

        `changes` (3 m,) are those of the depth along edges. `doubtful` flags points in planes of
        faces, whose depths may depend on the move.
        """
        own, other = self.surfaces[which], self.surfaces[1 - which]
        faces = np.flatnonzero(own.outward)
        bounding = np.zeros(len(changes), np.bool_)
        bounding[own.first_of_edge.reshape(-1, 3)[faces]] = True
        roots, steps = np.empty((2, len(doubtful)), np.int64)
        overlap_terms.join_points(
            own.point_ids, np.where(bounding, own.first_of_edge, -1), changes, roots, steps
        )
        # One point of each connected part, if possible one that is not in a plane of a face.
        is_used = np.zeros(len(doubtful), np.bool_)
        is_used[own.point_ids[faces]] = True
        used = np.flatnonzero(is_used)
        order = used[np.lexsort((doubtful[used], roots[used]))]
        points = order[np.unique(roots[order], return_index=True)[1]]
        places = own.positions[points]
        low, high = other.bounds
        near = ((places >= low) & (places <= high)).all(axis=1)
        depth = np.zeros(len(points), np.int64)
        sure = near & ~doubtful[points]
        inside = other.are_inside(places[sure], threads)
        depth[sure] = inside
        unsure = np.flatnonzero(near & doubtful[points]).tolist()
        unsure += np.flatnonzero(sure)[inside < 0].tolist()
        for n in unsure:
            depth[n] = self._depth_after_move(1 - which, places[n])
        of_roots = np.zeros(len(doubtful), np.int64)
        of_roots[roots[points]] = depth - steps[points]
        return np.asarray(of_roots[roots] + steps)

    def _depth_after_move(self, which: int, place: Reals) -> int:
        """Return how many sheets of solid `which`, after the move, are around a point."""
        surface = self.surfaces[which]
        low, high = surface.bounds
        # A segment from the point to beyond the bounds, as edge 0 of a face.
        reach = np.maximum(high - low, np.abs(high)) + 1e-300
        away = high + reach * [1.0, 0.875, 0.6875], high + reach * [0.5, 1.25, 0.8125]
        faces = kernel_input(np.stack([place, *away])[None])
        ids = np.flatnonzero(surface.outward)
        pairs = kernel_input(np.stack([np.zeros_like(ids), ids], axis=1).astype(np.int32))
        signs = signs_of_corners(faces, surface.corners, pairs)
        # If the surface is that of the first solid, it moves the other way relative to the point.
        turns = self._turns if which == 1 else -self._turns
        overlap_terms.move_apart(faces, surface.corners, pairs, self._axes, turns, signs)
        # Each sheet that the segment leaves counts 1, each that it enters -1.
        through = crossed_edges(signs)[1][:, 0]
        return -int((signs[through, 0] * surface.outward[ids[through]]).sum())

    @property
    def is_empty(self) -> bool:
        """Whether no point is inside the other solid, and no edge crosses it."""
        return not any(len(side.edges) or side.depths.any() for side in self.sides)

    def bounds(self) -> tuple[Reals, Reals]:
        """Return the lower and the upper corner of the box of the shared solid."""
        origin, e, _ = self._frame
        both = zip(self.surfaces, self.sides, strict=True)
        places = [surface.positions[side.depths != 0] for surface, side in both]
        places += [np.ldexp(points[:, ::2], e) + origin for _, points in self._crossing_points]
        every = np.concatenate(places)
        return every.min(axis=0), every.max(axis=0)

    @cached_property
    def _frame(self) -> tuple[Reals, int, float]:
        """The `frame_of` what the boxes of both solids share, so that both are within 2**e."""
        boxes = np.stack([surface.bounds for surface in self.surfaces])
        return frame_of(boxes[:, 0].max(axis=0), boxes[:, 1].min(axis=0), boxes.reshape(-1, 3))

    @cached_property
    def _crossing_points(self) -> list[tuple[Reals, Reals]]:
        """For each solid, shares (n, 2) of its edges at crossings, 0 to 1, and points (n, 6)."""
        # Shares do not depend on the units of axes; with the sizes as units, nothing underflows.
        (origin, e, _), found = self._frame, []
        boxes = np.concatenate([surface.bounds for surface in self.surfaces])
        units = np.ldexp(1.0, np.clip(np.frexp(np.ptp(boxes / 2.0, axis=0))[1], -1000, 1000))
        for ends, faces in map(self._crossing_corners, range(2)):
            shares, points = np.empty((len(ends), 2)), np.empty((len(ends), 6))
            given = ends / units, faces / units, origin / units, 0
            overlap_terms.find_crossings(*given, shares, points)
            found.append((shares, points * np.ldexp(units, -e).repeat(2)))
        return found

    def _crossing_corners(self, which: int) -> tuple[Reals, Reals]:
        """Return the ends (n, 2, 3) of a solid's edges, and the faces (n, 3, 3) that they cross."""
        own, other = self.surfaces[which].corners, self.surfaces[1 - which].corners
        face, k = np.divmod(self.sides[which].edges, 3)
        ends = np.stack([own[face, k], own[face, (k + 1) % 3]], axis=1)
        return kernel_input(ends), kernel_input(other[self.sides[which].faces])

    @cached_property
    def _segments(self) -> tuple[Pairs, Whole]:
        """Pairs of faces that cross, and the start and end (n, 2) of the segment of each pair.

        Starts and ends are numbers of crossings, those of the second solid's edges after those of
        the first. Seen from outside, what is inside the second solid is on the segment's left.
        """
        of_pairs = [side.of_pairs for side in self.sides]
        of_pairs[1] = np.where(of_pairs[1] < 0, -1, of_pairs[1] + len(self.sides[0].edges))
        found = np.concatenate(of_pairs, axis=1)
        rows = np.flatnonzero((found >= 0).any(axis=1))
        found, pairs = found[rows], self.pairs[rows]
        turn = self.surfaces[0].outward[pairs[:, 0]] * self.surfaces[1].outward[pairs[:, 1]]
        # Around the first face, its edges enter the second solid at the end of the segment; around
        # the second, they enter the first solid at its start.
        above = self.signs[rows, :SIDES] * turn[:, None] * [1, 1, 1, -1, -1, -1]
        ends = [np.where(sign * above > 0, found, -1).max(axis=1) for sign in (-1, 1)]
        return kernel_input(pairs), np.stack(ends, axis=1)

    def sums(self) -> tuple[float, Reals, float]:
        """Return the volume, centroid and surface area of the shared solid."""
        origin, e, shortest = self._frame
        sums, first, second = np.zeros(SUMS), *self.surfaces
        for own, side, (shares, _) in zip(
            self.surfaces, self.sides, self._crossing_points, strict=True
        ):
            edges, rows = np.unique(side.edges, return_inverse=True)
            ends = side.depths[own.point_ids[edges // 3, (edges % 3 + 1) % 3]]
            # `share` and `twice` of an edge (see SHARES) begin with D, the depth at its end.
            table = np.zeros((len(edges), SHARES))
            table[:, ::2] = ends[:, None]
            overlap_terms.add_shares(rows, shares, side.signs, table)
            of_edges = np.full(3 * len(own.corners), -1)
            of_edges[edges] = np.arange(len(edges))
            overlap_terms.add_faces(
                own.corners, own.outward, own.point_ids, side.depths, own.first_of_edge, of_edges,
                table, origin, e, sums,
            )  # fmt: skip
        pairs, ends = self._segments
        points = np.concatenate([points for _, points in self._crossing_points])
        overlap_terms.add_segments(
            first.corners, second.corners, first.outward, second.outward, pairs,
            points[ends.reshape(-1)], origin, e, sums,
        )  # fmt: skip
        area = max(scaled_back(sums[AREA] / 2.0, 2 * e) - 2.0 * self._area_in_contact(), 0.0)
        # Neither rounding nor underflow may matter.
        rounding = rounding_of(len(first.corners) + len(second.corners) + len(pairs))
        if rounding * sums[SIZE] >= ACCURACY * sums[0] or sums[0] * shortest < LEAST:
            volume, centroid = self._exact_sums()
            return volume, centroid, area
        # Six times the volume, 24 times the moment, high parts only; lengths are over 2**e.
        volume, moment = sums[0], sums[2:8:2]
        centroid = origin + np.ldexp(moment / (4.0 * volume), e)
        return scaled_back(volume / 6.0, 3 * e), centroid, area

    def _area_in_contact(self) -> float:
        """Return the area of contacts from outside that the move turned into thin overlaps."""
        first, second = self.surfaces
        pairs, total = self.pairs[self.flat], 0.0
        # A contact became an overlap if corners of the first face are below the second face.
        inside = self.signs[self.flat, 0] * second.outward[pairs[:, 1]] < 0
        for i, j in pairs[inside].tolist():
            a, b = first.face(i), second.face(j)
            turn = int(first.outward[i]) * int(second.outward[j])
            if a.has_area and b.has_area and turn * dot(a.plane[:3], b.plane[:3]) < 0:
                corners = np.array([rounded(p) for p in common(a, b)[1]])
                if len(corners) > 2:
                    edges = corners[1:] - corners[0]
                    total += float(np.linalg.norm(np.cross(edges[:-1], edges[1:]).sum(axis=0)))
        return total / 2.0

    def _exact_sums(self) -> tuple[float, Reals]:
        """Return the volume and the centroid by sums in rational numbers.

        The terms are those of `add_faces` and `add_segments`, derived in `overlap_terms`: six times
        the volumes of tetrahedra at the origin, and 24 times their moments. For `share` and `twice`
        see step 3 there.
        """
        volume, moment, points = Fraction(0), [Fraction(0)] * 3, list[Vector]()
        for own, side, (ends, faces) in zip(
            self.surfaces, self.sides, map(self._crossing_corners, range(2)), strict=True
        ):
            # Find the sign and the parameter t of each crossing of an edge, and its point.
            crossed = dict[int, list[tuple[int, Fraction]]]()
            for n, edge in enumerate(side.edges.tolist()):
                (p, q), (a, b, c) = vectors(ends[n]), vectors(faces[n])
                normal = cross_of(minus_of(b, a), minus_of(c, a))
                f, g = (dot_of(minus_of(x, a), normal) for x in (p, q))
                t = f / (f - g)
                crossed.setdefault(edge, []).append((int(side.signs[n]), t))
                points.append([x + t * (y - x) for x, y in zip(p, q, strict=True)])
            # Add the fan of each face a, b, c around a, over the edge b c.
            across = own.first_of_edge[1::3]
            inside = (side.depths[own.point_ids[:, 2]] != 0) | np.isin(across, list(crossed))
            for i in np.flatnonzero(inside & (own.outward != 0)).tolist():
                edge = int(across[i])
                end = int(side.depths[own.point_ids[edge // 3, (edge % 3 + 1) % 3]])
                cuts = crossed.get(edge, [])
                share, twice = (end - sum(sign * t**k for sign, t in cuts) for k in (1, 2))
                if own.point_ids[edge // 3, edge % 3] != own.point_ids[i, 1]:
                    # The edge runs from c to b: exchange t and 1 - t.
                    twice = 2 * share - twice
                a, b, c = vectors(own.corners[i])
                weight = int(own.outward[i]) * dot_of(a, cross_of(b, c))
                volume += weight * share
                for k in range(3):
                    moment[k] += weight * (share * (a[k] + 2 * b[k]) + twice * (c[k] - b[k]))
        # Add the fans of each segment p q around the first corners of both its faces; the second
        # counts negative, as the boundary of that face's part runs from q to p.
        pairs, both = self._segments
        for (i, j), (start, end) in zip(pairs.tolist(), both.tolist(), strict=True):
            p, q = points[start], points[end]
            normal = cross_of(p, q)
            for sign, corner in (
                (1, self.surfaces[0].corners[i, 0]), (-1, self.surfaces[1].corners[j, 0])
            ):  # fmt: skip
                (a,) = vectors(corner[None])
                weight = sign * dot_of(a, normal)
                volume += weight
                for k in range(3):
                    moment[k] += weight * (a[k] + p[k] + q[k])
        if volume == 0:
            return 0.0, np.full(3, np.nan)
        return nearest(volume / 6), np.array([nearest(m / (4 * volume)) for m in moment])
