"""What rays ask of a mesh of trimesh, in the way of its two ray casters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import rows, whole_number
from bvh.compat.mesh_trees import tree_of
from bvh.compat.trimesh_points import contains
from bvh.tree import BVH

Ids = NDArray[np.int64]
Places = NDArray[np.float64]
Found = tuple[Ids, Ids] | tuple[Ids, Ids, Places]


class RayMeshIntersector:
    """The rays of a `trimesh.Trimesh`: a drop-in for `mesh.ray`.

    It has the methods and arguments of both of trimesh's classes, the one on r-tree and the one on
    Embree, and answers with exact hits. The tree is made when it is first asked for, and again
    when the mesh has changed, by trimesh's own hash of it. It can be pickled and copied, and used
    by many threads while the mesh does not change.

    Directions need not be normalised. Rays that are not finite, or have no direction, hit nothing,
    and leave the others alone. Hits are sorted by ray and distance; of faces at the same distance
    the lowest comes first.

    Parameters
    ----------
    mesh : trimesh.Trimesh
    scale_to_box : bool
        Taken for Embree's sake; exact hits need no scaling.
    geometry : trimesh.Trimesh
        The mesh, as Embree's class calls it.

    Raises
    ------
    TypeError
        If there is no mesh, or two.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import RayMeshIntersector
    >>> mesh = trimesh.creation.box()
    >>> mesh.ray = RayMeshIntersector(mesh)
    >>> mesh.ray.intersects_location([[0.25, 0.125, 2.0]], [[0.0, 0.0, -1.0]])[0]
    array([[ 0.25 ,  0.125,  0.5  ],
           [ 0.25 ,  0.125, -0.5  ]])
    """

    # Whether a ray through an edge has one hit there, even where only faces are asked for.
    _one_hit_a_place = False

    def __init__(
        self, mesh: Any = None, scale_to_box: bool = True, *, geometry: Any = None
    ) -> None:
        if (mesh is None) == (geometry is None):
            raise TypeError("RayMeshIntersector takes one mesh, as mesh or as geometry")
        self.mesh = geometry if mesh is None else mesh
        self._scale_to_box = scale_to_box

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mesh!r})"

    def intersects_id(
        self,
        ray_origins: ArrayLike,
        ray_directions: ArrayLike,
        return_locations: Any = False,
        multiple_hits: Any = True,
        max_hits: Any = None,
        **kwargs: Any,
    ) -> Found:
        """Find the faces that rays hit.

        Parameters
        ----------
        ray_origins, ray_directions : array_like, shape (n, 3)
        return_locations : bool
            Return where the hits are, too. A ray that goes through an edge or a vertex then has
            one hit there, with the lowest of its faces; without it, one with each of them.
        multiple_hits : bool
            Return all hits of each ray, not only the nearest.
        max_hits : int, optional
            Return the nearest of each ray only, as many as this.
        **kwargs
            Ignored, as trimesh's r-tree class does.

        Returns
        -------
        index_tri : ndarray of int64, shape (h,)
            Faces that are hit.
        index_ray : ndarray of int64, shape (h,)
            The ray of each hit.
        locations : ndarray of float64, shape (h, 3)
            Only with `return_locations`.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; the message names it.

        Notes
        -----
        Without keywords, arguments may also come in the order of trimesh's Embree class, which is
        (multiple_hits, max_hits, return_locations): the fourth of five is then a number, and above
        1 where there is no fifth. Where only a third is given, it is `return_locations`.

        Examples
        --------
        >>> import trimesh
        >>> from bvh.compat.trimesh import RayMeshIntersector
        >>> ray = RayMeshIntersector(trimesh.creation.box())
        >>> ray.intersects_id([[0.25, 0.125, 2.0]], [[0.0, 0.0, -1.0]], multiple_hits=False)[1]
        array([0])
        """
        if is_flag(max_hits) or not (is_flag(multiple_hits) or multiple_hits in (0, 1, None)):
            # A number here is max_hits, in the order of the Embree class. One that may be a flag
            # is that only where another flag comes last.
            most, last = multiple_hits, max_hits
            return self._hits(ray_origins, ray_directions, bool(last), return_locations, most)
        return self._hits(ray_origins, ray_directions, return_locations, multiple_hits, max_hits)

    def intersects_location(
        self,
        ray_origins: ArrayLike,
        ray_directions: ArrayLike,
        multiple_hits: bool = True,
        max_hits: int | None = None,
        **kwargs: Any,
    ) -> tuple[Places, Ids, Ids]:
        """Find the places where rays hit the mesh, each once.

        Parameters
        ----------
        ray_origins, ray_directions, multiple_hits, max_hits, **kwargs
            As in `intersects_id`.

        Returns
        -------
        locations : ndarray of float64, shape (h, 3)
            Each is good to some units in the last place of the face's coordinates, however far
            away the ray begins. Shape (0, 3) where nothing is hit.
        index_ray : ndarray of int64, shape (h,)
        index_tri : ndarray of int64, shape (h,)
            The lowest of the faces at that place.

        Examples
        --------
        >>> import trimesh
        >>> from bvh.compat.trimesh import RayMeshIntersector
        >>> ray = RayMeshIntersector(trimesh.creation.box())
        >>> ray.intersects_location([[0.0, 0.0, 2.0]], [[0.0, 0.0, -4.0]])[0]
        array([[ 0. ,  0. ,  0.5],
               [ 0. ,  0. , -0.5]])
        """
        found: Any = self._hits(ray_origins, ray_directions, True, multiple_hits, max_hits)
        return found[2], found[1], found[0]

    def intersects_first(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, **kwargs: Any
    ) -> Ids:
        """Find the face that each ray hits first.

        Parameters
        ----------
        ray_origins, ray_directions, **kwargs
            As in `intersects_id`.

        Returns
        -------
        ndarray of int64, shape (n,)
            -1 for a miss.

        Examples
        --------
        >>> import trimesh
        >>> from bvh.compat.trimesh import RayMeshIntersector
        >>> ray = RayMeshIntersector(trimesh.creation.box())
        >>> ray.intersects_first([[9.0, 9.0, 9.0]], [[0.0, 0.0, -1.0]])
        array([-1])
        """
        tree, origins, directions = self._cast(ray_origins, ray_directions)
        if len(origins) == 1:
            # A ray alone has a shorter way than a batch.
            return np.array([tree.closest_hit(origins[0], directions[0]).prim_id], np.int64)
        return np.asarray(tree.closest_hit(origins, directions).prim_id, np.int64)

    def intersects_any(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, **kwargs: Any
    ) -> NDArray[np.bool_]:
        """Tell which rays hit the mesh.

        Parameters
        ----------
        ray_origins, ray_directions, **kwargs
            As in `intersects_id`.

        Returns
        -------
        ndarray of bool, shape (n,)
            True exactly where `intersects_first` is not -1.

        Examples
        --------
        >>> import trimesh
        >>> from bvh.compat.trimesh import RayMeshIntersector
        >>> ray = RayMeshIntersector(trimesh.creation.box())
        >>> ray.intersects_any([[0.0, 0.0, 9.0]], [[0.0, 0.0, -1.0]])
        array([ True])
        """
        tree, origins, directions = self._cast(ray_origins, ray_directions)
        if len(origins) == 1:
            # The nearest hit of a ray alone is found sooner than any hit of a batch.
            return np.array([tree.closest_hit(origins[0], directions[0]).prim_id >= 0], np.bool_)
        return np.asarray(tree.any_hit(origins, directions), np.bool_)

    def contains_points(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Tell which points are inside the mesh; as in `bvh.compat.trimesh.contains`.

        Parameters
        ----------
        points : array_like, shape (n, 3)

        Returns
        -------
        ndarray of bool, shape (n,)

        Examples
        --------
        >>> import trimesh
        >>> from bvh.compat.trimesh import RayMeshIntersector
        >>> RayMeshIntersector(trimesh.creation.box()).contains_points([[0, 0, 0], [1, 1, 1]])
        array([ True, False])
        """
        return contains(self.mesh, points)

    def _cast(self, origins: ArrayLike, directions: ArrayLike) -> tuple[BVH, Places, Places]:
        """Check rays, and return them with the tree."""
        o, d = rows("ray_origins", origins), rows("ray_directions", directions)
        if o.shape != d.shape:
            raise ValueError(
                f"ray_directions must have the shape {o.shape} of ray_origins, got {d.shape}"
            )
        return tree_of(self.mesh), o, d

    def _hits(
        self, origins: ArrayLike, directions: ArrayLike, places: Any, multiple: Any, most: Any
    ) -> Found:
        """Return (faces, rays), and where the hits are if `places` are asked for."""
        tree, o, d = self._cast(origins, directions)
        if most is not None:
            most = whole_number("max_hits", most)
        if not multiple:
            nearest = tree.closest_hit(o, d)
            ray = np.flatnonzero(nearest.mask).astype(np.int64)
            hits: Any = nearest[ray]
        else:
            unique = bool(places) or self._one_hit_a_place
            hits = tree.all_hits(o, d, max_hits=None if unique else most)
            ray = hits.ray_id
        face, u, v = hits.prim_id.astype(np.int64), hits.u, hits.v
        if multiple and unique:
            # t is correctly rounded: where a ray meets an edge it is the same for all its faces.
            keep = np.ones(len(ray), np.bool_)
            keep[1:] = (ray[1:] != ray[:-1]) | (hits.t[1:] != hits.t[:-1])
            if most is not None:
                keep = _nearest(ray, keep, most)
            ray, face, u, v = ray[keep], face[keep], u[keep], v[keep]
        if not places:
            return face, ray
        where = _places(tree, face, u, v, o[ray], d[ray])
        if multiple and len(ray) > 1:
            # Two faces may be closer together than coordinates can tell.
            keep = np.append(True, (ray[1:] != ray[:-1]) | (where[1:] != where[:-1]).any(axis=1))
            if not keep.all():
                face, ray, where = face[keep], ray[keep], where[keep]
        return face, ray, where


def is_flag(value: Any) -> bool:
    """Tell whether a value is True or False, which numbers are not."""
    return isinstance(value, bool | np.bool_)


def _nearest(ray: Ids, keep: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """Keep no more than the first few of each ray's hits that are kept."""
    kept = np.flatnonzero(keep)
    first = np.searchsorted(ray[kept], ray[kept])
    result = np.zeros(len(ray), np.bool_)
    result[kept[np.arange(len(kept)) - first < most]] = True
    return result


def _places(tree: BVH, face: Ids, u: Places, v: Places, o: Places, d: Places) -> Places:
    """Return where in their faces rays hit.

    Weights of vertices tell it more precisely than o + t d does: that loses what the origin is
    far away. But a coordinate that the ray does not change is the origin's.
    """
    a, b, c = (tree.vertices[tree.faces[face, corner]] for corner in range(3))
    with np.errstate(over="ignore", invalid="ignore"):
        inside = a + u[:, None] * (b - a) + v[:, None] * (c - a)
    return np.where(d == 0.0, o, inside)
