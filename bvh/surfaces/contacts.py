"""Contacts of two surfaces: pairs of faces that have to be examined in rational numbers.

Where two solids touch along walls, or are revisions of one part, thousands of faces meet, and most
pairs of them repeat what others show. Signs and equal corners tell which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.predicates import AREA_ERROR, TINY
from bvh.runtime.arguments import kernel_input
from bvh.surfaces.pair_signs import SIDES, SIGNS, pair_signs
from bvh.surfaces.surface import Reals, Surface, Whole, connected, names_of

Pairs = NDArray[np.int32]
Flags = NDArray[np.bool_]
Surfaces = tuple[Surface, Surface]

# More than the error of the share of an edge at which it enters a box.
SLACK = 1e-9


def signs_of(surfaces: Surfaces, pairs: Pairs) -> NDArray[np.int8]:
    """Return the signs of pairs of faces, see `pair_signs`."""
    return signs_of_corners(surfaces[0].corners, surfaces[1].corners, pairs)


def signs_of_corners(first: Reals, second: Reals, pairs: Pairs) -> NDArray[np.int8]:
    """Return the signs of pairs of faces, given by their corners (m, 3, 3)."""
    signs = np.empty((len(pairs), SIGNS), np.int8)
    pair_signs(kernel_input(first), kernel_input(second), kernel_input(pairs), signs)
    return signs


def share_more_than_a_corner(signs: NDArray[np.int8]) -> Flags:
    """Return False for pairs of faces of which one touches the other with a corner only.

    That corner is in the plane of the other face, and the other two are on one side of it.
    """
    sides = signs[:, :SIDES].reshape(-1, 2, 3)
    corner = (np.abs(sides).sum(axis=2) == 2) & (np.abs(sides.sum(axis=2)) == 2)
    return np.asarray(~corner.any(axis=1))


def cross_properly(signs: NDArray[np.int8]) -> Flags:
    """Return whether an edge of one face properly crosses the inside of the other."""
    edges = signs[:, SIDES:].reshape(-1, 3, 3)
    found = np.zeros(len(signs), np.bool_)
    # Edges of the second face and corners of it at the first one's plane, then the reverse.
    for passing, sides in ((edges, signs[:, 3:SIDES]), (edges.swapaxes(1, 2), signs[:, :3])):
        through = np.abs(passing.sum(axis=1)) == 3
        found |= (through & (sides * np.roll(sides, -1, axis=1) < 0)).any(axis=1)
    return found


class Contacts(NamedTuple):
    """Pairs of faces of two clean surfaces that must be examined.

    pairs : (n, 2) ids of faces.
    flat : (n,) whether both faces are in one plane.
    borders : (n, 2, 3) of faces in one plane, the edges that are borders of flat parts and may meet
        the other face; only along these must what they share be examined.
    kinds : (n, 2, 3) of these borders, a number for the kind of cells along them where they are
        inside the other part: equal for all borders of one part, in one other part, whose
        neighbouring faces are on the same side of the plane; -1 for others.
    equal : faces that are in both surfaces, as numbered in the first: one of each connected part of
        them, beside which cells are to be examined.
    in_both : for each surface, all faces that are in both.
    """

    pairs: Pairs
    flat: Flags
    borders: Flags
    kinds: Whole
    equal: list[int]
    in_both: tuple[list[int], list[int]]


def contacts(surfaces: Surfaces, pairs: Pairs) -> Contacts:
    """Return the contacts of two surfaces, in neither of which faces meet beyond their vertices.

    - Where all faces around an edge are in both surfaces, the surfaces coincide. The cells are the
      same along all such edges of a connected part, so that one point of it decides.
    - What two flat parts in one plane share is bounded by borders of the parts, not by edges inside
      them, such as diagonals.
    - Along the borders of one part that are inside another, cells differ only if the neighbouring
      faces are on different sides of the plane.
    """
    faces, rows = zip(*(np.unique(pairs[:, k], return_inverse=True) for k in (0, 1)), strict=True)
    corners = [s.corners[ids] for s, ids in zip(surfaces, faces, strict=True)]
    count = len(faces[0])
    names = names_of(np.concatenate(corners).reshape(-1, 3)).reshape(-1, 3)
    keys = names_of(np.sort(names, axis=1))
    in_both = np.isin(keys, np.intersect1d(keys[:count], keys[count:]))
    edges = names_of(np.sort(np.stack([names, np.roll(names, -1, 1)], 2), 2).reshape(-1, 2))
    # Edges at which there is a face of one surface alone. Faces of both that have other edges are
    # all in the pairs, as each touches its neighbours' equals.
    outer = np.zeros(edges.max() + 1, np.bool_)
    outer[edges[np.repeat(~in_both, 3)]] = True
    edges = edges.reshape(-1, 3)

    own, other = rows[0], rows[1] + count
    at = np.flatnonzero(in_both[own] & in_both[other])
    common = edges[own[at]][:, :, None] == edges[other[at]][:, None, :]
    shared_outer = (common & outer[edges[own[at]]][:, :, None]).any(axis=(1, 2))
    kept = np.delete(np.arange(len(pairs)), at[~shared_outer])
    pairs, own, other = pairs[kept], rows[0][kept], rows[1][kept]

    flat = ~signs_of(surfaces, pairs)[:, :SIDES].any(axis=1)
    areas = [_have_area(each) for each in corners]
    flat &= areas[0][own] & areas[1][other]
    edges_of = edges[:count], edges[count:]
    parts = [_flat_parts(*each) for each in zip(corners, edges_of, strict=True)]
    meet = ~np.array([parts[0].flat[own], parts[1].flat[other]]) & flat[:, None]
    for k, (a, b) in enumerate(((0, 1), (1, 0))):
        at = np.flatnonzero(meet[k].any(axis=1))
        ids = (own, other)[a][at], (own, other)[b][at]
        meet[k, at] &= ~_apart(corners[a][ids[0]], corners[b][ids[1]])
    kept = np.flatnonzero(~flat | meet.any(axis=(0, 2)))
    pairs, flat, meet, of = pairs[kept], flat[kept], meet[:, kept], (own[kept], other[kept])
    kinds = np.array([_kinds(corners, parts, of, meet[k], k) for k in range(2)])

    # One face of each part of faces of both that other edges connect.
    shared = np.flatnonzero(in_both[:count])
    order = np.argsort(edges[shared].ravel(), kind="stable")
    ordered = edges[shared].ravel()[order]
    linked = (ordered[1:] == ordered[:-1]) & ~outer[ordered[1:]]
    part = connected(order[:-1][linked] // 3, order[1:][linked] // 3, len(shared))
    # Faces that may have no area come last, and do not stand for others.
    sure = areas[0][shared]
    order = np.argsort(~sure, kind="stable")
    chosen = order[np.unique(part[order], return_index=True)[1]]
    chosen = np.union1d(chosen, np.flatnonzero(~np.isin(part, part[sure])))
    return Contacts(
        pairs, flat, meet.swapaxes(0, 1), kinds.swapaxes(0, 1),
        faces[0][shared[chosen]].tolist(),
        (faces[0][in_both[:count]].tolist(), faces[1][in_both[count:]].tolist()),
    )  # fmt: skip


def _have_area(corners: Reals) -> Flags:
    """Return whether faces surely have an area."""
    return np.asarray(_projected_orientations(corners).any(axis=1))


def _projected_orientations(corners: Reals) -> NDArray[np.int8]:
    """Return the orientations (n, 3) of faces without either axis, 0 where rounding may decide."""
    without = [np.delete(corners, axis, axis=2) for axis in range(3)]
    return np.stack([_orientation(p[:, 0], p[:, 1], p[:, 2]) for p in without], axis=1)


class FlatParts(NamedTuple):
    """Flat parts of a surface: faces in one plane, connected by edges of two faces.

    number : (n,) the part of each face, by its first face.
    flat : (n, 3) whether an edge is inside a part.
    neighbour : (n, 3) the other face at an edge of two faces; -1 at others.
    """

    number: Whole
    flat: Flags
    neighbour: Whole


def _flat_parts(corners: Reals, edges: Whole) -> FlatParts:
    """Return the flat parts of faces that surely have areas; edges (n, 3) are numbered."""
    order = np.argsort(edges.ravel(), kind="stable")
    ordered = edges.ravel()[order]
    start = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    start = start[np.diff([*start, len(ordered)]) == 2]
    one, two = order[start], order[start + 1]
    neighbour = np.full(edges.size, -1)
    neighbour[one], neighbour[two] = two // 3, one // 3
    faces = np.stack([one, two], axis=1).astype(np.int32) // 3
    flat = ~signs_of_corners(corners, corners, faces)[:, :SIDES].any(axis=1)
    flat &= _have_area(corners)[faces].all(axis=1)
    inside = np.zeros(edges.size, np.bool_)
    inside[one[flat]] = inside[two[flat]] = True
    number = connected(one[flat] // 3, two[flat] // 3, len(corners))
    return FlatParts(number, inside.reshape(-1, 3), neighbour.reshape(-1, 3))


def _kinds(
    corners: list[Reals], parts: list[FlatParts], of: tuple[Whole, Whole], borders: Flags, k: int
) -> Whole:
    """Return the kinds of borders (n, 3) of the faces of surface k in pairs, see `Contacts`."""
    rows, edge = np.nonzero(borders)
    own, other = of[k][rows], parts[1 - k].number[of[1 - k][rows]]
    neighbour = parts[k].neighbour[own, edge]
    signs = signs_of_corners(
        corners[k],
        corners[1 - k],
        np.stack([np.maximum(neighbour, 0), other], axis=1).astype(np.int32),
    )
    # Two corners of the neighbour are in the plane of the other part.
    side = signs[:, :3].sum(axis=1)
    known = (neighbour >= 0) & (side != 0)
    keys = np.stack([parts[k].number[own], other, side], axis=1)
    kinds = np.full(borders.shape, -1)
    kinds[rows, edge] = np.where(known, 2 * names_of(keys) + k, -1)
    return kinds


def _apart(faces: Reals, others: Reals) -> Flags:
    """Return which edges (n, 3) of faces surely miss the other faces, pairs being in one plane.

    The other faces surely have areas.
    """
    # Leave out an axis along which no area is lost.
    axis = _projected_orientations(others).astype(np.bool_).argmax(axis=1)
    axes = np.stack([(axis + 1) % 3, (axis + 2) % 3], axis=1)[:, None]
    p, q = np.take_along_axis(faces, axes, 2), np.take_along_axis(others, axes, 2)
    low, high = np.minimum(p, np.roll(p, -1, 1)), np.maximum(p, np.roll(p, -1, 1))
    apart = (high < q.min(axis=1)[:, None]) | (low > q.max(axis=1)[:, None])
    apart = apart.any(axis=2)
    for k in range(3):
        a, b, c = q[:, k], q[:, (k + 1) % 3], q[:, (k + 2) % 3]
        inside, sides = _orientation(a, b, c), [_orientation(a, b, p[:, m]) for m in range(3)]
        for m in range(3):
            ends = sides[m], sides[(m + 1) % 3]
            apart[:, m] |= (ends[0] * inside < 0) & (ends[1] * inside < 0)
    return np.asarray(apart)


def _orientation(a: Reals, b: Reals, c: Reals) -> NDArray[np.int8]:
    """Return the orientation of triangles in a plane, as `orient2d`; 0 if its filter is unsure."""
    with np.errstate(all="ignore"):
        left = (a[:, 0] - c[:, 0]) * (b[:, 1] - c[:, 1])
        right = (a[:, 1] - c[:, 1]) * (b[:, 0] - c[:, 0])
        area, size = left - right, np.abs(left) + np.abs(right)
        sure = np.abs(area) > AREA_ERROR * size + TINY
        return np.where(sure, np.sign(area), 0.0).astype(np.int8)


def edges_that_meet(
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
