"""Meshes of a collision manager: trees in a scene, which are solid, and where they touch."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from bvh.compat.collisions.contact_data import (
    ContactData,
    DistanceData,
    Names,
    Reals,
    common_points,
)
from bvh.geometry.transforms import moved
from bvh.queries.answers.locations import normals_of
from bvh.queries.results import ScenePairs
from bvh.runtime.arguments import thread_count
from bvh.scene.instance_contacts import candidates, find_closest, find_touching
from bvh.scene.instance_pairs import find_leaf_pairs
from bvh.scene.scene import Scene
from bvh.scene.scene_view import SceneView

NO_PAIRS = np.empty(0, np.int64)
NO_NORMAL = np.full(3, np.nan)


# A mesh, or a part of it, inside a solid one: ids of the pair, and a vertex that is inside.
Inside = tuple[int, int, Reals]


class ManagedMeshes:
    """Meshes by their names, in a scene, and queries of two sets of them."""

    def __init__(self) -> None:
        self._scene = Scene()
        self._ids: dict[Hashable, int] = {}
        # The names of meshes by their ids, and the ids of solid ones.
        self._names: dict[int, Hashable] = {}
        self._solid: set[int] = set()

    def _id(self, name: Hashable) -> int:
        if name not in self._ids:
            raise ValueError(f"{name} not in collision manager!")
        return self._ids[name]

    def _only(self, name: Hashable) -> ManagedMeshes:
        """Return a manager of the mesh with a name alone."""
        found, number = ManagedMeshes(), self._id(name)
        one = self._scene[number]
        copied = found._scene.add(one.child, one.transform)
        found._ids[name], found._names[copied] = copied, name
        found._solid = {copied} if number in self._solid else set()
        return found

    def _views(self, other: ManagedMeshes) -> tuple[SceneView, SceneView]:
        view = self._scene.view()
        return view, view if other is self else other._scene.view()

    def _pair(self, other: ManagedMeshes, first: int, second: int) -> Names:
        return self._names[first], other._names[second]

    def _colliding(
        self, other: ManagedMeshes, named: bool, detailed: bool
    ) -> tuple[bool, set[Names], list[ContactData]]:
        """Return whether meshes collide with those of another manager, or with each other.

        The names of all pairs that collide are returned if `named` or `detailed`, their contacts if
        `detailed`; otherwise the search ends at the first pair.
        """
        (view, content), threads = self._views(other), thread_count(None)
        any_one = not (named or detailed)
        touching = find_touching(view, content, NO_PAIRS, threads, None, any_one)
        inside = [] if any_one and len(touching) else self._inside(other, touching, any_one)
        pairs = [*map(tuple, touching.tolist()), *(one[:2] for one in inside)]
        names = {self._pair(other, *pair) for pair in pairs}
        data = self._contacts(other) if detailed and len(touching) else []
        for first, second, point in inside if detailed else ():
            pair = self._pair(other, first, second)
            data.append(ContactData(pair, (-1, -1), NO_NORMAL, point))
        return len(pairs) > 0, names, data

    def _contacts(self, other: ManagedMeshes) -> list[ContactData]:
        """Return all pairs of faces that touch."""
        view, content = self._views(other)

        # In one manager each pair of leaves once, and none with itself.
        def compared(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
            return first < second if content is view else np.ones(len(first), np.bool_)

        found = find_leaf_pairs(view, content, None, False, thread_count(None), None, compared)
        corners = [_corners(side, found, k) for k, side in enumerate((view, content))]
        points, normals = common_points(*corners), normals_of(corners[0])
        owners, faces = found.instance_id.tolist(), found.prim_id.tolist()
        return [
            ContactData(self._pair(other, *pair), (a, b), normal, point)
            for pair, (a, b), normal, point in zip(owners, faces, normals, points, strict=True)
        ]

    def _inside(
        self, other: ManagedMeshes, touching: NDArray[np.int32], any_one: bool,
        ignored: NDArray[np.int64] = NO_PAIRS,
    ) -> list[Inside]:  # fmt: skip
        """Return which meshes are inside solid ones; if `any_one`, only the first that is found.

        Pairs in `touching`, and those in `ignored`, see `candidates`, are left out.
        """
        if not (self._solid or other._solid):
            return []
        view, content = self._views(other)
        pairs = candidates(view, content, ignored, 0.0, thread_count(None)).owners
        touch, found = set(map(tuple, touching.tolist())), list[Inside]()
        for first, second in np.unique(pairs, axis=0).tolist():
            if (first, second) in touch:
                continue
            point = self._inner_point(other, first, second)
            if point is not None:
                found.append((first, second, point))
                if any_one:
                    break
        return found

    def _inner_point(self, other: ManagedMeshes, first: int, second: int) -> Reals | None:
        """Return a vertex of one of two meshes that is inside the other, if that is solid."""
        sides = [(self, first), (other, second)]
        for (manager, number), (their, inner) in (sides, sides[::-1]):
            if number not in manager._solid:
                continue
            solid, one = manager._scene[number], their._scene[inner]
            used = one.child.vertices[np.unique(one.child.faces)]
            # No face meets the solid's: a connected mesh is inside if one vertex is.
            used = used[np.isfinite(used).all(axis=1)]
            used = used[:1] if inner in their._solid else used
            points = moved(used, one.transform[:3])
            alone = Scene()
            alone.add(solid.child, solid.transform)
            low, high = alone.bounds
            points = points[((low <= points) & (points <= high)).all(axis=1)]
            points = points[alone.contains(points)] if len(points) else points
            if len(points):
                return np.asarray(points[0])
        return None

    def _nearest(
        self, other: ManagedMeshes, excluded: int | None = None
    ) -> tuple[float, Names, DistanceData | None]:
        """Return the distance of the nearest meshes, their names, and where they are nearest."""
        # The mesh with the id `excluded` is not compared with the only one of the other manager.
        view, content = self._views(other)
        # A pair to ignore is the first id times 2**32, plus the second, which is 0 here.
        ignored = NO_PAIRS if excluded is None else np.array([excluded << 32])
        found = find_closest(view, content, ignored, thread_count(None))
        if len(found) == 0:
            return np.inf, (None, None), None
        if found.distance[0] > 0.0:
            inside = self._inside(other, np.empty((0, 2), np.int32), True, ignored)
            for first, second, point in inside:
                names, points = self._pair(other, first, second), np.stack([point, point])
                return 0.0, names, DistanceData(names, (-1, -1), points, 0.0)
        names = self._pair(other, *found.instance_id[0].tolist())
        distance, (face, face2) = float(found.distance[0]), found.prim_id[0].tolist()
        return distance, names, DistanceData(names, (face, face2), found.position[0], distance)


def _corners(view: SceneView, pairs: ScenePairs, side: int) -> Reals:
    """Return the corners of the faces on one side of pairs in the world, (m, 3, 3)."""
    leaf, prim = pairs.leaf[:, side], pairs.prim_id[:, side]
    corners = np.empty((len(leaf), 3, 3))
    for k in np.unique(leaf).tolist():
        rows = leaf == k
        triangles = view.trees[view.tree_of[k]].primitives
        local = triangles.points[triangles.faces[prim[rows]]]
        corners[rows] = moved(local.reshape(-1, 3), view.maps[k]).reshape(-1, 3, 3)
    return corners
