"""`EmbreeScene`: meshes under one tree, and queries of rays with embreex's arguments."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from trimesh.util import append_faces

from bvh.compat.embreex.rtcore import EmbreeDevice
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import check_option, rows

QUERIES = ("INTERSECT", "OCCLUDED", "DISTANCE")
# The largest t, unless `dists` are given, as in embreex.
FAR = np.float32(1e37)


class EmbreeScene:
    """A scene of triangles with the interface of embreex's; hits are exact.

    Parameters
    ----------
    device, robust
        Ignored, as embreex's settings of devices and accuracy have no effect here.
    """

    def __init__(self, device: EmbreeDevice | None = None, robust: bool = True) -> None:
        self.device = device or EmbreeDevice()
        self._meshes: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
        self._tree: BVH | None = None
        # The first face of each mesh in the tree, and at the end the number of faces.
        self._begins = np.zeros(1, np.int64)

    @property
    def is_committed(self) -> int:
        """Whether the tree of the meshes is built, 0 or 1; the first query builds it."""
        return int(self._tree is not None)

    @property
    def tree(self) -> BVH:
        """The tree over the faces of all meshes, in the order in which these were added."""
        if self._tree is None:
            vertices, faces = ([mesh[k] for mesh in self._meshes] for k in (0, 1))
            points, triangles = append_faces(vertices, faces)
            self._begins = np.cumsum([0, *map(len, faces)], dtype=np.int64)
            self._tree = BVH.from_triangles(points.reshape(-1, 3), triangles, warn=False)
        return self._tree

    def add_mesh(self, vertices: ArrayLike, faces: ArrayLike) -> int:
        """Add triangles (m, 3) of vertices (n, 3); return their geometry id, counted from 0."""
        self._meshes.append((np.asarray(vertices, np.float64), np.asarray(faces, np.int64)))
        self._tree = None
        return len(self._meshes) - 1

    def run(
        self, vec_origins: ArrayLike, vec_directions: ArrayLike, dists: ArrayLike | None = None,
        query: str = "INTERSECT", output: object = None,
    ) -> Any:  # fmt: skip
        """Cast rays, as ``embreex.rtcore_scene.EmbreeScene.run``.

        Parameters
        ----------
        vec_origins, vec_directions : array_like, shape (n, 3)
            Of any floats: doubles are not rounded to float32. One direction may serve all rays.
        dists : float or array_like, shape (n,), optional
            The largest t of each ray.
        query : {"INTERSECT", "OCCLUDED", "DISTANCE"}
            Which array is returned, unless `output` is True.
        output : bool, optional
            Return all fields of hits, in a dict.

        Returns
        -------
        ndarray of int32, ndarray of float32, or dict
            INTERSECT: the face in its mesh, -1 for a miss; OCCLUDED: 0 for a hit, -1 for a miss;
            DISTANCE: t, or `dists` (1e37) for a miss. With `output` arrays "u", "v", "Ng" (normals,
            not of length 1), "tfar" (t), "primID" and "geomID"; zeros and -1 for a miss.
        """
        check_option("query", query, QUERIES)
        origins = rows("vec_origins", vec_origins)
        directions = rows("vec_directions", vec_directions)
        limits = np.asarray(FAR if dists is None else dists)
        if limits.shape not in ((), (len(origins),)):
            raise ValueError(f"dists must have shape ({len(origins)},), got {limits.shape}")
        limits = np.broadcast_to(limits, len(origins))
        if query == "OCCLUDED" and not output:
            met = self.tree.any_hit(origins, directions, t_max=limits)
            return np.where(met, 0, -1).astype(np.int32)
        tree = self.tree
        hits = tree.closest_hit(origins, directions, t_max=limits)
        # -1 for a miss, whose prim_id is -1.
        geometry = (self._begins.searchsorted(hits.prim_id, "right") - 1).astype(np.int32)
        prim = np.where(hits.mask, hits.prim_id - self._begins[geometry], -1).astype(np.int32)
        far = np.where(hits.mask, hits.t, limits).astype(np.float32)
        if not output:
            return far if query == "DISTANCE" else prim
        normals = np.zeros((len(origins), 3), np.float32)
        if len(tree):
            corners = tree.vertices[tree.faces[np.where(hits.mask, hits.prim_id, 0)]]
            sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            normals[hits.mask] = sides[hits.mask]
        u, v = (np.where(hits.mask, w, 0.0).astype(np.float32) for w in (hits.u, hits.v))
        return {"u": u, "v": v, "Ng": normals, "tfar": far, "primID": prim, "geomID": geometry}
