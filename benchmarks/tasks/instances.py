"""Tasks of scenes: rays through many instances of a mesh.

No binding of Embree for Python offers its instances, so peers cast at the mesh that all instances
make together, and so does a tree of our own. Instances stand in a jittered lattice, turned and
scaled at random. The vertices of that mesh are rounded for float32; ours are exact, so a few rays
at edges hit other faces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import bvh

from ..peers.caster import Ours
from ..scenes import Scene, load
from ..workloads import Workload, workloads
from .rays import batch
from .task import Setting, Task
from .validation import against_brute_force

MESH, COUNT = "organic-16", 100
LOADS = ("primary", "diffuse", "random")


def instances(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of casting camera rays, bounced rays and random rays through a scene."""
    count = setting.options["instances"] or COUNT
    scene, mesh = lattice(load(setting.options["instance"]), count)
    tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces)
    leaf = np.append(scene.flattened()[2], -1)
    works = workloads(tree, setting.options["side"])
    for work in (replace(w, name=f"scene {w.name}") for w in works if w.name in LOADS):
        flat = tree.closest_hit(*work.rays)

        def check(work: Workload = work, flat: bvh.Hits = flat) -> None:
            hits = scene.closest_hit(*work.rays)
            if not (np.array_equal(hits.leaf, leaf[flat.prim_id]) and (hits.t == flat.t).all()):
                raise SystemExit("wrong answer: the scene and its mesh differ")
            against_brute_force(tree, work, count=4)

        task = batch(tree, work, setting.threads, mesh)
        own = Ours(scene, setting.threads).rays(work).call
        calls = {"bvh": own, "bvh, one mesh": task.ours["bvh"]}
        facts = {
            **task.facts, "instances": len(scene), "bytes": scene.nbytes,
            "bytes as one mesh": tree.stats().bytes,
        }  # fmt: skip
        yield task._replace(ours=calls, check=check, facts=facts)


def lattice(mesh: Scene, count: int, seed: int = 0) -> tuple[bvh.Scene, Scene]:
    """Return a scene of instances of a mesh of unit size, and the mesh that they make together."""
    rng = np.random.default_rng(seed)
    centre = 0.5 * (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0))
    tree = bvh.BVH.from_triangles(
        (mesh.vertices - centre) / np.ptp(mesh.vertices, axis=0).max(), mesh.faces
    )
    side = int(np.ceil(count ** (1 / 3)))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    maps = np.tile(np.eye(4), (count, 1, 1))
    turns, _ = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    maps[:, :3, :3] = turns * rng.uniform(0.5, 1.2, (count, 1, 1))
    maps[:, :3, 3] = cells[:count] + rng.uniform(-0.3, 0.3, (count, 3))
    scene = bvh.Scene()
    scene.add_many(tree, maps)
    vertices, faces, _, _ = scene.flattened()
    return scene, Scene(f"{count} x {mesh.name}", vertices, faces)
