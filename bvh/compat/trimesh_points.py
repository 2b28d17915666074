"""What points ask of a mesh of trimesh, in the way of `trimesh.proximity`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import rows
from bvh.compat.mesh_trees import tree_of
from bvh.tree import BVH

Floats = NDArray[np.float64]

# Faces are as near if their distances differ by no more than this share of them; and points are
# on the surface if they are within this distance of it. Both are what trimesh calls tol.merge.
MERGE = 1e-8

# How many faces are asked for where two are as near; and how many points at a time.
FEW, MANY, CHUNK = 8, 512, 1 << 16

# The way of the first ray that asks whether a point is in an open mesh, as in trimesh.
WAY = np.array([0.4395064455, 0.617598629942, 0.652231566745])


def closest_point(mesh: Any, points: ArrayLike) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Find the nearest point of a mesh for each point.

    Parameters
    ----------
    mesh : trimesh.Trimesh
    points : array_like, shape (n, 3)

    Returns
    -------
    closest : ndarray of float64, shape (n, 3)
        NaN for points that are not finite, and where the mesh has no faces.
    distance : ndarray of float64, shape (n,)
        NaN for points that are not finite; +inf where the mesh has no faces.
    triangle_id : ndarray of int64, shape (n,)
        The face of the nearest point. Of faces as near, to 1e-8 of the distance, it is the one that
        faces the point most, and the point is the nearest on it, as in trimesh; of those that do
        alike, the lowest. -1 where there is none. `BVH.closest_point` knows no such tolerance.

    Raises
    ------
    ValueError, TypeError
        Where an argument has the wrong shape or type; the message names it.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import closest_point
    >>> closest_point(trimesh.creation.box(), [[0.0, 0.25, 2.0]])[:2]
    (array([[0.  , 0.25, 0.5 ]]), array([1.5]))
    """
    places = rows("points", points)
    tree = tree_of(mesh)
    near = tree.closest_point(places, k=2)
    closest, distance = near.position[:, 0].copy(), near.distance[:, 0].copy()
    face = near.prim_id[:, 0].astype(np.int64)
    with np.errstate(invalid="ignore"):
        alike = near.distance[:, 1] - distance <= MERGE * distance
    tied = np.flatnonzero(alike & (distance > 0.0))
    for begin in range(0, len(tied), CHUNK):
        _face_the_points(tree, places, tied[begin : begin + CHUNK], closest, distance, face)
    distance[~np.isfinite(places).all(axis=1)] = np.nan
    return closest, distance, face


def signed_distance(mesh: Any, points: ArrayLike) -> Floats:
    """Return the distance of each point from the surface, positive inside.

    In a watertight mesh the sign is that of `contains`, however its faces are turned. In an open
    one it is, as in trimesh for all meshes, the side of the nearest face on which the point is,
    where it lies straight above or below that; elsewhere that of `contains`.

    Parameters
    ----------
    mesh : trimesh.Trimesh
    points : array_like, shape (n, 3)

    Returns
    -------
    ndarray of float64, shape (n,)
        Positive, too, within 1e-8 of the surface. NaN for points that are not finite; -inf where
        the mesh has no faces.

    Raises
    ------
    ValueError, TypeError
        Where an argument has the wrong shape or type; the message names it.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import signed_distance
    >>> signed_distance(trimesh.creation.box(), [[0.0, 0.0, 0.25], [0.0, 0.0, 1.5]])
    array([ 0.25, -1.  ])
    """
    places = rows("points", points)
    tree = tree_of(mesh)
    if mesh.is_watertight:
        distance: Floats = -tree.signed_distance(places)
    else:
        distance = _signed_by_faces(mesh, tree, places)
    near = np.abs(distance) <= MERGE
    distance[near] = np.abs(distance[near])
    distance[~np.isfinite(places).all(axis=1)] = np.nan
    return distance


def contains(mesh: Any, points: ArrayLike) -> NDArray[np.bool_]:
    """Tell which points are inside a mesh.

    Exact for watertight meshes, however their faces are turned: a point is inside if it is on the
    surface, or if a ray from it crosses an odd number of faces. What several bodies of a mesh share
    is therefore outside where their number is even; trimesh says the same, but for bodies that lie
    on each other face by face, which it takes for one. In an open mesh, points are inside that see
    an odd number of faces on both sides of a line; where the two sides disagree and both see some,
    it is the winding number that decides. Answers are the same every time.

    Parameters
    ----------
    mesh : trimesh.Trimesh
    points : array_like, shape (n, 3)

    Returns
    -------
    ndarray of bool, shape (n,)
        True for points on the surface of a watertight mesh; False for those that are not finite.

    Raises
    ------
    ValueError, TypeError
        Where an argument has the wrong shape or type; the message names it.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import contains
    >>> contains(trimesh.creation.box(), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.6]])
    array([ True, False])
    """
    places = rows("points", points)
    tree = tree_of(mesh)
    if mesh.is_watertight:
        return np.asarray(tree.contains(places))
    result = np.zeros(len(places), np.bool_)
    if tree.bounds is None:
        return result
    lower, upper = tree.bounds
    some = np.flatnonzero(((lower <= places) & (places <= upper)).all(axis=1))
    ahead, behind = (np.asarray(tree.count_hits(places[some], way)) for way in (WAY, -WAY))
    result[some] = (ahead & behind & 1) == 1
    torn = some[((ahead ^ behind) & 1 == 1) & (ahead > 0) & (behind > 0)]
    # The normals of an open mesh may point either way.
    result[torn] = np.abs(tree.winding_number(places[torn])) > 0.5
    return result


class ProximityQuery:
    """The points of a `trimesh.Trimesh`: a drop-in for `mesh.nearest`.

    Parameters
    ----------
    mesh : trimesh.Trimesh

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import ProximityQuery
    >>> mesh = trimesh.creation.box()
    >>> mesh.nearest = ProximityQuery(mesh)
    >>> mesh.nearest.signed_distance([[0.0, 0.0, 0.25]])
    array([0.25])
    """

    def __init__(self, mesh: Any) -> None:
        self._mesh = mesh

    def __repr__(self) -> str:
        return f"ProximityQuery({self._mesh!r})"

    def on_surface(self, points: ArrayLike) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Find the nearest point of the mesh for each point; as in `closest_point`."""
        return closest_point(self._mesh, points)

    def vertex(self, points: ArrayLike) -> tuple[Any, Any]:
        """Find the nearest vertex for each point, by trimesh's own k-d tree.

        Parameters
        ----------
        points : array_like, shape (n, 3)

        Returns
        -------
        distance : ndarray of float64, shape (n,)
        vertex_id : ndarray of int, shape (n,)
        """
        distance, vertex_id = self._mesh.kdtree.query(points)
        return distance, vertex_id

    def signed_distance(self, points: ArrayLike) -> Floats:
        """Return the distance of each point, positive inside; as in `signed_distance`."""
        return signed_distance(self._mesh, points)


def _face_the_points(
    tree: BVH,
    points: Floats,
    tied: NDArray[np.int64],
    closest: Floats,
    distance: Floats,
    face: NDArray[np.int64],
) -> None:
    """Give points with several nearest faces the one that faces them most."""
    count = FEW
    while len(tied):
        near = tree.closest_point(points[tied], k=count)
        nearest = near.distance[:, :1]
        alike = near.distance <= nearest + MERGE * nearest
        with np.errstate(invalid="ignore", divide="ignore"):
            away = (points[tied, None] - near.position) / near.distance[..., None]
            cosine = np.einsum("nki,nki->nk", _normals(tree, near.prim_id), away)
        cosine = np.where(alike & np.isfinite(cosine), cosine, -2.0)
        # Faces in one plane differ by rounding only, and the first of them is the lowest.
        best = np.argmax(cosine >= cosine.max(axis=1, keepdims=True) - 1e-12, axis=1)
        row = np.arange(len(tied))
        closest[tied], distance[tied] = near.position[row, best], near.distance[row, best]
        face[tied] = near.prim_id[row, best]
        # Where all that were asked for are as near, there may be more.
        tied = tied[alike[:, -1]] if count < MANY else tied[:0]
        count *= 8


def _signed_by_faces(mesh: Any, tree: BVH, points: Floats) -> Floats:
    """Return distances with the sign of the side of the nearest face, or that of `contains`."""
    closest, distance, face = closest_point(mesh, points)
    normal = _normals(tree, face)
    with np.errstate(invalid="ignore"):
        away = points - closest
        height = np.einsum("ni,ni->n", normal, away)
        aside = np.linalg.norm(away - height[:, None] * normal, axis=1)
        # What trimesh allows in weights of vertices, this allows in sizes of faces.
        straight = aside <= MERGE * (np.abs(height) + _sizes(tree, face))
    sign = np.where(height > 0.0, -1.0, 1.0)
    other = np.flatnonzero(~straight)
    sign[other] = np.where(contains(mesh, points[other]), 1.0, -1.0)
    return distance * sign


def _normals(tree: BVH, faces: NDArray[Any]) -> Floats:
    """Return unit normals of faces, NaN for those without area."""
    if len(tree.faces) == 0:
        return np.full((*faces.shape, 3), np.nan)
    a, b, c = (tree.vertices[tree.faces[faces, corner]] for corner in range(3))
    with np.errstate(all="ignore"):
        normal = np.cross(_scaled(b - a), _scaled(c - a))
        return np.asarray(normal / np.linalg.norm(normal, axis=-1, keepdims=True))


def _scaled(vectors: Floats) -> Floats:
    """Make the largest coordinate of each vector one, so that no product under- or overflows."""
    return np.asarray(vectors / np.abs(vectors).max(axis=-1, keepdims=True))


def _sizes(tree: BVH, faces: NDArray[Any]) -> Floats:
    """Return the length of a side of each face."""
    if len(tree.faces) == 0:
        return np.zeros(faces.shape)
    sides = tree.vertices[tree.faces[faces, 1]] - tree.vertices[tree.faces[faces, 0]]
    return np.asarray(np.linalg.norm(sides, axis=-1))
