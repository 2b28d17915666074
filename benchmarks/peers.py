"""Other ray casters, where they are installed, under one roof: rays in, faces out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import bvh

# Rays in (origins, directions), the id of each ray's face out, -1 for a miss.
Caster = Callable[[np.ndarray, np.ndarray], np.ndarray]


def casters(vertices: np.ndarray, faces: np.ndarray) -> Iterator[tuple[str, Caster]]:
    """Yield (name, caster) for ourselves and for every peer found, each on one thread."""
    tree = bvh.BVH.from_triangles(vertices, faces)
    yield "bvh", lambda o, d: tree.closest_hit(o, d, threads=1).prim_id
    for make in (_open3d, _embreex, _trimesh):
        try:
            yield make(vertices, faces)
        except ImportError:
            continue


def _open3d(vertices: np.ndarray, faces: np.ndarray) -> tuple[str, Caster]:
    import open3d

    scene = open3d.t.geometry.RaycastingScene(nthreads=1)
    scene.add_triangles(vertices.astype(np.float32), faces.astype(np.uint32))

    def cast(o: np.ndarray, d: np.ndarray) -> np.ndarray:
        rays = np.concatenate([o, d], axis=1).astype(np.float32)
        ids = scene.cast_rays(open3d.core.Tensor(rays))["primitive_ids"].numpy()
        return np.where(ids == scene.INVALID_ID, -1, ids.astype(np.int64))

    return "Embree (Open3D)", cast


def _embreex(vertices: np.ndarray, faces: np.ndarray) -> tuple[str, Caster]:
    from embreex import rtcore_scene
    from embreex.mesh_construction import TriangleMesh

    scene = rtcore_scene.EmbreeScene()
    mesh = TriangleMesh(scene, vertices[faces].astype(np.float32))

    def cast(o: np.ndarray, d: np.ndarray, mesh: object = mesh) -> np.ndarray:
        return np.asarray(scene.run(o.astype(np.float32), d.astype(np.float32)))

    return "Embree (embreex)", cast


def _trimesh(vertices: np.ndarray, faces: np.ndarray) -> tuple[str, Caster]:
    import rtree  # noqa: F401  (trimesh's own ray caster needs it)
    import trimesh
    from trimesh.ray.ray_triangle import RayMeshIntersector

    caster = RayMeshIntersector(trimesh.Trimesh(vertices, faces, process=False))

    def cast(o: np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.asarray(caster.intersects_first(o, d))

    return "trimesh r-tree", cast
