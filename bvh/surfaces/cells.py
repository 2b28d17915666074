"""Cells around a point, and at contacts of two surfaces: which sides of closed surfaces meet there.

A point is inside a closed surface if a ray from it crosses the surface an odd number of times. Near
a point of a segment in which faces meet, the planes of the faces through it divide space into
wedges, sorted around the segment by exact signs. One of them is decided by a nearby double: by a
ray from there, and by the faces between it and the point, in rational numbers. The others follow,
as each face between two wedges is one more crossing.

Where the surfaces do not meet themselves, signs of the faces in contact decide nearly all cells;
the other pairs of faces are returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from math import hypot, inf

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import (
    Face,
    Row,
    between,
    cross,
    dot,
    dots,
    doubles_near,
    minus,
    rounded,
    times,
)
from bvh.runtime.arguments import kernel_input
from bvh.surfaces.pair_signs import (
    IN_BOTH,
    IN_FIRST,
    IN_SECOND,
    SIDES,
    SIGNS,
    cells_at_contacts,
    pair_signs,
)
from bvh.surfaces.surface import Reals, Surface

Cell = tuple[bool, ...]  # inside each surface
Segment = tuple[Row, Row]

# A half-plane of a face, bounded by the segment: (side, x, y, surface). (x, y) is its direction
# (see `_across`); side is 1 if that is to the left of the direction at which the turn around the
# segment starts, -1 to the right; surface is the index of the face's surface.
Wall = tuple[int, int, int, int]

Pairs = NDArray[np.int32]
Flags = NDArray[np.bool_]
Surfaces = tuple[Surface, Surface]
BOTH, FIRST, SECOND = (True, True), (True, False), (False, True)

# More than the error of the share of an edge, from 0 to 1, at which it enters a box.
SLACK = 1e-9


def cells_at(
    surfaces: Sequence[Surface], m: Row, axis: Row, size: float, rng: np.random.Generator
) -> set[Cell] | None:
    """Return the cells around point m of a segment along `axis`, or None if m is special.

    A point is special where a face crosses the segment, at a corner of a face, and in an edge that
    is not along the segment. m is a homogeneous point, `axis` a vector of integers (see
    `rational`), and `size` about the size of the faces. A `Cell` tells for each surface whether the
    cell is inside.
    """
    at = np.array(rounded(m))
    low, high = np.nextafter(at, -np.inf), np.nextafter(at, np.inf)
    lengths = [abs(x) for x in axis]
    drop = lengths.index(max(lengths))
    half_planes: list[tuple[int, int, int]] = []  # (x, y, surface) as in `Wall`
    for which, surface in enumerate(surfaces):
        for face in surface.faces_at(low, high):
            directions = wings(face, m, axis)
            if directions is None:
                return None
            for v in directions:
                half_planes.append((*_across(v, axis, drop), which))
    # Try doubles until the cell at one of them is decided.
    for q, start in doubles_near(m, size, rng):
        x, y = _across(minus(start, m), axis, drop)
        walls: list[Wall] = []
        for a, b, which in half_planes:
            turn = x * b - y * a
            walls.append((1 if turn > 0 else -1 if turn < 0 else 0, a, b, which))
        # Try another double if this one is on the line of the segment or in the plane of a wall.
        if (x == 0 and y == 0) or 0 in [wall[0] for wall in walls]:
            continue
        inside = [surface.is_inside_before(q, start, m) for surface in surfaces]
        if None in inside:
            continue
        # Go around the segment: each wall changes the side of its surface. Walls with the same
        # direction have no cell between them.
        cell = list(map(bool, inside))
        cells = {tuple(cell)}
        walls.sort(key=cmp_to_key(_order))
        for i, wall in enumerate(walls):
            cell[wall[3]] = not cell[wall[3]]
            if i + 1 == len(walls) or _order(wall, walls[i + 1]) != 0:
                cells.add(tuple(cell))
        return cells
    raise ArithmeticError("two surfaces are too close to the largest or smallest doubles")


def _across(v: Row, axis: Row, drop: int) -> tuple[int, int]:
    """Return two coordinates of a vector projected along `axis`, times a positive number.

    The third coordinate, `drop`, in which the axis is not 0, is left out.
    """
    i, j = (drop + 1) % 3, (drop + 2) % 3
    along, height = abs(axis[drop]), v[drop] if axis[drop] > 0 else -v[drop]
    return v[i] * along - height * axis[i], v[j] * along - height * axis[j]


def _order(a: Wall, b: Wall) -> int:
    """Compare two walls around the segment, counter-clockwise: < 0 if a is first, 0 if equal.

    Walls to the left of the start come first; walls on one side of it are compared by the cross
    product of their directions.
    """
    return b[0] - a[0] or a[2] * b[1] - a[1] * b[2]


def wings(face: Face, m: Row, axis: Row) -> list[Row] | None:
    """Return the directions in which a face extends from a line through m along `axis`, near m.

    There are two if the line runs through the inside of the face, one if it runs along an edge,
    and none if m is not in the face. The result is None where the line crosses the face, and if m
    is a corner of it or in an edge that is not along the line.
    """
    if not face.has_area or dot(face.plane, m) != 0:
        return []
    heights = dots(m, face.sides)
    if min(heights) < 0:
        return []
    if dot(face.plane, axis) != 0 or heights.count(0) > 1:
        return None
    if 0 not in heights:
        across = cross(face.plane, axis)
        return [across, times(-1, across)]
    # The edge that m is on is along the axis if its inward normal, in the face, is perpendicular.
    inward = face.sides[heights.index(0)]
    return None if dot(inward, axis) != 0 else [inward[:3]]


def cells_along(
    surfaces: Sequence[Surface], ends: Segment, rng: np.random.Generator, size: float = inf
) -> set[Cell]:
    """Return the cells around a segment that no face crosses or ends in, by a random point of it.

    `ends` are homogeneous points. `size` is about the size of the faces there; more than the length
    of the segment has no effect.
    """
    axis, size = minus(ends[1], ends[0]), min(size, length_of(ends))
    while True:
        cells = cells_at(surfaces, random_point(*ends, rng), axis, size, rng)
        if cells is not None:
            return cells


def random_point(a: Row, b: Row, rng: np.random.Generator) -> Row:
    """Return a random homogeneous point of the segment a, b, at 1/4 to 3/4 of it."""
    return between(a, b, int(rng.integers(1 << 19, 3 << 19)), 1 << 21)


def length_of(ends: Segment) -> float:
    """Return the distance of two homogeneous points, rounded."""
    p, q = map(rounded, ends)
    return hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2])


def signs_of(surfaces: Surfaces, pairs: Pairs) -> NDArray[np.int8]:
    """Return the signs (n, SIGNS) of pairs (n, 2) of faces of two surfaces, see `pair_signs`."""
    return signs_of_corners(surfaces[0].corners, surfaces[1].corners, pairs)


def signs_of_corners(first: Reals, second: Reals, pairs: Pairs) -> NDArray[np.int8]:
    """Return the signs (n, SIGNS) of pairs (n, 2) of faces, given by their corners (m, 3, 3)."""
    signs = np.empty((len(pairs), SIGNS), np.int8)
    pair_signs(kernel_input(first), kernel_input(second), kernel_input(pairs), signs)
    return signs


def share_more_than_a_corner(signs: NDArray[np.int8]) -> Flags:
    """Return (n,) False for pairs of faces that share at most a corner of one, by `pair_signs`.

    That corner is in the plane of the other face, and both other corners are on one side of it.
    """
    # Of the corners' sides, two are then not 0, and equal.
    sides = signs[:, :SIDES].reshape(-1, 2, 3)
    corner = (np.abs(sides).sum(axis=2) == 2) & (np.abs(sides.sum(axis=2)) == 2)
    return np.asarray(~corner.any(axis=1))


def cross_properly(signs: NDArray[np.int8]) -> Flags:
    """Return (n,) whether an edge of one face crosses the inside of the other, by `pair_signs`."""
    edges = signs[:, SIDES:].reshape(-1, 3, 3)
    found = np.zeros(len(signs), np.bool_)
    # An edge of the second face crosses the first if it passes all three edges on one side (a sum
    # of 3 or -3), and its ends are on different sides of that face's plane; then the reverse.
    for passing, sides in ((edges, signs[:, 3:SIDES]), (edges.swapaxes(1, 2), signs[:, :3])):
        through = np.abs(passing.sum(axis=1)) == 3
        found |= (through & (sides * np.roll(sides, -1, axis=1) < 0)).any(axis=1)
    return found


def contact_cells(
    surfaces: Surfaces, pairs: Pairs, met: tuple[Flags, Flags]
) -> tuple[set[Cell], Pairs]:
    """Return kinds of cells at contacts, and the pairs (k, 2) of faces that signs do not decide.

    Faces of either surface must meet at common corners and edges only. `met` has an array (m,) for
    each surface, in which the first faces of pieces in contact become True. The search stops once
    all kinds are found; otherwise only the returned pairs may have further ones.

    Cells at a segment that two faces share are wedges between half-planes: of the two faces or,
    where the segment is along an edge, of both faces of that edge. `Joints.outward` says which side
    of each face is outside, and so which wedges are inside which solid.
    """
    undecided = np.zeros(len(pairs), np.bool_)
    same = [np.zeros(len(flags), np.bool_) for flags in met]
    found = cells_at_contacts(
        surfaces[0].joints, surfaces[1].joints, kernel_input(pairs), *met, *same, undecided
    )
    bits = {IN_BOTH: BOTH, IN_FIRST: FIRST, IN_SECOND: SECOND}
    return {cell for bit, cell in bits.items() if found & bit}, pairs[undecided]


def edges_that_meet(
    own: Surface, other: Surface, pairs: Pairs
) -> Iterator[tuple[int, float, list[int]]]:
    """Yield (edge, bound, faces) of edges of `own` that may meet faces of another solid.

    Edge 3 i + k is edge k of face i. `bound` is at least the length of the edge's part in the box
    of the other solid, `faces` are the faces of that solid which the edge may meet. Each edge comes
    once, the largest bounds first. `pairs` (n, 2) are all pairs of a face of `own` and one that it
    meets.
    """
    corners = own.corners
    signs = signs_of_corners(corners, other.corners, pairs)
    edges, faces = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for k in range(3):
        first, second = signs[:, k], signs[:, (k + 1) % 3]
        passed = signs[:, SIDES + 3 * k : SIDES + 3 * k + 3]
        # An edge may meet a face if it is in the face's plane, or leads from one side of the plane
        # to the other and passes all edges of the face on one side.
        flat = (first == 0) & (second == 0)
        meets = flat | ((first * second <= 0) & ~((passed.min(1) < 0) & (passed.max(1) > 0)))
        edges.append(3 * pairs[meets, 0].astype(np.int64) + k)
        faces.append(pairs[meets, 1])
    meeting, met = np.concatenate(edges), np.concatenate(faces)
    # An edge belongs to several faces, all of which meet what it meets: keep the first.
    once = own.first_of_edge[meeting] == meeting
    meeting, met = meeting[once], met[once]
    starts = corners.reshape(-1, 3)
    vectors = np.roll(corners, -1, axis=1).reshape(-1, 3) - starts
    chosen = np.unique(meeting)
    # The slab test of edges with the box. NaN, of an edge in a plane of the box, does not limit.
    with np.errstate(all="ignore"):
        ends = (other.bounds[:, None] - starts[chosen]) / vectors[chosen]
        enter = np.nan_to_num(ends.min(axis=0), nan=0.0).max(axis=1, initial=0.0)
        leave = np.nan_to_num(ends.max(axis=0), nan=1.0).min(axis=1, initial=1.0)
        share = np.minimum(leave - enter + SLACK, 1.0)
        bounds = np.linalg.norm(vectors[chosen], axis=1) * np.where(share > 0.0, share, 0.0)
    order = np.argsort(meeting, kind="stable")
    meeting, met = meeting[order], met[order]
    for k in np.argsort(-bounds, kind="stable").tolist():
        edge = int(chosen[k])
        span = slice(*np.searchsorted(meeting, [edge, edge + 1]).tolist())
        yield edge, float(bounds[k]), met[span].tolist()
