"""Tasks of the drop-in: `mesh.ray` and `mesh.nearest` of trimesh with bvh, and with its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import bvh
from bvh.compat.trimesh import ProximityQuery, RayMeshIntersector

from ..peers.caster import Caster, Query
from ..scenes import Scene
from ..workloads import Workload
from .points import validate
from .task import Picked, Setting, Task
from .validation import hits_against_brute_force

# Rays in small batches, and of one of them.
SMALL, FEW = 10_000, 100


def drop_in(setting: Setting, level: int = 5) -> Iterator[Task]:
    """Yield the methods of rays, `contains`, and the nearest point, on an icosphere.

    Answers are compared with those of a tree, which are compared with brute force.
    """
    import trimesh

    mesh = trimesh.creation.icosphere(subdivisions=level)
    scene = Scene("icosphere", np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int32))
    tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
    rng, rays = np.random.default_rng(1), setting.options["points"]
    o = rng.normal(size=(rays, 3)) * 3.0
    d = rng.normal(size=o.shape) * 0.5 - o
    points = rng.normal(size=(rays // 10, 3))

    def owner(name: str, peer: Caster | None) -> Any:
        """Return the class that has a method: bvh's, or trimesh's own on a peer."""
        if name == "on_surface":
            own = {"r-tree": trimesh.proximity.ProximityQuery}
            return own.get(peer.name) if peer else ProximityQuery
        own = {"embreex": "ray_pyembree", "r-tree": "ray_triangle"}
        if peer and peer.name in own:
            return getattr(trimesh.ray, own[peer.name]).RayMeshIntersector
        return None if peer else RayMeshIntersector

    def task(
        name: str, inputs: Any, right: Any, values: Any = lambda found, at: found, size: int = 0
    ) -> Task:
        """Return the task of a method, in batches of some size if one is given."""
        every = np.arange(len(right))

        def query(peer: Caster | None, at: Picked) -> Query | None:
            kind = owner(name, peer)
            if kind is None:
                return None
            method, parts = getattr(kind(mesh), name), [at]
            if size:
                parts = [at[begin : begin + size] for begin in range(0, len(at), size)]
            batches = [[each[part] for each in inputs] for part in parts]

            def answers(found: list[Any]) -> Any:
                pairs = zip(found, parts, strict=True)
                return np.concatenate([values(one, part) for one, part in pairs])

            return Query(lambda: [method(*batch) for batch in batches], answers)

        def agreement(found: Any, at: Picked) -> float:
            return float(np.mean(np.isclose(found, right[at], 1e-6, 0.0)))

        def check() -> None:
            hits_against_brute_force(tree, Workload("drop-in", "closest_hit", o, d), 40)
            validate(tree, points)
            if agreement(ours.values(ours.call()), every) < 1.0:
                raise SystemExit(f"wrong answer: {name}")

        ours, unit = query(None, every), "ray" if len(inputs) == 2 else "point"
        title = f"{name}, batches of {size}" if size else name
        return Task(title, unit, len(right), scene, {"bvh": ours.call}, check, query, agreement)

    def distances(found: Any, at: Picked) -> Any:
        """Return the sum of the distances of all hits of a ray."""
        where, ray, _ = found
        return np.bincount(ray, np.linalg.norm(where - o[at][ray], axis=1), len(at))

    hits, every = tree.closest_hit(o, d), tree.all_hits(o, d)
    lengths = every.t * np.linalg.norm(d[every.ray_id], axis=1)
    yield task("intersects_first", (o, d), hits.prim_id)
    yield task("intersects_any", (o, d), hits.mask)
    sums = np.bincount(every.ray_id, lengths, rays)
    yield task("intersects_location", (o, d), sums, distances)
    few = min(rays, SMALL)
    for name, right, values in (
        ("intersects_first", hits.prim_id, lambda found, at: found),
        ("intersects_location", sums, distances),
    ):
        yield task(name, (o[:few], d[:few]), right[:few], values, size=FEW)
    yield task("contains_points", (points,), tree.contains(points))
    yield task("on_surface", (points,), tree.closest_point(points).distance,
               lambda found, at: np.linalg.norm(found[0] - points[at], axis=1))  # fmt: skip
