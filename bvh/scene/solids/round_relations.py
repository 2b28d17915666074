"""How a ball or a capsule is related to another, or to a closed mesh: by exact distances.

A ball or capsule is the set of points within a radius of its axis. So two distances from that axis
decide: that of the other solid's surface, and that of its farthest corner. They are compared with
radii, or sums and differences of these, in rational numbers where bounds in doubles do not suffice.
Several round shapes as one solid would need their union.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic.rational import pierces, scaled, square_between, square_to_edge
from bvh.geometry.transforms import moved
from bvh.queries.hierarchy import BVH
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.runtime.arguments import kernel_input, number_of, thread_count
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.scene.solids.round_instances import Nearest, PartPairs, Parts, axes_of, least_gap
from bvh.scene.solids.round_trees import maps_of
from bvh.scene.table import IDENTITY
from bvh.surfaces.surface import Surface
from bvh.tree.shapes import HOLLOW, shape_of

Reals = NDArray[np.float64]

# Larger than rounding errors of distances from axes, as a share of these and of coordinates.
SLACK = 2.0**-40
# The converse of a relation, that of the second solid to the first, where it is another one.
CONVERSE = {"inside": "contains", "contains": "inside"}


class Round(NamedTuple):
    """A ball or a capsule."""

    axis: Reals  # (3, 3): start, end and again the end, a triangle without area
    radius: float


Solid = Round | BVH


def relations(
    tree: BVH, other: BVH, transform: ArrayLike | None, threads: int | None,
    progress: ProgressLike | None,
) -> list[str]:  # fmt: skip
    """Return the relation of two trees for each transform (..., 4, 4) of `other`.

    At least one tree is over spheres or capsules. One thread decides; `threads` is only checked.
    """
    thread_count(threads)
    first, found = _solid_of("this tree", tree, IDENTITY), []
    maps = maps_of(other, transform).reshape(-1, 3, 4)
    with heard(progress) as report:
        for k, one in enumerate(maps):
            found.append(relation_of(first, _solid_of("other", other, one)))
            if report is not None:
                report(k + 1, len(maps))
    return found


def _solid_of(name: str, tree: Any, transform: Reals) -> Solid:
    """Return a tree moved by a map (3, 4) as a solid; ValueError, with `name`, if it is none."""
    shapes = tree._arrays.primitives
    if isinstance(shapes, HOLLOW):
        return round_of("relation", name, shapes, transform)
    must_bound_a_solid("relation", name, tree)
    if (transform == IDENTITY).all():
        return tree  # type: ignore[no-any-return]
    vertices = kernel_input(moved(tree.vertices, transform))
    return BVH.from_triangles(vertices, tree.faces, warn=False)


def round_of(query: str, name: str, shapes: Any, transform: Reals) -> Round:
    """Return the only one of spheres or capsules `shapes`, moved by `transform` (3, 4).

    ValueError if there are none, several, or one of radius 0: the message says that the method
    `query` needs one, and calls the shapes `name`.
    """
    shape = shape_of(shapes)
    _, _, is_valid = shape.bounds(shapes.points)
    points = shape.instances(shapes.points[is_valid], transform)
    # The last column is the radius.
    if len(points) != 1 or points[0, -1] == 0.0:
        kind = type(shapes).__name__.lower()
        held = number_of(len(points), kind) if len(points) != 1 else "the radius 0"
        raise ValueError(f"{query} needs one sphere or capsule a solid, but {name} has {held}")
    return Round(axes_of(points)[0], float(points[0, -1]))


def relation_of(first: Solid, second: Solid) -> str:
    """Return how the first solid is related to the second; at least one is a `Round`."""
    if isinstance(second, BVH):
        assert isinstance(first, Round)
        return _relation_to_mesh(first, second)
    if isinstance(first, Round):
        return _relation_of_rounds(first, second)
    found = _relation_to_mesh(second, first)
    return CONVERSE.get(found, found)


def nearest_parts(first: Solid, second: Solid, limit: float) -> Nearest | None:
    """Return the nearest parts of two solids, one a `Round`; None if none are within `limit`."""
    pairs = _all_pairs(_parts_of(first), _parts_of(second))
    return least_gap(pairs, pairs.gaps(), limit)


def _all_pairs(first: Parts, second: Parts) -> PartPairs:
    """Return all pairs of parts of two solids; none if the faces of a mesh cancel each other."""
    count, count2 = len(first.ids), len(second.ids)
    rows, rows2 = np.repeat(np.arange(count), count2), np.tile(np.arange(count2), count)
    return PartPairs(first, rows, second, rows2)


def _parts_of(solid: Solid) -> Parts:
    """Return the axis of a ball or capsule as its only part, or the faces that bound a mesh.

    ValueError if the mesh crosses itself. Parts have no boxes.
    """
    if isinstance(solid, Round):
        radius, boxes = np.array([solid.radius]), np.empty((1, 6))
        return Parts(np.zeros(1, np.int64), solid.axis[None], radius, boxes)
    surface = Surface.of(solid)
    if len(surface.own_pairs):
        raise ValueError(
            "relations to spheres and capsules need meshes that do not cross themselves, but "
            f"{number_of(len(surface.own_pairs), 'pairs')} of faces overlap, see self_overlaps"
        )
    # Equal faces cancel each other in pairs: they bound nothing.
    finite = np.isfinite(surface.corners).all(axis=(1, 2))
    ids = np.flatnonzero(finite & ~surface.cancelled)
    return Parts(ids, surface.corners[ids], np.zeros(len(ids)), np.empty((len(ids), 6)))


def _relation_of_rounds(first: Round, second: Round) -> str:
    """Return the exact relation of two balls or capsules, of the first to the second."""
    # Integers: the axes p, q and the radii r, s, all times one power of two.
    rows, _ = scaled([*first.axis, *second.axis, [first.radius], [second.radius]])
    p, q, (r,), (s,) = rows[:3], rows[3:6], *rows[6:]

    def is_near(a: Any, b: Any, reach: int) -> bool:
        """Return whether all of axis a is within `reach`, if that is 0 or more, of axis b."""
        # Its ends suffice, as distances from a segment are convex. Squared distances are m / e.
        squares = (square_to_edge(end, *b[:2]) for end in a[:2])
        return reach >= 0 and all(m <= reach**2 * e for m, e in squares)

    # A solid is in another one if its axis is within the difference of the radii of the other axis.
    inside, around = is_near(p, q, s - r), is_near(q, p, r - s)
    # The squared distance of the axes is n / d.
    n, d = square_between(p, q)
    if inside and around:
        return "equal"
    if n > (r + s) ** 2 * d:
        return "disjoint"
    if n == (r + s) ** 2 * d:
        return "touching"
    return "inside" if inside else "contains" if around else "overlapping"


def _relation_to_mesh(solid: Round, mesh: BVH) -> str:
    """Return the relation of a ball or capsule to a mesh.

    The interior of the solid meets the surface of the mesh if a face is nearer to the axis than the
    radius. Then the solid contains the mesh if it holds all corners; else they overlap.
    """
    # Bounds of the distances of faces from the axis.
    axis, faces = _parts_of(solid._replace(radius=0.0)), _parts_of(mesh)
    low, high = _all_pairs(axis, faces).gaps().T[:2]
    unsure = np.flatnonzero((low <= solid.radius) & (high >= solid.radius))
    if not (high < solid.radius).any():
        sides = {_side_of(solid, faces.corners[k]) for k in unsure.tolist()}
        if -1 not in sides:
            # All of the solid is on one side of the mesh's surface, which it may touch. Faces that
            # cancel each other are no part of the surface: points on them are not inside as such.
            inside = mesh._point_target("relation", None).inside
            if inside(solid.axis[:1], 1, surface=False)[0]:
                return "inside"
            return "touching" if 0 in sides else "disjoint"
    return "contains" if _holds(solid, faces.corners.reshape(-1, 3)) else "overlapping"


def _side_of(solid: Round, corners: Reals) -> int:
    """Return the sign of (distance of the face `corners`, (3, 3), from the axis) - radius."""
    rows, _ = scaled([*solid.axis, *corners, [solid.radius]])
    axis, face, (r,) = rows[:3], rows[3:6], rows[6]
    # The squared distance is n / d, in integers; it is 0 where the axis pierces the face.
    n, d = (0, 1) if pierces(axis, face) else square_between(axis, face)
    return (n > r * r * d) - (n < r * r * d)


def _holds(solid: Round, points: Reals) -> bool:
    """Return whether all points (n, 3) are in a ball or capsule, or on its surface."""
    start, end = solid.axis[:2]
    v, w = end - start, points - start
    with np.errstate(all="ignore"):
        # A ball has v = 0 and the quotient NaN, which becomes 0.
        share = np.clip(np.nan_to_num(w @ v / (v @ v)), 0.0, 1.0)
        away = np.linalg.norm(w - share[:, None] * v, axis=1)
        slack = SLACK * (np.abs(points).max(initial=0.0) + np.abs(solid.axis).max() + solid.radius)
        if (away > solid.radius + slack).any():
            return False
        # Not >=, so that NaN is unsure, too.
        unsure = np.unique(points[~(away < solid.radius - slack)], axis=0)
    # Points that rounding errors may put on either side are decided in rational numbers.
    for point in unsure:
        (a, b, x, (r,)), _ = scaled([start, end, point, [solid.radius]])
        n, d = square_to_edge(x, a, b)
        if n > r * r * d:
            return False
    return True
