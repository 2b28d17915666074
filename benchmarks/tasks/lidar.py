"""Task of a lidar: frames with positions, normals and labels in a street of instances.

At 20 frames a second a frame has 50 ms. Answers are compared with those of the mesh that all
instances make together, and with brute force. Peers cast their rays at that mesh; they have no
positions, normals or labels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import bvh

from ..peers.caster import Call
from ..scenes import Scene, generator
from ..workloads import Floats, Workload
from .motion import steps
from .rays import batch
from .task import Setting, Task
from .validation import against_brute_force

COUNT = 461
BEAMS, STEPS = 64, 1800
SENSOR = np.array([3.0, 0.4, 1.9])


def lidar(setting: Setting) -> Iterator[Task]:
    """Yield the task of a frame: of a scene that stays, and of one whose cars drive on."""
    scene = street(setting.options["instances"] or COUNT)
    vertices, faces, leaf, prim_id = scene.flattened()
    mesh = Scene(f"street of {len(scene)} instances", vertices, faces)
    tree = bvh.BVH.from_triangles(vertices, faces)
    beams, threads = turn(), setting.threads
    cars = np.array([one.id for one in scene if (one.name or "").startswith("car")])
    maps = np.tile([scene[int(car)].transform for car in cars], (8, 1, 1, 1))
    maps[:, :, 0, 3] += np.linspace(0.0, 3.5, 8)[:, None]

    def frame() -> tuple[Floats, Floats, object]:
        hits = scene.closest_hit(SENSOR, beams, threads=threads)
        return hits.position, hits.normal, scene.names(hits.instance_id, missing="")

    def check() -> None:
        hits, flat = scene.closest_hit(SENSOR, beams), tree.closest_hit(SENSOR, beams)
        same = [(getattr(hits, name), getattr(flat, name)) for name in ("position", "normal", "t")]
        same.append((hits.leaf[hits.mask], leaf[flat.prim_id[flat.mask]]))
        same.append((hits.prim_id[hits.mask], prim_id[flat.prim_id[flat.mask]]))
        if not all(np.array_equal(*pair, equal_nan=True) for pair in same):
            raise SystemExit("wrong answer: the street and its mesh differ")
        # As numpy has them, from the corners.
        some = hits[hits.mask]
        corners = vertices[faces[flat.prim_id[flat.mask]]]
        weights = np.stack([1.0 - some.u - some.v, some.u, some.v], axis=-1)
        cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        wanted = cross / np.linalg.norm(cross, axis=-1, keepdims=True)
        near = np.allclose(some.position, np.einsum("nk,nkd->nd", weights, corners))
        if not (near and np.allclose(some.normal, wanted)):
            raise SystemExit("wrong answer: positions or normals")
        against_brute_force(tree, work, count=8)

    def drive(moved: Floats) -> object:
        scene.set_transforms(cars, moved)
        return frame()

    flat_beams = beams.reshape(-1, 3)
    work = Workload("lidar", "closest_hit", np.tile(SENSOR, (len(flat_beams), 1)), flat_beams)
    task = batch(tree, work, threads, mesh)
    calls: dict[str, Call] = {
        "bvh": task.ours["bvh"],
        "bvh, frame": frame,
        "bvh, frame, cars drive": steps(drive, maps),
        "bvh, rays in scene": partial(scene.closest_hit, SENSOR, beams, threads=threads),
        "bvh, rays in one mesh": partial(tree.closest_hit, SENSOR, beams, threads=threads),
    }
    yield task._replace(ours=calls, check=check)


def turn(beams: int = BEAMS, around: int = STEPS) -> Floats:
    """Return the unit directions of a turn of a scanner, shape (beams, around, 3)."""
    angle = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    dip = np.radians(np.linspace(-25.0, 5.0, beams))[:, None]
    x, y = np.cos(dip) * np.cos(angle), np.cos(dip) * np.sin(angle)
    return np.stack([x, y, np.broadcast_to(np.sin(dip), x.shape)], axis=-1)


def street(count: int = COUNT) -> bvh.Scene:
    """Return the scene of `meshes/street.py` with so many instances."""
    shapes = generator("street", "geometries")()
    trees = {name: bvh.BVH.from_triangles(*mesh) for name, mesh in shapes.items()}
    scene = bvh.Scene()
    for name, shape, matrix in generator("street", "placements")(count):
        scene.add(trees[shape], matrix, name=name)
    return scene
