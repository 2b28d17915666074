"""Ray queries of trimesh meshes, with the interface of its two ray casters."""

from typing import Any

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from bvh.compat.trimesh_points import contains, tree_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import AllHits, Hits
from bvh.runtime.arguments import rows, whole_number

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
# Arguments whose order is that of either class: flags, or the number of hits.
Flag = bool | int | None
Found = tuple[Ids, Ids] | tuple[Ids, Ids, Floats]


class RayMeshIntersector:
    """Ray queries of a `trimesh.Trimesh`: a drop-in replacement for `mesh.ray`.

    It has the methods and arguments of both of trimesh's classes, with r-tree and with Embree, and
    finds exact hits. The tree is built on first use, and again when the mesh has changed, by
    trimesh's own hash. It can be pickled and copied, and used by many threads while the mesh does
    not change.

    Directions need not be normalised. Rays that are not finite, or have a zero direction, hit
    nothing. Hits are sorted by ray and distance; of faces at the same distance the lowest comes
    first. Ids are int64, which Embree's `intersects_first` has as int32. Arguments of the wrong
    shape or type raise a ValueError or TypeError that names them.

    Parameters
    ----------
    mesh : trimesh.Trimesh
    scale_to_box : bool
        Accepted for compatibility; exact hits need no scaling.
    geometry : trimesh.Trimesh
        The mesh, by its name in Embree's class. Both names, or neither, raise a TypeError.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import RayMeshIntersector
    >>> mesh = trimesh.creation.box()
    >>> mesh.ray = RayMeshIntersector(mesh)
    >>> mesh.ray.intersects_location([[0.25, 0.125, 2.0]], [[0.0, 0.0, -1.0]])[0]
    array([[ 0.25 ,  0.125,  0.5  ],
           [ 0.25 ,  0.125, -0.5  ]])
    >>> rays = [[0.25, 0.125, 2.0], [9.0, 9.0, 9.0]], [[0.0, 0.0, -1.0]] * 2
    >>> mesh.ray.intersects_any(*rays), mesh.ray.intersects_first(*rays)
    (array([ True, False]), array([ 6, -1]))
    >>> mesh.ray.intersects_id(*rays, multiple_hits=False)[1], mesh.ray.contains_points(rays[1])
    (array([0]), array([False, False]))
    """

    # Whether a ray through an edge has one hit there, even without locations.
    _one_hit_a_point = False

    def __init__(
        self, mesh: trimesh.Trimesh | None = None, scale_to_box: bool = True, *,
        geometry: trimesh.Trimesh | None = None,
    ) -> None:  # fmt: skip
        given = geometry if mesh is None else mesh
        if given is None or (mesh is not None and geometry is not None):
            raise TypeError("RayMeshIntersector takes one mesh, as mesh or as geometry")
        self.mesh = given
        self._scale_to_box = scale_to_box

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mesh!r})"

    def intersects_id(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, return_locations: Flag = False,
        multiple_hits: Flag = True, max_hits: Flag = None, **kwargs: object,
    ) -> Found:  # fmt: skip
        """Find the faces that rays hit: (index_tri, index_ray), as in trimesh.

        With `return_locations` also locations, shape (h, 3); a ray through an edge or a vertex then
        has one hit there, with the lowest of its faces, otherwise one with each of them. Of more
        than `max_hits` hits of a ray, the nearest are returned. Other keywords are ignored.

        Positional arguments may also be in the order of trimesh's Embree class, which is
        (multiple_hits, max_hits, return_locations): the fourth of five is then a number, and above
        1 if there is no fifth. If only a third is given, it is `return_locations`.
        """
        if is_flag(max_hits) or not (is_flag(multiple_hits) or multiple_hits in (0, 1, None)):
            # The order of the Embree class: its limit is a number above 1 in the place of
            # `multiple_hits`; or any number, if a flag follows it.
            multiple, limit, locate = return_locations, multiple_hits, bool(max_hits)
            return self._hits(ray_origins, ray_directions, locate, multiple, limit)
        return self._hits(ray_origins, ray_directions, return_locations, multiple_hits, max_hits)

    def intersects_location(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, multiple_hits: bool = True,
        max_hits: int | None = None, **kwargs: object,
    ) -> tuple[Floats, Ids, Ids]:  # fmt: skip
        """Find the points where rays hit the mesh, each once; arguments as in `intersects_id`.

        Returns (locations, index_ray, index_tri), shapes (h, 3), (h,) and (h,). Locations are
        accurate to some units in the last place of the face's coordinates, however far away the
        origin is; the face is the lowest of those at that point.
        """
        locate = True
        hits = self._hits(ray_origins, ray_directions, locate, multiple_hits, max_hits)
        face, ray, *points = hits
        return points[0], ray, face

    def intersects_first(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, **kwargs: object
    ) -> Ids:
        """Return the face that each ray hits first, -1 for a miss, as in trimesh."""
        tree, *rays = self._cast(ray_origins, ray_directions, alone=True)
        return np.array(tree.closest_hit(*rays).prim_id, np.int64).reshape(-1)

    def intersects_any(
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, **kwargs: object
    ) -> NDArray[np.bool_]:
        """Return which rays hit the mesh, as in trimesh."""
        tree, *rays = self._cast(ray_origins, ray_directions, alone=True)
        return np.array(tree.any_hit(*rays), np.bool_).reshape(-1)

    def contains_points(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Return which points are inside the mesh, as in `bvh.compat.trimesh.contains`."""
        return contains(self.mesh, points)

    def _cast(
        self, origins: ArrayLike, directions: ArrayLike, alone: bool = False
    ) -> tuple[BVH, Floats, Floats]:
        """Return the tree and checked rays (n, 3); (3,), which is faster, for one if `alone`."""
        o, d = rows("ray_origins", origins), rows("ray_directions", directions)
        if o.shape != d.shape:
            raise ValueError(
                f"ray_directions must have the shape {o.shape} of ray_origins, got {d.shape}"
            )
        tree = tree_of(self.mesh)
        return (tree, o[0], d[0]) if alone and len(o) == 1 else (tree, o, d)

    def _hits(
        self, origins: ArrayLike, directions: ArrayLike, locate: Flag, multiple: Flag, limit: Flag
    ) -> Found:
        """Return the faces (h,) and rays (h,) of hits, and with `locate` also locations (h, 3).

        `multiple` asks for all hits of a ray, else the nearest; `limit` is the most for each ray.
        """
        tree, o, d = self._cast(origins, directions)
        if limit is not None:
            limit = whole_number("max_hits", limit)
        keep: Any = slice(None)  # the hits to return: all, or a mask
        hits: Hits | AllHits
        if not multiple:
            hits = tree.closest_hit(o, d)
            ray = np.flatnonzero(hits.mask)
            hits = hits[ray]
        else:
            unique = bool(locate) or self._one_hit_a_point
            hits = tree.all_hits(o, d, max_hits=None if unique else limit)
            ray = hits.ray_id
            if unique:
                # t is correctly rounded, so at an edge it is the same for all faces.
                keep = np.ones(len(ray), np.bool_)
                keep[1:] = (ray[1:] != ray[:-1]) | (hits.t[1:] != hits.t[:-1])
                if limit is not None:
                    keep = _nearest(ray, keep, limit)
        ray, face = ray[keep].astype(np.int64), hits.prim_id[keep].astype(np.int64)
        if not locate:
            return face, ray
        # v0 + u (v1 - v0) + v (v2 - v0): unlike `hits.position` exact on faces of constant x, y or
        # z. A coordinate that the ray does not change is the origin's.
        corners, u, v = tree.vertices[tree.faces[face]], hits.u[keep, None], hits.v[keep, None]
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        with np.errstate(over="ignore", invalid="ignore"):
            points = np.where(d[ray] == 0.0, o[ray], a + u * (b - a) + v * (c - a))
        if multiple and len(ray) > 1:
            # Two faces may be closer together than coordinates resolve.
            keep = np.append(True, (ray[1:] != ray[:-1]) | (points[1:] != points[:-1]).any(axis=1))
            if not keep.all():
                face, ray, points = face[keep], ray[keep], points[keep]
        return face, ray, points


def is_flag(value: object) -> bool:
    """Return whether a value is True or False, not a number."""
    return isinstance(value, bool | np.bool_)


def _nearest(ray: Ids, keep: NDArray[np.bool_], limit: int) -> NDArray[np.bool_]:
    """Return the mask `keep` (h,) of hits with only the first `limit` hits of each ray left True.

    `ray` (h,) has the ray of each hit, in ascending order.
    """
    chosen = np.flatnonzero(keep)
    # For each hit in `chosen`, the place there of the first hit of its ray.
    first = np.searchsorted(ray[chosen], ray[chosen])
    result = np.zeros(len(ray), np.bool_)
    result[chosen[np.arange(len(chosen)) - first < limit]] = True
    return result
