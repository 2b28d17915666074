"""Contacts of two surfaces: the kinds of cells at them, and pairs that signs do not decide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.surfaces.cells import Cell
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

Pairs = NDArray[np.int32]
Flags = NDArray[np.bool_]
Surfaces = tuple[Surface, Surface]
BOTH, FIRST, SECOND = (True, True), (True, False), (False, True)

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


def contact_cells(
    surfaces: Surfaces, pairs: Pairs, met: tuple[Flags, Flags]
) -> tuple[set[Cell], Pairs]:
    """Return kinds of cells at contacts, and the pairs of faces that signs do not decide.

    Faces of either surface must meet at common corners and edges only. Pieces in contact, by their
    first faces, are set in `met`. Where not all kinds are returned, there are no others at the
    contacts, but for those at the pairs.

    Along a segment that two faces share, space is cut into wedges by half-planes of faces. On which
    side of the other surface each half-plane is, is decided by one face or the two at an edge, as
    it is known which sides of faces are out of the solid.
    """
    undecided = np.zeros(len(pairs), np.bool_)
    found = cells_at_contacts(
        surfaces[0].joints, surfaces[1].joints, kernel_input(pairs), *met, undecided
    )
    bits = {IN_BOTH: BOTH, IN_FIRST: FIRST, IN_SECOND: SECOND}
    return {cell for bit, cell in bits.items() if found & bit}, pairs[undecided]


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
