"""Contacts and distances of two meshes, as `trimesh.collision` returns them, and their points."""

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray
from trimesh.triangles import closest_point

Reals = NDArray[np.float64]
Names = tuple[Hashable, Hashable]
Faces = tuple[int, int]

# Pairs of faces at a time, and by what share of their size points may be off a face.
CHUNK, NEAR = 1 << 14, 2.0**-44
# By what share of coordinates the crossing of an axis and a face may be off.
CROSSING = 2.0**-36


class FacePair:
    """Base of `ContactData` and `DistanceData`: names of two meshes, and a face of each."""

    def __init__(self, names: Names, faces: Faces) -> None:
        self.names = set(names)
        self._faces = dict(zip(names, faces, strict=True))

    def index(self, name: Hashable) -> int:
        """Return the face of the mesh with a name, as in trimesh; -1 inside a mesh."""
        return self._faces[name]


class ContactData(FacePair):
    """Two faces that touch, or a mesh that is inside a convex one.

    `names` is the set of the two meshes' names, "__external" for one that is in no manager;
    `normal`, shape (3,), the unit normal of the first mesh's face, NaN where it has no area, and
    for a mesh inside another; `point`, shape (3,), the middle of the intersection of the faces, or
    a vertex of the mesh inside.

    The normal of a sphere or capsule points to the other part; `point` is in the middle between the
    points of both that are deepest in each other, or where its axis crosses a face.

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
        self.normal, self.point, self._depth = normal, point, depth

    @property
    def depth(self) -> float:
        """How deep the two meshes penetrate each other, as `BVH.penetration` measures it.

        It is the same for all contacts of two meshes; a ValueError if one has open edges. In
        trimesh it is fcl's estimate for two faces.

        That of two spheres or capsules is the sum of the radii less the distance of the axes, by
        doubles; that of one and a mesh its radius less the least signed distance of its axis from
        the mesh. Inside the mesh that may be too small by 2**-13 of the axis's length.
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
    """Return the middle of the intersection of each pair of touching triangles (m, 3, 3)."""
    # Corners of the intersection of two triangles are corners of one of them, crossings of an edge
    # and the other's plane, or of two edges in one plane. Those on both triangles are averaged.
    out = np.empty((len(first), 3))
    for begin in range(0, len(first), CHUNK):
        rows = slice(begin, begin + CHUNK)
        out[rows] = _common(first[rows], second[rows])
    return out


def crossed(first: Reals, second: Reals) -> tuple[Reals, NDArray[np.bool_]]:
    """Return the results of `common_points`, and for which triangles these are on both."""
    points = common_points(first, second)
    around = first - points[:, None], second - points[:, None]
    size = sum(np.abs(triangles).max(axis=(1, 2)) for triangles in around)
    # In units of their size, as the tolerances of distances are absolute.
    unit, origin = np.where(size > 0.0, size, 1.0), np.zeros((len(points), 1, 3))
    off = [_distances(origin, each / unit[:, None, None])[:, 0] for each in around]
    limit = CROSSING * (size + np.abs(second).max(axis=(1, 2)))
    return points, np.asarray(np.maximum(*off) * unit <= limit)


def _common(a: Reals, b: Reals) -> Reals:
    """Return `common_points` of at most CHUNK pairs."""
    size = np.abs(a - a[:, :1]).max(axis=(1, 2)) + np.abs(b - b[:, :1]).max(axis=(1, 2))
    # In units of their size, so that nothing overflows.
    unit = np.where(size > 0.0, size, 1.0)[:, None, None]
    origin = a[:, :1]
    a, b = (a - origin) / unit, (b - origin) / unit
    edges = [(t[:, i - 1], t[:, i]) for t in (a, b) for i in range(3)]
    with np.errstate(all="ignore"):
        points = [_crossing(*edge, b if k < 3 else a) for k, edge in enumerate(edges)]
        points += [_between(*edge, *other) for edge in edges[:3] for other in edges[3:]]
        points += [t[:, i] for t in (a, b) for i in range(3)]
        places = np.nan_to_num(np.stack(points, axis=1), posinf=0.0, neginf=0.0)
        off = np.maximum(_distances(places, a), _distances(places, b))
        near = off <= off.min(axis=1, keepdims=True) + NEAR
    middle = (places * near[:, :, None]).sum(axis=1) / near.sum(axis=1)[:, None]
    return np.asarray(middle * unit[:, 0] + origin[:, 0])


def _crossing(p: Reals, q: Reals, triangle: Reals) -> Reals:
    """Return where lines through p and q cross the planes of triangles."""
    normal = np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0])
    above, below = ((normal * (x - triangle[:, 0])).sum(axis=1) for x in (p, q))
    return _along(p, q, above / (above - below))


def _between(p: Reals, q: Reals, r: Reals, s: Reals) -> Reals:
    """Return the points of segments p q that are nearest to lines r s."""
    d, e, w = q - p, s - r, p - r
    dd, de, ee, dw, ew = ((x * y).sum(axis=1) for x, y in ((d, d), (d, e), (e, e), (d, w), (e, w)))
    return _along(p, q, (de * ew - ee * dw) / (dd * ee - de * de))


def _along(p: Reals, q: Reals, share: Reals) -> Reals:
    """Return the points at shares of segments from p to q; beyond, their ends."""
    return p + np.clip(share, 0.0, 1.0)[:, None] * (q - p)


def _distances(points: Reals, triangles: Reals) -> Reals:
    """Return the distance of each of k points (m, k, 3) from its triangle (m, 3, 3)."""
    count = points.shape[1]
    flat = points.reshape(-1, 3)
    nearest = closest_point(np.repeat(triangles, count, axis=0), flat)  # type: ignore[no-untyped-call]
    off = np.sqrt(((nearest - flat) ** 2).sum(axis=1)).reshape(-1, count)
    # Some versions of trimesh return NaN for triangles whose first two corners are equal.
    return np.where(np.isnan(off), np.inf, off)
