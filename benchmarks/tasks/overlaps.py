"""Tasks of overlaps: of two meshes, of a mesh with itself, and of regions with its faces.

The second mesh is the first, moved by a tenth of its extent. fcl knows a pair by its contacts, and
stops at 100 000; it decides in float64 with tolerances. rtree finds faces whose boxes meet a box:
candidates, which would have to be tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from .rays import each
from .task import Picked, Setting, Task

Pairs = NDArray[np.int64]

REGIONS = 1_000
# Faces and regions of a sample.
SAMPLE = 20
# An edge as a ray is rounded; its last part is left out.
INSIDE = 1.0 - 1e-6


def overlaps(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of overlaps of a mesh."""
    yield of_two(setting)
    yield of_itself(setting)
    yield of_regions(setting)


def of_two(setting: Setting) -> Task:
    """Return the task of finding all pairs of a mesh and the moved one."""
    mesh, tree = setting.scene, setting.tree
    moved = mesh.vertices + np.ptp(mesh.vertices, axis=0) / 10.0
    other = bvh.BVH.from_triangles(moved, mesh.faces)
    pairs = tree.overlap_tree(other)
    return Task(
        "two meshes", "call", 1, mesh,
        {"bvh": partial(tree.overlap_tree, other, threads=setting.threads)},
        partial(validate, pairs, mesh.vertices[mesh.faces], moved[mesh.faces]),
        lambda peer, picked: peer.query("overlaps", moved),
        lambda found, picked: common(pairs, found), {"pairs": len(pairs)},
    )  # fmt: skip


def of_itself(setting: Setting) -> Task:
    """Return the task of finding the faces of a mesh that intersect each other."""
    mesh, tree = setting.scene, setting.tree
    pairs, triangles = tree.self_overlaps(), mesh.vertices[mesh.faces]
    pairs = pairs[~sharing(*np.moveaxis(mesh.faces[pairs], 1, 0))]
    both = np.vstack([pairs, pairs[:, ::-1]])
    return Task(
        "itself", "call", 1, mesh, {"bvh": partial(tree.self_overlaps, threads=setting.threads)},
        partial(validate, both, triangles, triangles, mesh.faces),
        lambda peer, picked: None, facts={"pairs": len(pairs)},
    )  # fmt: skip


def of_regions(setting: Setting) -> Task:
    """Return the task of finding the faces in small boxes and balls around vertices."""
    mesh, tree, threads = setting.scene, setting.tree, setting.threads
    rng = np.random.default_rng(0)
    middle = mesh.vertices[rng.integers(0, len(mesh.vertices), REGIONS)]
    radius = 0.01 * float(np.ptp(mesh.vertices, axis=0).max())
    low, high = middle - radius, middle + radius
    right, balls = tree.overlap_box(low, high), tree.overlap_sphere(middle, radius)
    calls = {
        "bvh": partial(tree.overlap_box, low, high, threads=threads),
        "bvh, balls": partial(tree.overlap_sphere, middle, radius, threads=threads),
        "bvh, one by one": each(tree.overlap_box, list(zip(low, high, strict=True))),
    }

    def check() -> None:
        """Find all faces with a vertex inside; no face whose box is apart."""
        triangles = mesh.vertices[mesh.faces]
        for i in range(SAMPLE):
            apart = (triangles.min(1) > high[i]).any(1) | (triangles.max(1) < low[i]).any(1)
            offsets = np.abs(triangles - middle[i])
            for ids, order in ((right[i], np.inf), (balls[i], 2)):
                size = np.linalg.norm(offsets, order, axis=2)
                inside = np.flatnonzero(size.min(axis=1) < 0.999 * radius)
                if apart[ids].any() or np.setdiff1d(inside, ids).size:
                    raise SystemExit("wrong answer: faces in a region")

    def contained(found: list[list[int]], picked: Picked) -> float:
        pairs = zip(picked, found, strict=True)
        return float(np.mean([np.isin(right[i], ids).all() for i, ids in pairs]))

    return Task(
        "regions", "box", REGIONS, mesh, calls, check,
        lambda peer, picked: peer.query("boxes", low[picked], high[picked]), contained,
    )  # fmt: skip


def common(ours: Pairs, theirs: Pairs) -> float:
    """Return the share of pairs that are in both lists."""
    mine, other = ({tuple(pair) for pair in pairs.tolist()} for pairs in (ours, theirs))
    return len(mine & other) / max(1, len(mine | other))


def sharing(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which faces share a vertex."""
    return (a[..., :, None] == b[..., None, :]).any(axis=(-2, -1))


def validate(pairs: Pairs, a: NDArray[Any], b: NDArray[Any], faces: Any = None) -> None:
    """Compare the pairs of a sample of triangles with brute force: the edges that hit the other.

    SystemExit if a pair is missing, or is there and its boxes are apart.
    """
    with_pairs = pairs[:: max(1, len(pairs) // SAMPLE), 0][:SAMPLE]
    for i in {*with_pairs.tolist(), *range(0, len(a), max(1, len(a) // SAMPLE))}:
        expected = np.zeros(len(b), bool)
        for k in range(3):
            edge, edges = a[i, k - 2] - a[i, k], b[:, k - 2] - b[:, k]
            mine = bvh.ray_triangle(a[i, k], edge, *np.moveaxis(b, 1, 0), t_max=INSIDE)
            theirs = bvh.ray_triangle(b[:, k], edges, *a[i], t_max=INSIDE)
            expected |= mine.hit | theirs.hit
        if faces is not None:
            expected &= ~sharing(faces[i], faces)
        apart = (b.min(1) > a[i].max(0)).any(1) | (b.max(1) < a[i].min(0)).any(1)
        found = np.zeros(len(b), bool)
        found[pairs[pairs[:, 0] == i, 1]] = True
        if (expected & ~found).any() or (apart & found).any():
            raise SystemExit(f"wrong answer: the faces that intersect face {i}")
