"""How deep two solids are in each other: by points of one inside the other, and by their edges."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import hypot
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input, number_of
from bvh.runtime.caller_warnings import warn_caller
from bvh.surfaces.cells import Solid, cells_at, middle, size_of
from bvh.surfaces.exact_faces import (
    Face,
    Point,
    between,
    cross,
    exact_face,
    exact_point,
    heights_over,
    minus,
    normal_of,
    rounded,
)
from bvh.surfaces.pair_signs import SIDES, SIGNS, pair_signs
from bvh.surfaces.relations import NAMES, Surface, have_same_faces, relation_of

Reals = NDArray[np.float64]


# Of the length of an edge: more than the error of where it enters a box.
SLACK = 1e-9


class Deepest(NamedTuple):
    """The deepest place: a point, or the end of a part of an edge."""

    depth: float
    point: Reals
    direction: Reals
    prim_id: tuple[int, int]
    own: bool  # whether the point, or the edge, is of the first solid
    pierces: bool


# Of the size of two solids: a depth below it is due to the rounding of middles of faces.
NOISE = 2.0**-40

NOTHING = Deepest(0.0, np.full(3, np.nan), np.full(3, np.nan), (-1, -1), False, False)


def deepest_of(own: Surface, other: Surface, threads: int) -> Deepest:
    """Return the deepest place of two solids in each other; of equal ones that of the first."""
    found = NOTHING
    sides = (own, other), (other, own)
    for step in (_deepest_vertex, _deepest_middle, _longest_part):
        for side, (a, b) in enumerate(sides):
            place = step(a, b, side, threads)
            if place.depth > found.depth:
                # Unlike vertices and edges, middles are rounded, and may be inside for that alone.
                if step is _deepest_middle and found.depth == 0.0:
                    if relation_of(own, other, threads) in NAMES[:2]:
                        return NOTHING
                found = place
        if step is not _deepest_vertex and found.depth > 0.0:
            break
    return found


def warn_of_coincident(count: int, of: int) -> None:
    """Warn that some of the pairs of solids are (nearly) in the same place."""
    if count:
        warn_caller(
            f"penetration: {count} of {number_of(of, 'pairs')} of solids (nearly) coincide: "
            "vertices and middles of faces of one lie in the surface of the other, so that the "
            "depth says nothing about how far they overlap"
        )


def coincide(own: Surface, other: Surface, found: Deepest) -> bool:
    """Return whether solids are (nearly) in the same place, so that their depth tells nothing."""
    if found.depth == 0.0:
        return have_same_faces(own.solid.corners, other.solid.corners)
    first, second = own.tree.bounds, other.tree.bounds
    noise = NOISE * float(np.abs(first).max())
    return found.depth < noise and bool((np.abs(first - second) < noise).all())


def _deepest_vertex(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the vertex that is deepest inside of another solid."""
    corners = own.solid.corners
    faces = np.repeat(np.arange(len(corners)), 3)
    return _deepest_point(corners.reshape(-1, 3), faces, other, side, threads)


def _deepest_middle(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the middle of a face that is deepest inside of another solid."""
    corners = own.solid.corners
    return _deepest_point(corners.mean(axis=1), np.arange(len(corners)), other, side, threads)


def _deepest_point(
    points: Reals, faces: NDArray[np.int64], other: Surface, side: int, threads: int
) -> Deepest:
    """Return the point of a surface that is deepest inside of another solid."""
    low, high = other.tree.bounds
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    found = other.solid.are_inside(points[near], threads)
    # Points on the surface have depth 0.
    near, sure = near[found != 0], found[found != 0] > 0
    if len(near) == 0:
        return NOTHING
    closest = other.tree.closest_point(points[near], threads=threads)
    depths = closest.distance.copy()
    k = int(depths.argmax())
    while depths[k] > 0.0 and not (sure[k] or other.tree.contains(points[near[k]])):
        depths[k] = 0.0
        k = int(depths.argmax())
    depth, point = float(depths[k]), points[near[k]]
    if depth == 0.0:
        return NOTHING
    ids = int(faces[near[k]]), int(closest.prim_id[k])
    way = (closest.position[k] - point) / depth
    return Deepest(depth, point, way, ids if side == 0 else ids[::-1], side == 0, False)


def _longest_part(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the longest part of an edge that is inside of another solid."""
    # No vertex is inside, so that such a part is between two places where the edge meets a face.
    best, rng = NOTHING, np.random.default_rng(0)
    for edge, most, faces in _edges_that_meet(own, other, threads):
        if most <= best.depth:
            break
        if own.is_flat(edge):
            continue
        corners = own.solid.corners[edge // 3]
        ends = exact_point(corners[edge % 3].tolist()), exact_point(corners[edge % 3 - 2].tolist())
        for start, end, face in _parts_inside(other.solid, ends, faces, rng):
            v, w = start[3], end[3]
            way = np.array([(end[k] * v - start[k] * w) / (v * w) for k in range(3)])
            depth = hypot(*way.tolist())
            if depth > best.depth:
                ids = edge // 3, face
                best = Deepest(
                    depth, np.array(rounded(start)), way / depth, ids if side == 0 else ids[::-1],
                    side == 0, True,
                )  # fmt: skip
    return best


def _edges_that_meet(
    own: Surface, other: Surface, threads: int
) -> Iterator[tuple[int, float, list[int]]]:
    """Yield edges, bounds of their parts in the box of another solid, and the faces that they meet.

    Each edge once, from the largest bound on.
    """
    pairs = own.tree.overlap_tree(other.tree, threads=threads)
    corners = own.solid.corners
    signs = np.empty((len(pairs), SIGNS), np.int8)
    pair_signs(kernel_input(corners), kernel_input(other.solid.corners), pairs, signs)
    edges, faces = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for k in range(3):
        first, second = signs[:, k], signs[:, (k + 1) % 3]
        passed = signs[:, SIDES + 3 * k : SIDES + 3 * k + 3]
        # In the plane of a face, or from one side of it to the other within its edges.
        flat = (first == 0) & (second == 0)
        meets = flat | ((first * second <= 0) & ~((passed.min(1) < 0) & (passed.max(1) > 0)))
        edges.append(3 * pairs[meets, 0].astype(np.int64) + k)
        faces.append(pairs[meets, 1])
    found, walls = np.concatenate(edges), np.concatenate(faces)
    # An edge belongs to several faces, all of which meet what it meets.
    once = own.first_of_edge[found] == found
    found, walls = found[once], walls[once]
    starts = corners.reshape(-1, 3)
    ways = np.roll(corners, -1, axis=1).reshape(-1, 3) - starts
    chosen = np.unique(found)
    with np.errstate(all="ignore"):
        ends = (other.tree.bounds[:, None] - starts[chosen]) / ways[chosen]
        enter = np.nan_to_num(ends.min(axis=0), nan=0.0).max(axis=1, initial=0.0)
        leave = np.nan_to_num(ends.max(axis=0), nan=1.0).min(axis=1, initial=1.0)
        share = np.minimum(leave - enter + SLACK, 1.0)
        bounds = np.linalg.norm(ways[chosen], axis=1) * np.where(share > 0.0, share, 0.0)
    order = np.argsort(found, kind="stable")
    found, walls = found[order], walls[order]
    for k in np.argsort(-bounds, kind="stable").tolist():
        edge = int(chosen[k])
        span = slice(*np.searchsorted(found, [edge, edge + 1]).tolist())
        yield edge, float(bounds[k]), walls[span].tolist()


def _parts_inside(
    solid: Solid, ends: tuple[Point, Point], faces: list[int], rng: np.random.Generator
) -> Iterator[tuple[Point, Point, int]]:
    """Yield the parts of an edge that are inside of a solid, and the face at which each begins."""
    cuts: dict[Fraction, int] = {}
    covers: list[tuple[Fraction, Fraction, bool]] = []
    for number in faces:
        face = exact_face(solid.corners[number].tolist())
        shared, is_border = _shared(face, ends)
        for share in shared:
            cuts.setdefault(share, number)
        if len(shared) == 2:
            covers.append((shared[0], shared[1], is_border))
    start: Fraction | None = None
    shares = sorted(cuts)
    for a, b in pairwise(shares):
        p, q = between(*ends, a), between(*ends, b)
        over = [is_border for first, last, is_border in covers if first <= a and b <= last]
        # In one face alone: one of its sides is outside.
        inside = over != [False] and _is_inside(solid, p, q, rng)
        if inside and start is None:
            start = a
        if start is not None and (not inside or b == shares[-1]):
            yield between(*ends, start), q if inside else p, cuts[start]
            start = None


def _shared(face: Face, ends: tuple[Point, Point]) -> tuple[list[Fraction], bool]:
    """Return the shares of a segment at which it meets a face, and if these are a border's.

    One share where it meets the plane of the face there; where it is in the plane, the two between
    which it is in the face, if any.
    """
    normal, (start, end) = normal_of(face), ends

    def at(direction: tuple[int, int, int], origin: Point) -> tuple[int, int]:
        f, g = heights_over(direction, origin, ends)
        return f * end[3], g * start[3]

    f, g = at(normal, face[0])
    if f != g:
        return [Fraction(f, f - g)], False
    low, high, is_border = Fraction(0), Fraction(1), False
    for k in range(3):
        f, g = at(cross(normal, minus(face[(k + 1) % 3], face[k])), face[k])
        is_border |= f == g == 0
        if f < 0 and g < 0:
            return [], False
        if f < 0 or g < 0:
            share = Fraction(f, f - g)
            low, high = (max(low, share), high) if f < 0 else (low, min(high, share))
    return ([low, high] if low < high else [low] if low == high else []), is_border


def _is_inside(solid: Solid, p: Point, q: Point, rng: np.random.Generator) -> bool:
    """Return whether all cells around a segment, which meets no face in a point, are inside."""
    cells = None
    while cells is None:
        cells = cells_at([solid], middle(p, q, rng), minus(q, p), size_of((p, q)), rng)
    return all(inside for (inside,) in cells)
