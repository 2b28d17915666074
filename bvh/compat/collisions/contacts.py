"""Contacts and distances of two meshes, as `trimesh.collision` returns them, and where they are."""

from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import moved
from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import ScenePairs
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.scene.scene import Scene
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.round_instances import RoundInstances, unit_along
from bvh.scene.table import Instance
from bvh.surfaces.penetrations import distances_to_faces
from bvh.tree.shapes import shape_of

Reals = NDArray[np.float64]
Names = tuple[Hashable, Hashable]
Faces = tuple[int, int]

# Kinds of trees that are taken in addition to meshes. Rows of their primitives have the first end
# of the axis in columns 6:9, the second in -4:-1, and the radius last.
ROUND = "spheres", "capsules"
# Pairs of faces at a time, and by what share of their size points may be off a face.
CHUNK, NEAR = 1 << 14, 2.0**-44
# By what share of coordinates the crossing of an axis and a face may be off.
CROSSING = 2.0**-36
# In `_least_distance`: parts into which an axis is cut at first, the most that are halved at once,
# and how often.
PARTS, MOST, HALVINGS = 64, 4096, 40


class FacePair:
    """Base of `ContactData` and `DistanceData`: names of two meshes, and a face of each or -1."""

    def __init__(self, names: Names, faces: Faces) -> None:
        self.names = set(names)
        self._faces = dict(zip(names, faces, strict=True))

    def index(self, name: Hashable) -> int:
        """Return the face of the mesh with a name, as in trimesh; -1 if one mesh is inside."""
        return self._faces[name]


class ContactData(FacePair):
    """Two faces that touch, or a mesh that is inside a convex one.

    `names` is the set of the two meshes' names; "__external" names a mesh that is in no manager.
    `normal`, shape (3,), is the unit normal of the first mesh's face; NaN where it has no area, and
    for a mesh inside another. `point`, shape (3,), is the middle of the intersection of the faces,
    or a vertex of the mesh inside.

    The normal of a sphere or capsule points to the other part. Its `point` is halfway between the
    points of both parts that are deepest in each other, or where its axis crosses a face.

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
    >>> _ = manager.add_object("box", box)
    >>> _, [contact, *_] = manager.in_collision_single(box, return_data=True)
    >>> sorted(contact.names), contact.point.shape, contact.index("box")
    (['__external', 'box'], (3,), 0)
    """

    def __init__(
        self, names: Names, faces: Faces, normal: Reals, point: Reals, depth: Callable[[], float]
    ) -> None:
        super().__init__(names, faces)
        # `depth` is a function, because measuring takes long.
        self.normal, self.point, self._depth = normal, point, depth

    @property
    def depth(self) -> float:
        """How deep the two meshes penetrate each other, as `BVH.penetration` measures it.

        It is the same for all contacts of two meshes; a ValueError if one has open edges. In
        trimesh it is fcl's estimate for two faces.

        The depth of two spheres or capsules is the sum of the radii less the distance of the axes,
        in doubles. The depth of a shape in a mesh is its radius less the least signed distance of
        its axis from the mesh; inside the mesh it may be too small by 2**-13 of the axis's length.
        """
        return self._depth()

    def __repr__(self) -> str:
        return f"ContactData({self._faces}, at {self.point.tolist()})"


class DistanceData(FacePair):
    """The nearest points of two meshes, and their faces there; `names` as in `ContactData`.

    `distance` is 0 where the meshes touch, or one is inside a convex one.

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
    >>> _ = manager.add_object("box", box)
    >>> away = trimesh.transformations.translation_matrix([3.0, 0.0, 0.0])
    >>> _, data = manager.min_distance_single(box, away, return_data=True)
    >>> data.distance, sorted(data.names), float(data.point("box")[0])
    (2.0, ['__external', 'box'], 0.5)
    """

    def __init__(self, names: Names, faces: Faces, points: Reals, distance: float) -> None:
        super().__init__(names, faces)
        self._points: dict[Hashable, Reals] = dict(zip(names, points, strict=True))
        self.distance = distance

    def point(self, name: Hashable) -> Reals:
        """Return the nearest point of the mesh with a name, (3,), as in trimesh."""
        return self._points[name]

    def __repr__(self) -> str:
        return f"DistanceData({self._faces}, distance {self.distance:.6g})"


def common_points(first: Reals, second: Reals) -> Reals:
    """Return the middle (m, 3) of the intersection of each pair of touching triangles (m, 3, 3)."""
    out = np.empty((len(first), 3))
    for begin in range(0, len(first), CHUNK):
        rows = slice(begin, begin + CHUNK)
        out[rows] = _common(first[rows], second[rows])
    return out


def crossed(first: Reals, second: Reals) -> tuple[Reals, NDArray[np.bool_]]:
    """Return the `common_points` (m, 3) of pairs of triangles, and which of them are on both, (m,).

    A point that is off a triangle by more than CROSSING of the coordinates is not on it.
    """
    points = common_points(first, second)
    around = first - points[:, None], second - points[:, None]
    size = sum(np.abs(triangles).max(axis=(1, 2)) for triangles in around)
    # Triangles are divided by their size, so that nothing overflows.
    unit = np.where(size > 0.0, size, 1.0)
    off = [distances_to_faces(np.zeros(3), each / unit[:, None, None]) for each in around]
    # No coordinate of either triangle exceeds the sum of `size` and those of `second`.
    limit = CROSSING * (size + np.abs(second).max(axis=(1, 2)))
    return points, np.asarray(np.maximum(*off) * unit <= limit)


def _common(a: Reals, b: Reals) -> Reals:
    """Return the middle (m, 3) of the intersection of touching triangles a and b, (m, 3, 3) each.

    Corners of the intersection are corners of a triangle, crossings of an edge and the other plane,
    or crossings of two edges. Of all these points, those nearest to both triangles are averaged.
    """
    size = np.abs(a - a[:, :1]).max(axis=(1, 2)) + np.abs(b - b[:, :1]).max(axis=(1, 2))
    # Relative to a corner of `a`, and divided by their size, so that nothing overflows.
    unit = np.where(size > 0.0, size, 1.0)[:, None, None]
    origin = a[:, :1]
    a, b = (a - origin) / unit, (b - origin) / unit
    edges = [(t[:, i - 1], t[:, i]) for t in (a, b) for i in range(3)]
    with np.errstate(all="ignore"):
        # Edges k < 3 are those of a. Degenerate cases give NaN, which becomes 0, a corner of a.
        corners = [_crossing(*edge, b if k < 3 else a) for k, edge in enumerate(edges)]
        corners += [_between(*edge, *other) for edge in edges[:3] for other in edges[3:]]
        corners += [t[:, i] for t in (a, b) for i in range(3)]
        points = np.nan_to_num(np.stack(corners, axis=1), posinf=0.0, neginf=0.0)
        off = np.maximum(*(distances_to_faces(points, t[:, None]) for t in (a, b)))
        near = off <= off.min(axis=1, keepdims=True) + NEAR
    middle = (points * near[:, :, None]).sum(axis=1) / near.sum(axis=1)[:, None]
    return np.asarray(middle * unit[:, 0] + origin[:, 0])


def _crossing(p: Reals, q: Reals, triangle: Reals) -> Reals:
    """Return the point of each segment p q, (m, 3), nearest to a triangle's plane; NaN if in it."""
    normal = np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0])
    above, below = ((normal * (x - triangle[:, 0])).sum(axis=1) for x in (p, q))
    return _along(p, q, above / (above - below))


def _between(p: Reals, q: Reals, r: Reals, s: Reals) -> Reals:
    """Return the point of each segment p q, (m, 3), nearest to the line r s; NaN if parallel."""
    # Solves d.(w + t d - u e) = 0 = e.(w + t d - u e) for t; p + t d is the nearest to the line.
    d, e, w = q - p, s - r, p - r
    dd, de, ee, dw, ew = ((x * y).sum(axis=1) for x, y in ((d, d), (d, e), (e, e), (d, w), (e, w)))
    return _along(p, q, (de * ew - ee * dw) / (dd * ee - de * de))


def _along(p: Reals, q: Reals, share: Reals) -> Reals:
    """Return the points p + share (q - p), (m, 3), with shares (m,) clamped to 0 and 1."""
    return p + np.clip(share, 0.0, 1.0)[:, None] * (q - p)


def contact_places(
    view: SceneView, content: SceneView, pairs: ScenePairs
) -> tuple[Reals, Reals, Reals, NDArray[np.bool_]]:
    """Return points (m, 3), normals (m, 3), depths (m,) and has_round (m,) of touching primitives.

    The first of each pair belongs to a leaf of the scene of `view`, the second to one of `content`.
    A point is in the middle of the contact; a normal is the first's, of length 1. Depths are NaN
    where one is a face; has_round is True where one is a sphere or a capsule.
    """
    first, second = pairs.leaf.T
    has_round = view.round_trees[view.tree_of[first]]
    has_round = np.asarray(has_round | content.round_trees[content.tree_of[second]])
    points, normals = np.empty((2, len(pairs), 3))
    depths = np.full(len(pairs), np.nan)
    of_faces, of_shapes = (
        ScenePairs(pairs.instance_id[rows], pairs.leaf[rows], pairs.prim_id[rows])
        for rows in (~has_round, has_round)
    )
    corners = [_corners(side, of_faces, k) for k, side in enumerate((view, content))]
    points[~has_round], normals[~has_round] = common_points(*corners), normals_of(corners[0])
    places = _round_places(view, content, of_shapes)
    points[has_round], normals[has_round], depths[has_round] = places
    return points, normals, depths, has_round


def _corners(view: SceneView, pairs: ScenePairs, side: int) -> Reals:
    """Return the corners (m, 3, 3), in the world, of one face of each of the `pairs`.

    On `side` 0 of a pair is its first face, on 1 its second; `view` is that of this side's scene.
    """
    leaf, corners = pairs.leaf[:, side], np.empty((len(pairs), 3, 3))
    for k in np.unique(leaf).tolist():
        rows = leaf == k
        triangles = view.trees[view.tree_of[k]].primitives
        unmoved = triangles.points[triangles.faces[pairs.prim_id[rows, side]]].reshape(-1, 3)
        corners[rows] = moved(unmoved, view.maps[k]).reshape(-1, 3, 3)
    return corners


def _round_places(
    view: SceneView, content: SceneView, pairs: ScenePairs
) -> tuple[Reals, Reals, Reals]:
    """Return points (m, 3), normals (m, 3) and depths (m,) of touching pairs with a round shape.

    Normals are those of the first of each pair; the normal of a shape points to the second. Depths
    are the sum of the radii less the distance of the axes; NaN if one of a pair is a face.
    """
    rounds = RoundInstances(view, content)
    points, normals = np.empty((2, len(pairs), 3))
    depths = np.full(len(pairs), np.nan)
    for one, other in np.unique(pairs.leaf, axis=0).tolist():
        rows = np.flatnonzero((pairs.leaf == (one, other)).all(axis=1))
        found = rounds.pairs_of(one, other, pairs.prim_id[rows].astype(np.int64))
        both, gaps = (found.first, found.second), found.gaps()
        # x and y: the nearest points of both axes, or of an axis and a face.
        x, y, radii = gaps[:, 2:5], gaps[:, 5:8], np.stack([some.radii for some in both])
        is_face = [not rounds.is_round(side, leaf) for side, leaf in enumerate((one, other))]
        axes = both[1].corners if is_face[0] else both[0].corners
        # Unit vectors from y to x; at right angles to an axis where these are the same.
        apart = np.array([unit_along(*each) for each in zip(x - y, axes, strict=True)])
        r, s = radii[:, :, None]  # 0 for faces
        # Halfway between the points of both surfaces that are deepest in each other.
        points[rows] = 0.5 * (x - r * apart) + 0.5 * (y + s * apart)
        if any(is_face):
            # Where an axis crosses a face, at a point that `gaps` does not return.
            crossings, does_cross = crossed(both[0].corners, both[1].corners)
            points[rows[does_cross]] = crossings[does_cross]
        else:
            depths[rows] = radii.sum(axis=0) - np.linalg.norm(x - y, axis=1)
        normals[rows] = normals_of(both[0].corners) if is_face[0] else -apart
    return points, normals, depths


def depth_in_mesh(
    tree: BVH, transform: Reals, shapes: BVH, placed: Reals, prims: Iterable[int]
) -> float:
    """Return the depth, in the closed mesh of `tree`, of the deepest of the `shapes` with `prims`.

    The depth is a shape's radius less the least signed distance of its axis from the mesh; negative
    if it is outside. That of a capsule may be too small by 2**-13 of its axis's length. `prims` are
    ids; the mesh is moved by `transform` and the shapes by `placed`, both (4, 4).
    """
    must_bound_a_solid("depth", "the mesh", tree)
    solid = Scene()
    solid.add(tree, transform)
    primitives = shapes.arrays.primitives
    # Shapes in the world (see ROUND).
    rows = primitives.points[list(prims)]
    rows = shape_of(primitives).instances(rows, np.ascontiguousarray(placed[:3]))
    return float(max(row[-1] - _least_distance(solid, row[6:9], row[-4:-1]) for row in rows))


def depth_of_meshes(placed: Iterable[tuple[BVH, Reals]]) -> float:
    """Return the `BVH.penetration` depth of two meshes, each with its transform (4, 4)."""
    one, two = (
        BVH.from_triangles(moved(tree.vertices, matrix[:3]), tree.faces, warn=False)
        for tree, matrix in placed
    )
    return float(one.penetration(two).depth)


def point_inside(solid: Instance, other: Instance, connected: bool) -> Reals | None:
    """Return a point, in the world, of the instance `other` that is inside the instance `solid`.

    The result is None if `other` is outside. Their surfaces do not touch, so one vertex decides if
    the mesh of `other` is `connected`.
    """
    if other.child.kind in ROUND:
        # The lowest point of each shape (see ROUND).
        rows = other.child.arrays.primitives.points
        lower_end = np.where(rows[:, [8]] < rows[:, [-2]], rows[:, 6:9], rows[:, -4:-1])
        points = lower_end - [0.0, 0.0, 1.0] * rows[:, -1:]
    else:
        points = other.child.vertices[np.unique(other.child.faces)]
    points = points[np.isfinite(points).all(axis=1)]
    points = moved(points[:1] if connected else points, other.transform[:3])
    alone = Scene()
    alone.add(solid.child, solid.transform)
    low, high = alone.bounds
    points = points[((low <= points) & (points <= high)).all(axis=1)]
    points = points[alone.contains(points)] if len(points) else points
    return np.asarray(points[0]) if len(points) else None


def _least_distance(solid: Scene, p: Reals, q: Reals) -> float:
    """Return the least signed distance, negative inside a solid, of the points of a segment p q."""
    # Distances change no faster than positions, so the least one of a part of length L, with a and
    # b at its ends, is at least (a + b - L) / 2.
    length, step = float(np.linalg.norm(q - p)), 1.0 / PARTS

    def distances(at: Reals) -> Reals:
        """Return the signed distances of the points p + at (q - p)."""
        return np.asarray(solid.signed_distance(p + at[:, None] * (q - p)))

    if length == 0.0:
        return float(distances(np.zeros(1))[0])
    # The shares at which parts begin, and the distances `first` and `last` of their ends.
    begin = np.linspace(0.0, 1.0, PARTS + 1)
    ends = distances(begin)
    best, begin, first, last = float(ends.min()), begin[:-1], ends[:-1], ends[1:]
    for _ in range(HALVINGS):
        # Halve the parts that may have a smaller distance, unless they are too many.
        near = 0.5 * (first + last) - 0.5 * step * length < best
        if not 0 < near.sum() <= MOST:
            break
        step, begin, first, last = 0.5 * step, begin[near], first[near], last[near]
        middle = distances(begin + step)
        best = min(best, float(middle.min()))
        first, last = np.append(first, middle), np.append(middle, last)
        begin = np.append(begin, begin + step)
    return best
