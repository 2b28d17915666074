"""trimesh with rtree, which finds candidates that numpy tests, and with fcl."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Points, Query


class RTree(Caster):
    """trimesh's own caster, on rtree: thousands of times slower, so for a few rays only."""

    name = "r-tree"
    module = "rtree"
    distribution = "rtree"
    floats = np.float64
    ids = np.int64
    # Building takes minutes above the one, casting above the other.
    max_triangles = 100_000
    max_rays = 2_000
    one_thread = True
    note = "trimesh's own rays and proximity, float64, on rtree; candidates of boxes"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.proximity = importlib.import_module("trimesh.proximity")
        self.mesh = importlib.import_module("trimesh").Trimesh(vertices, faces, process=False)
        module = importlib.import_module("trimesh.ray.ray_triangle")
        self.caster = module.RayMeshIntersector(self.mesh)
        self.caster.intersects_first(np.ones((1, 3)), np.ones((1, 3)))

    def rays(self, work: Workload) -> Query | None:
        """Return the query for nearest hits: it has no end of a ray, as shadows need."""
        if work.query == "any_hit":
            return None
        return Query(
            lambda: self.caster.intersects_first(*work.rays),
            lambda ids: Answer(np.asarray(ids) >= 0, np.asarray(ids).astype(np.int64)),
        )

    def hits(self, work: Workload) -> Query:
        list_all, rays = self.caster.intersects_id, work.rays
        return Query(
            lambda: list_all(*rays, return_locations=True, multiple_hits=True),
            lambda found: np.bincount(found[1], minlength=len(work)),
        )

    def closest_point(self, points: Points) -> Query:
        search = self.proximity.closest_point
        return Query(lambda: search(self.mesh, points), lambda found: found[1])

    def signed_distance(self, points: Points) -> Query:
        """Return the query for signed distances, which trimesh has positive inside."""
        ask = self.proximity.signed_distance
        return Query(lambda: ask(self.mesh, points), lambda found: -found)

    def boxes(self, low: Points, high: Points) -> Query:
        """Return the query for faces whose own boxes meet each box: candidates."""
        index, boxes = self.mesh.triangles_tree, np.hstack([low, high]).tolist()
        return Query(lambda: [list(index.intersection(box)) for box in boxes], list)


class FCL(Caster):
    """fcl's `BVHModel`: the contacts of two meshes, through trimesh, and their distances."""

    name = "fcl"
    module = "fcl"
    distribution = "python-fcl"
    floats = np.float64
    ids = np.int64
    one_thread = True
    note = "overlaps: trimesh.collision, float64, up to 100 000 contacts; clearances"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.vertices, self.faces = vertices, faces
        self.manager = self._manager("a", vertices)

    def _manager(self, name: str, vertices: NDArray[np.float64]) -> Any:
        mesh = importlib.import_module("trimesh").Trimesh(vertices, self.faces, process=False)
        manager = importlib.import_module("trimesh.collision").CollisionManager()
        manager.add_object(name, mesh)
        return manager

    def overlaps(self, moved: Points) -> Query:
        """Return the query for contacts, of which a pair may have several."""
        other, find = self._manager("b", moved), self.manager.in_collision_other

        def pairs(contacts: Any) -> NDArray[np.int64]:
            found = [(contact.index("a"), contact.index("b")) for contact in contacts]
            return np.unique(np.array(found, np.int64).reshape(-1, 2), axis=0)

        return Query(lambda: find(other, return_data=True)[1], pairs)

    def distances(self, poses: NDArray[np.float64]) -> Query:
        """Return the query for distances from the mesh in other poses, with nearest points."""
        fcl = importlib.import_module("fcl")

        def model() -> Any:
            mesh = fcl.BVHModel()
            mesh.beginModel(len(self.vertices), len(self.faces))
            mesh.addSubModel(self.vertices, self.faces)
            mesh.endModel()
            return fcl.CollisionObject(mesh)

        own, other = model(), model()
        places = [fcl.Transform(pose[:3, :3], pose[:3, 3]) for pose in poses]
        request = fcl.DistanceRequest(enable_nearest_points=True)

        def ask() -> list[float]:
            found = []
            for place in places:
                other.setTransform(place)
                found.append(fcl.distance(own, other, request, fcl.DistanceResult()))
            return found

        return Query(ask, np.array)
