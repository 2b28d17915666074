"""Tasks of clearances: the distance between a mesh and itself moved, one pose a call.

The second mesh is turned, and apart by its extent, by a hundredth of it, or moved into the first.
Then it moves a thousandth of its extent from pose to pose, and each query is given the last answer.
fcl's distances are within its tolerances, and not above 0 where meshes touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from ..peers.caster import Caster, Query
from .rays import each
from .task import Picked, Setting, Task

Reals = NDArray[np.float64]

POSES = 16
# Gaps between both meshes, and the step of the one that moves, by the mesh's extent.
GAPS = {"apart": 1.0, "near": 0.01, "touching": -0.1}
STEP = 1e-3
# Faces of a sample that are measured against all of the other mesh.
SAMPLE = 8
# Of float64 in the brute force, and of fcl, by the mesh's extent.
ERROR, PEERS_ERROR = 1e-9, 1e-6


def clearances(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of distances of a mesh."""
    rng = np.random.default_rng(0)
    tree, size = setting.tree, float(np.ptp(setting.scene.vertices, axis=0).max())
    for name, gap in GAPS.items():
        path = [pose_at(tree, gap * size, turned(rng), rng.normal(size=3)) for _ in range(POSES)]
        yield task_of(f"clearance, {name}", setting, np.array(path))
    start = pose_at(tree, 0.1 * size, turned(rng), rng.normal(size=3))
    steps = np.tile(start, (POSES + 1, 1, 1))
    steps[1:, :3, 3] += np.cumsum(rng.normal(size=(POSES, 3)) * (STEP * size / 3**0.5), axis=0)
    yield task_of("clearance, moving", setting, steps[1:], steps[0])


def task_of(name: str, setting: Setting, poses: Reals, before: Reals | None = None) -> Task:
    """Return the task of the distances in some poses; hinted with the last if there is one."""
    tree, size = setting.tree, float(np.ptp(setting.scene.vertices, axis=0).max())
    ask = partial(tree.distance_to, tree, threads=setting.threads)
    right = [ask(pose) for pose in poses]
    calls = {"bvh": each(ask, [(pose,) for pose in poses])}
    if before is not None:
        hints = [ask(before), *right[:-1]]
        known = list(zip(poses, hints, strict=True))
        calls["bvh, hinted"] = each(lambda pose, hint: ask(pose, hint=hint), known)

    def check() -> None:
        against_brute_force(tree, poses[0], right[0], size)
        for hint, pose in pairwise(range(POSES)):
            again = ask(poses[pose], hint=right[hint])
            if again.distance != right[pose].distance:
                raise SystemExit(f"wrong answer: a hint changes a distance, {again.distance}")

    def asked(peer: Caster, picked: Picked) -> Query | None:
        return peer.query("distances", poses[picked])

    def agreement(found: Reals, picked: Picked) -> float:
        ours = np.array([right[i].distance for i in picked])
        return float(np.mean(np.abs(np.maximum(found, 0.0) - ours) <= PEERS_ERROR * size))

    facts = {"distance": float(np.mean([answer.distance for answer in right]))}
    return Task(name, "query", POSES, setting.scene, calls, check, asked, agreement, facts)


def turned(rng: np.random.Generator) -> Reals:
    """Return a random rotation."""
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return np.asarray(axes * np.sign(np.linalg.det(axes)))


def pose_at(tree: bvh.BVH, gap: float, rotation: Reals, direction: Reals) -> Reals:
    """Return the pose in which a tree is about so far from itself, in a direction."""
    direction, middle = direction / np.linalg.norm(direction), tree.bounds.mean(axis=0)
    pose, reach = np.eye(4), 2.0 * float(np.linalg.norm(np.ptp(tree.bounds, axis=0)))
    pose[:3, :3] = rotation
    for _ in range(60):
        pose[:3, 3] = middle - rotation @ middle + reach * direction
        found = tree.distance_to(tree, pose)
        if found.distance <= max(gap, 0.0) * 1.001 + 1e-6 * reach:
            break
        reach -= max(found.distance - max(gap, 0.0), 1e-7 * reach)
    pose[:3, 3] += min(gap, 0.0) * direction
    return pose


def against_brute_force(tree: bvh.BVH, pose: Reals, found: Any, size: float) -> None:
    """Measure the found face, and a sample, against all faces; SystemExit if one is nearer."""
    corners = tree.vertices[tree.faces]
    moved = corners @ pose[:3, :3].T + pose[:3, 3]
    error = ERROR * size
    first = min_distance(corners[found.prim_id[0]], moved[found.prim_id[1]][None])
    if found.distance == 0.0:
        # Faces that cross are at a distance of no two edges.
        gap = np.abs(found.position[0] - found.position[1]).max()
        wrong = gap > error or not tree.overlap_tree(tree, pose).size
    else:
        sample = range(0, len(corners), max(1, len(corners) // SAMPLE))
        others = min(min_distance(corners[i], moved) for i in (found.prim_id[0], *sample))
        wrong = abs(first - found.distance) > error or others < found.distance - error
    if wrong:
        raise SystemExit(f"wrong answer: a distance of {found.distance} between faces {first}")


def min_distance(face: Reals, faces: Reals) -> float:
    """Return the distance of a face from many that it does not cross: of edges, and of vertices."""
    best = [bvh.BVH.from_triangles(face, [[0, 1, 2]]).distance(faces.reshape(-1, 3)).min()]
    near = bvh.BVH.from_triangles(faces.reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3))
    best.append(near.distance(face).min())
    for i in range(3):
        for j in range(3):
            best.append(of_edges(face[i], face[i - 1], faces[:, j], faces[:, j - 1]).min())
    return float(min(best))


def of_edges(p: Reals, q: Reals, r: Reals, s: Reals) -> Reals:
    """Return distances of line pq from lines rs (n, 3); inf unless nearest points are on edges."""
    u, v, w = q - p, s - r, p - r
    a, b, c = u @ u, v @ u, (v * v).sum(axis=1)
    d, e = w @ u, (w * v).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (b * e - c * d) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)
        gaps = np.linalg.norm(w + x[:, None] * u - y[:, None] * v, axis=1)
        inside = (x >= 0.0) & (x <= 1.0) & (y >= 0.0) & (y <= 1.0)
    return np.asarray(np.where(inside, gaps, np.inf))
