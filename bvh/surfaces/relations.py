"""How two solids are related: disjoint, touching, overlapping, one inside the other, or equal.

The relation follows from which of four kinds of cells there are: in both solids, in one alone, in
the other alone, in neither. Each cell borders on one of the surfaces, so the cells around one point
of every segment in which faces meet, and of every piece of surface that meets nothing, are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import hypot

import numpy as np

from bvh.geometry.arithmetic.rational import (
    Face,
    Row,
    between,
    common,
    dot,
    dots,
    exact_point,
    minus,
    rounded,
)
from bvh.surfaces.cells import (
    BOTH,
    FIRST,
    SECOND,
    Cell,
    Flags,
    Pairs,
    Segment,
    Surfaces,
    cells_along,
    cells_at,
    contact_cells,
    cross_properly,
    edges_that_meet,
    random_point,
    share_more_than_a_corner,
    signs_of,
)
from bvh.surfaces.numbering import come_in_pairs, row_ranks
from bvh.surfaces.surface import Reals, Surface, Whole

# Once cells of all these kinds are found, the solids overlap.
ALL_KINDS = {BOTH, FIRST, SECOND}
# The pairs that are searched for proper crossings first, and the most crossings that are examined.
SAMPLE, CROSSINGS = 512, 8
NAMES = ("disjoint", "touching", "overlapping", "inside", "contains", "equal")


def relation_of(first: Surface, second: Surface, find_pairs: Callable[[], Pairs]) -> str:
    """Return how the first solid is related to the second, one of NAMES.

    `find_pairs` returns all pairs (n, 2) of their faces that meet.
    """
    if have_same_faces(first, second) or bound_one_solid(first, second):
        return NAMES[5]
    surfaces, pairs = (first, second), find_pairs()
    if not len(pairs):
        return _name_of(_cells_of_pieces(surfaces, 0) | _cells_of_pieces(surfaces, 1), NAMES[0])
    if _are_separated(first.bounds, second.bounds):
        return NAMES[1]
    rng = np.random.default_rng(0)
    cells = _cells_at_crossings(surfaces, pairs, rng)
    if cells >= ALL_KINDS:
        return NAMES[2]
    if first.cancelled.any() or second.cancelled.any():
        pairs = pairs[~(first.cancelled[pairs[:, 0]] | second.cancelled[pairs[:, 1]])]
    # The pieces of each surface that share a segment with the other, or with their own surface.
    met = np.zeros(len(first.corners), np.bool_), np.zeros(len(second.corners), np.bool_)
    segments: dict[frozenset[Row], float] = {}
    # Where no surface meets itself, signs decide most pairs; `contact_cells` returns the others.
    clean = not (len(first.own_pairs) or len(second.own_pairs))
    if clean:
        kinds, pairs = contact_cells(surfaces, pairs, met)
        cells |= kinds
    pairs = pairs[share_more_than_a_corner(signs_of(surfaces, pairs))]
    for i, j in rng.permutation(pairs).tolist():
        if cells >= ALL_KINDS:
            return NAMES[2]
        for ends, size in _segments(first.face(i), second.face(j)):
            met[0][first.pieces[i]] = met[1][second.pieces[j]] = True
            key = frozenset(ends)
            if key not in segments:
                segments[key] = size
                cells |= cells_along(surfaces, ends, rng, size)
    # In surfaces that meet themselves, cells differ between parts of a segment that faces cut.
    if not clean:
        for which, surface in enumerate(surfaces):
            for i, j in surface.own_pairs.tolist():
                for ends, size in _segments(surface.face(i), surface.face(j)):
                    met[which][surface.pieces[[i, j]]] = True
                    segments[frozenset(ends)] = size
        for key, size in segments.items():
            start, end = key
            cells |= _cells_along_parts(surfaces, (start, end), size, rng)
    for which in range(2):
        if not cells >= ALL_KINDS:
            cells |= _isolated_cells(surfaces, which, met[which], rng)
    return _name_of(cells, NAMES[1])


def have_same_faces(first: Surface, second: Surface) -> bool:
    """Return whether two surfaces have the same faces, in any order and winding."""
    corners = [first.corners, second.corners]
    if first.digest != second.digest or not np.array_equal(first.hashes, second.hashes):
        return False
    point_ids = row_ranks(np.concatenate(corners).reshape(-1, 3)).reshape(2, -1, 3)
    both = [faces[np.lexsort(faces.T)] for faces in np.sort(point_ids, axis=2)]
    return np.array_equal(*both)


def bound_one_solid(first: Surface, second: Surface) -> bool:
    """Return True if two surfaces surely bound the same solid, though by other triangles.

    They do if an even number of all their faces cover almost every point, which is so for faces
    that come in pairs, and in a plane in which the edges of faces do: the border of what an odd
    number of faces cover would be edges in an odd number. Only planes across an axis are examined.
    """
    if not np.array_equal(first.bounds, second.bounds):
        return False
    axis = np.concatenate([first.axes, second.axes])
    flat = axis >= 0
    # Hashes usually tell that other faces do not come in pairs.
    hashes = np.concatenate([first.face_hashes, second.face_hashes])
    if np.bitwise_xor.reduce(hashes[~flat]):
        return False
    corners = np.concatenate([first.corners, second.corners])
    if not np.isfinite(corners).all():
        return False
    count = len(first.vertices)
    ranks = row_ranks(np.concatenate([first.vertices, second.vertices]))
    point_ids = np.concatenate([ranks[:count][first.faces], ranks[count:][second.faces]])
    if not come_in_pairs(np.sort(point_ids[~flat], axis=1).T):
        return False
    ends, axis = point_ids[flat], axis[flat]
    planes = row_ranks(np.stack([corners[flat, 0, axis], axis], 1))
    others = ends[:, [1, 2, 0]]
    low, high = np.minimum(ends, others), np.maximum(ends, others)
    if not come_in_pairs([low.ravel(), high.ravel(), np.repeat(planes, 3)]):
        return False
    # Solids without a volume are not equal.
    return any(inside is True for _, inside in first.points_on_both_sides(0))


def _name_of(cells: set[Cell], apart: str) -> str:
    """Return the relation of two solids by the kinds of cells that there are.

    `apart` is the result if no cell is in both: "disjoint" or "touching".
    """
    if BOTH not in cells:
        return apart
    # Without a cell in the first alone, the first is inside the second; without one in the second
    # alone, it contains the second; without both they are equal.
    return NAMES[2 + (FIRST not in cells) + 2 * (SECOND not in cells)]


def _are_separated(box: Reals, other: Reals) -> bool:
    """Return whether a plane across an axis separates two boxes (2, 3), which may touch it."""
    return bool(((box[1] <= other[0]) | (other[1] <= box[0])).any())


def _cells_at_crossings(surfaces: Surfaces, pairs: Pairs, rng: np.random.Generator) -> set[Cell]:
    """Return the cells around some proper crossings of faces, usually cells of all kinds."""
    cells: set[Cell] = set()
    sample = pairs[rng.choice(len(pairs), min(len(pairs), SAMPLE), replace=False)]
    for i, j in sample[cross_properly(signs_of(surfaces, sample))][:CROSSINGS].tolist():
        for ends, size in _segments(surfaces[0].face(i), surfaces[1].face(j)):
            cells |= cells_along(surfaces, ends, rng, size)
        if cells >= ALL_KINDS:
            break
    return cells


def _segments(a: Face, b: Face) -> list[tuple[Segment, float]]:
    """Return (ends, size) of the segments that bound what two faces share: a polygon or segment.

    `ends` are homogeneous points; `size` is that of the smaller face. A point has no segment.
    """
    if not (a.has_area and b.has_area):
        return []
    _, polygon = common(a, b)
    size, count = min(a.size, b.size), len(polygon)
    last = count if count > 2 else count - 1
    return [((polygon[k], polygon[(k + 1) % count]), size) for k in range(last)]


def shares_met(face: Face, ends: Segment) -> tuple[list[Fraction], bool]:
    """Return (shares, is_border): where a segment meets a face, and whether it is along its border.

    A share is 0 at the start and 1 at the end. If the segment is not parallel to the face, there is
    one share, where its line meets the plane, even if that is not in the face. If the segment is in
    the plane, there are the two shares between which it is in the face, or one, or none. If it is
    parallel to the plane, but not in it, they are those of its projection: callers have no such
    segment, or cut it there without harm.
    """
    start, end = ends

    def heights(plane: Row) -> tuple[int, int]:
        """Return the heights of both ends above a plane, times one positive factor."""
        # A product with a homogeneous point is its height times its weight, the fourth number.
        return dot(plane, start) * end[3], dot(plane, end) * start[3]

    f, g = heights(face.plane)
    if f != g:
        return [Fraction(f, f - g)], False
    low, high, is_border = Fraction(0), Fraction(1), False
    for side in face.sides:
        f, g = heights(side)
        is_border |= f == g == 0
        if f < 0 and g < 0:
            return [], False
        if f < 0 or g < 0:
            share = Fraction(f, f - g)
            low, high = (max(low, share), high) if f < 0 else (low, min(high, share))
    return ([low, high] if low < high else [low] if low == high else []), is_border


def _parts_inside(
    other: Surface, ends: Segment, faces: list[int], rng: np.random.Generator
) -> Iterator[tuple[Row, Row]]:
    """Yield (start, end), homogeneous points, of the parts of an edge that are inside a solid.

    `ends` are those of the edge, `faces` the ids of all faces of the solid that it may meet.
    """
    # Cut the edge at the shares (`shares_met`) where it meets faces. `covers` are its parts in a
    # face: (first share, last share, whether along the border of the face).
    cuts: set[Fraction] = set()
    covers: list[tuple[Fraction, Fraction, bool]] = []
    for k in faces:
        shares, is_border = shares_met(other.face(k), ends)
        cuts.update(shares)
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
            yield start, q if inside else p
            begin = None


def _is_flat(surface: Surface, edge: int, firsts: Whole, order: Whole) -> bool:
    """Return whether edge 3 i + k is of two faces in one plane, such as the diagonal of a quad.

    `order` has all edges sorted by `Surface.first_of_edge`, and `firsts` these numbers, ascending.
    """
    first = surface.first_of_edge[edge]
    begin, end = np.searchsorted(firsts, [first, first + 1])
    faces = [surface.face(int(e) // 3) for e in order[begin:end]]
    flat = not any(any(dots(faces[0].plane, face.corners)) for face in faces)
    return len(faces) == 2 and faces[0].has_area and flat


def longest_part(own: Surface, other: Surface, side: int, pairs: Pairs) -> float:
    """Return the length of the longest part of an edge of `own` that is inside another solid.

    `pairs` (n, 2) are all faces that meet; `side` is the column of those of `own`. No vertex of
    `own` may be inside: a part is then between two places where the edge meets a face.
    """
    best, rng = 0.0, np.random.default_rng(0)
    if side == 1:
        # Put the faces of `own` first and sort by them.
        pairs = pairs[np.lexsort(pairs.T), ::-1]
    order = np.argsort(own.first_of_edge, kind="stable")
    firsts = own.first_of_edge[order]
    for edge, most, faces in edges_that_meet(own, other, pairs):
        if most <= best:
            break
        if _is_flat(own, edge, firsts, order):
            continue
        # Edge 3 i + k leads from corner k of face i to the next one; k - 2 is the index of that.
        corners = own.corners[edge // 3]
        ends = exact_point(corners[edge % 3].tolist()), exact_point(corners[edge % 3 - 2].tolist())
        for start, end in _parts_inside(other, ends, faces, rng):
            v, w = start[3], end[3]
            best = max(
                best, hypot(*(float((end[k] * v - start[k] * w) / (v * w)) for k in range(3)))
            )
    return best


def _cells_along_parts(
    surfaces: Surfaces, ends: Segment, size: float, rng: np.random.Generator
) -> set[Cell]:
    """Return the cells around the parts of a segment into which all faces that it meets cut it.

    `ends` are homogeneous points; `size` is about that of the faces.
    """
    box = np.array([rounded(p) for p in ends])
    low, high = np.nextafter(box.min(axis=0), -np.inf), np.nextafter(box.max(axis=0), np.inf)
    cuts, cells = {Fraction(0), Fraction(1)}, set[Cell]()
    for surface in surfaces:
        for face in surface.faces_at(low, high):
            cuts.update(shares_met(face, ends)[0])
    for s, t in pairwise(sorted(share for share in cuts if 0 <= share <= 1)):
        part = between(*ends, *s.as_integer_ratio()), between(*ends, *t.as_integer_ratio())
        cells |= cells_along(surfaces, part, rng, size)
    return cells


def _isolated_cells(
    surfaces: Surfaces, which: int, met: Flags, rng: np.random.Generator
) -> set[Cell]:
    """Return the cells on both sides of pieces of surface `which` that share no segment.

    `met` is True for the first faces of pieces that share a segment with the other surface or with
    their own. The others may share points.
    """
    surface, cells = surfaces[which], set[Cell]()
    # Faces that overlap others of their surface are in `met`, and so are their pieces.
    for piece in surface.first_faces[~met[surface.first_faces]].tolist():
        for k in np.flatnonzero(surface.pieces == piece).tolist():
            around = _cells_of_face(surfaces, surface.face(k), rng)
            if around:
                cells |= around
                break
    return cells


def _cells_of_pieces(surfaces: Surfaces, which: int) -> set[Cell]:
    """Return the cells on both sides of surface `which`, 0 or 1, if it does not meet the other."""
    # All of each piece is inside the other surface, or all of it outside: test a corner of each.
    surface, other, cells = surfaces[which], surfaces[1 - which], set[Cell]()
    points = surface.corners[surface.first_faces, 0]
    inside = other.are_inside(points, 1)
    if (inside < 0).any():
        inside = other.tree.contains(points)
    for state in (False, True):
        pieces = surface.first_faces[inside == state]
        if len(pieces):
            cells |= _two_sided_cells(surfaces, which, pieces, state)
    return cells


def _two_sided_cells(surfaces: Surfaces, which: int, pieces: Whole, inside: bool) -> set[Cell]:
    """Return the cells on both sides of pieces of surface `which` that do not meet the other one.

    `pieces` are given by their first faces; `inside` tells whether all are inside the other
    surface. There are two cells if the pieces bound the solid anywhere; walls without thickness,
    such as of a face and its reverse, have one.
    """
    surface, other = surfaces[which], surfaces[1 - which]
    all_cells: set[Cell] = {((side, inside), (inside, side))[which] for side in (True, False)}
    # Usually float64 decides points on both sides of the first face; otherwise each face is
    # examined in rational numbers until both cells are found.
    nearby = surface.points_on_both_sides(int(pieces[0]))
    if {side for _, side in nearby} == {True, False}:
        if all(other.is_inside(q) == inside for q, _ in nearby):
            return all_cells
    rng, cells = np.random.default_rng(0), set[Cell]()
    faces = surface.unpaired(np.flatnonzero(np.isin(surface.pieces, pieces)))
    for k in faces.tolist():
        cells |= _cells_of_face(surfaces, surface.face(k), rng)
        if cells >= all_cells:
            return all_cells
    # Faces may be covered in part by faces of other shapes: examine their common segments, too.
    overlapping = np.isin(surface.own_pairs, faces).any(axis=1)
    for i, j in surface.own_pairs[overlapping].tolist():
        for ends, size in _segments(surface.face(i), surface.face(j)):
            cells |= _cells_along_parts(surfaces, ends, size, rng)
            if cells >= all_cells:
                return all_cells
    return cells


def _cells_of_face(surfaces: Surfaces, face: Face, rng: np.random.Generator) -> set[Cell]:
    """Return the cells on both sides of a random point of a face; none if it has no area."""
    a, b, c = face.corners
    while face.has_area:
        # Two random steps: along an edge, then towards the third corner.
        point = random_point(random_point(a, b, rng), c, rng)
        cells = cells_at(surfaces, point, minus(b, a), face.size, rng)
        if cells is not None:
            return cells
    return set()
