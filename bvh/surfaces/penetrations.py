"""How deep two solids are in each other: by points of one inside the other, and by their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import hypot
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from bvh.geometry.arithmetic.rational import Row, between, exact_point, rounded
from bvh.runtime.arguments import kernel_input, number_of
from bvh.runtime.caller_warnings import warn_caller
from bvh.surfaces.cells import Segment, cells_along
from bvh.surfaces.contacts import Pairs
from bvh.surfaces.pair_signs import SIDES, SIGNS, pair_signs
from bvh.surfaces.relations import NAMES, relation_of, shares_met
from bvh.surfaces.surface import Reals, Surface, have_same_faces

# More than the error of the share of an edge at which it enters a box.
SLACK = 1e-9


class Deepest(NamedTuple):
    """The deepest place: a point, or the start of a part of an edge that is inside."""

    depth: float  # the distance from the other surface, or the length of the part
    point: Reals
    direction: Reals  # from the point to the nearest one of the other surface, or along the part
    prim_id: tuple[int, int]  # a face of the first solid and one of the second
    own: bool  # whether the point, or the edge, is of the first solid
    pierces: bool  # whether it is a part of an edge


# A depth below this share of the coordinates is due to the rounding of middles of faces.
NOISE = 2.0**-40

NOTHING = Deepest(0.0, np.full(3, np.nan), np.full(3, np.nan), (-1, -1), False, False)


def deepest_of(
    first: Surface, second: Surface, find_pairs: Callable[[], Pairs], threads: int
) -> Deepest:
    """Return the deepest place of two solids in each other; of equal ones that of the first.

    Parts of edges count only if no vertex or middle is inside. `find_pairs` finds faces that meet.
    """
    depth, sides = itemgetter(0), ((first, second, 0), (second, first, 1))
    vertex, middle = (
        max((_deepest_point(*side, middles, threads) for side in sides), key=depth)
        for middles in (False, True)
    )
    find_pairs = cache(find_pairs)
    if vertex.depth > 0.0:
        return max(vertex, middle, key=depth)
    if middle.depth > 0.0:
        # Unlike vertices and edges, middles are rounded, and may be inside for that alone.
        apart = relation_of(first, second, find_pairs) in NAMES[:2]
        return NOTHING if apart else middle
    return max((_longest_part(*side, find_pairs()) for side in sides), key=depth)


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
        return have_same_faces(own, other)
    first, second = own.bounds, other.bounds
    noise = NOISE * float(np.abs(first).max())
    return found.depth < noise and bool((np.abs(first - second) < noise).all())


def _deepest_point(own: Surface, other: Surface, side: int, middles: bool, threads: int) -> Deepest:
    """Return the vertex, or middle of a face, that is deepest inside another solid, or NOTHING.

    `side` is 0 if `own` is the first solid, 1 for the second.
    """
    points = own.corners.mean(axis=1) if middles else own.corners.reshape(-1, 3)
    low, high = other.bounds
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    inside = other.are_inside(points[near], threads)
    # Undecided points (-1) may be inside, too. Points on the surface have depth 0.
    near, sure = near[inside != 0], inside[inside != 0] > 0
    if len(near) == 0:
        return NOTHING
    closest = other.tree.closest_point(points[near], threads=threads)
    depths = closest.distance.copy()
    k = int(depths.argmax())
    # Decide those that would be deepest.
    while depths[k] > 0.0 and not (sure[k] or other.tree.contains(points[near[k]])):
        depths[k] = 0.0
        k = int(depths.argmax())
    depth, point = float(depths[k]), points[near[k]]
    if depth == 0.0:
        return NOTHING
    ids = int(near[k]) // (1 if middles else 3), int(closest.prim_id[k])
    direction = (closest.position[k] - point) / depth
    return Deepest(depth, point, direction, ids if side == 0 else ids[::-1], side == 0, False)


def _longest_part(own: Surface, other: Surface, side: int, pairs: Pairs) -> Deepest:
    """Return the longest part of an edge that is inside another solid."""
    # No vertex is inside, so that such a part is between two places where the edge meets a face.
    best, rng = NOTHING, np.random.default_rng(0)
    if side == 1:
        # Put the faces of `own` first and sort by them.
        pairs = pairs[np.lexsort(pairs.T), ::-1]
    for edge, most, faces in _edges_that_meet(own, other, pairs):
        if most <= best.depth:
            break
        if own.is_flat(edge):
            continue
        # Edge 3 i + k leads from corner k of face i to the next one; k - 2 is the index of that.
        corners = own.corners[edge // 3]
        ends = exact_point(corners[edge % 3].tolist()), exact_point(corners[edge % 3 - 2].tolist())
        for start, end, face in _parts_inside(other, ends, faces, rng):
            v, w = start[3], end[3]
            along = np.array([(end[k] * v - start[k] * w) / (v * w) for k in range(3)])
            depth = hypot(*along.tolist())
            if depth > best.depth:
                ids = edge // 3, face
                best = Deepest(
                    depth, np.array(rounded(start)), along / depth,
                    ids if side == 0 else ids[::-1], side == 0, True,
                )  # fmt: skip
    return best


def _edges_that_meet(
    own: Surface, other: Surface, pairs: Pairs
) -> Iterator[tuple[int, float, list[int]]]:
    """Yield edges, bounds of their parts in the box of another solid, and the faces that they meet.

    Edge 3 i + k is edge k of face i. Each edge comes once, those of the largest bounds first.
    """
    corners = own.corners
    signs = np.empty((len(pairs), SIGNS), np.int8)
    pair_signs(corners, other.corners, kernel_input(pairs), signs)
    edges, faces = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for k in range(3):
        first, second = signs[:, k], signs[:, (k + 1) % 3]
        passed = signs[:, SIDES + 3 * k : SIDES + 3 * k + 3]
        # An edge may meet a face if it is in its plane, or leads from one side of it to the other
        # and passes its edges on one side.
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
    # The slab test of the edges with the box. NaN, of an edge in a plane of it, does not limit.
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


def _parts_inside(
    other: Surface, ends: Segment, faces: list[int], rng: np.random.Generator
) -> Iterator[tuple[Row, Row, int]]:
    """Yield (start, end, face at the start) of the parts of an edge that are inside a solid."""
    # Cut the edge at the shares (`shares_met`) where it meets faces; `covers` are parts in a face.
    cuts: dict[Fraction, int] = {}
    covers: list[tuple[Fraction, Fraction, bool]] = []
    for k in faces:
        shares, is_border = shares_met(other.face(k), ends)
        for share in shares:
            cuts.setdefault(share, k)
        if len(shares) == 2:
            covers.append((shares[0], shares[1], is_border))
    begin: Fraction | None = None
    shares = sorted(cuts)
    points = [between(*ends, *share.as_integer_ratio()) for share in shares]
    for (a, p), (b, q) in pairwise(zip(shares, points, strict=True)):
        over = [is_border for first, last, is_border in covers if first <= a and b <= last]
        # A part in one face alone, and not along its border, has the outside on one side.
        inside = over != [False] and all(cell[0] for cell in cells_along([other], (p, q), rng))
        if inside and begin is None:
            begin, start = a, p
        if begin is not None and (not inside or b == shares[-1]):
            yield start, q if inside else p, cuts[begin]
            begin = None
