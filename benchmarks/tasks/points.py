"""Tasks of points: nearest points, signed distances, winding numbers.

Of a peer's distances those agree that are no nearer and no further than ours, and of the same sign,
to what float32 resolves; of winding numbers those whose error is that of a series of three terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import bvh
from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.tree.primitives import corners

from ..peers.caster import Points
from ..workloads import dashed
from .task import Setting, Task

QUERIES = ("closest point", "signed distance", "winding number")
KINDS = ("at the surface", "near it", "in the box", "far away")
# Kinds that are measured by default.
USUAL = ("near it", "in the box")
SAMPLE = 50
# Resolution of float32, in sizes of the mesh.
AGREES = 2e-5
# Bounds of the error of our winding numbers, and of a peer's.
WINDING_ERROR, WINDING_AGREES = 1e-3, 2e-2


def points(setting: Setting) -> Iterator[Task]:
    """Yield the queries that are asked for, each about several kinds of points."""
    tree = setting.tree
    kinds = samples(tree, setting.options["points"])
    for query in (query for query in QUERIES if dashed(query) in setting.tasks):
        for kind in KINDS if setting.options["full"] else USUAL:
            yield point_task(setting, query, kind, kinds[kind])


def samples(tree: bvh.BVH, count: int) -> dict[str, Points]:
    """Return points near the surface, anywhere in the box, and outside of it; as float32 holds."""
    rng = np.random.default_rng(0)
    faces = tree.vertices[tree.faces]
    lower, upper = tree.bounds
    weights = rng.dirichlet(np.ones(3), count)
    on = np.einsum("nk,nkx->nx", weights, faces[rng.integers(0, len(faces), count)])
    away = rng.normal(size=(count, 3)) * (upper - lower).max()
    inside = rng.uniform(lower, upper, (count, 3))
    kinds = on + 1e-3 * away, on + 2e-2 * away, inside, 0.5 * (lower + upper) + 5.0 * away
    rounded = [where.astype(np.float32).astype(np.float64) for where in kinds]
    return dict(zip(KINDS, rounded, strict=True))


def point_task(setting: Setting, query: str, kind: str, where: Points) -> Task:
    """Return the task of one query about points of one kind."""
    tree, method = setting.tree, query.replace(" ", "_")
    ours = partial(getattr(tree, method), where, threads=setting.threads)
    right = ours().distance if method == "closest_point" else ours()
    margin = np.full(len(where), WINDING_AGREES)
    if query != "winding number":
        margin = AGREES * (np.abs(where).max(axis=1) + np.abs(tree.bounds).max())
    return Task(
        f"{query}, {kind}", "point", len(where), setting.scene, {"bvh": ours},
        partial(validate, tree, where),
        lambda peer, picked: peer.query(method, where[picked]),
        # Numbers of either sign within the margin of zero agree, too.
        lambda found, i: float(np.mean(np.abs(found - right[i]) <= margin[i])),
    )  # fmt: skip


@entry
def _measure_all(triangles, queries, distances):
    """Find the distance of each point by the leaf test of every face."""
    for i in range(len(queries)):
        p = vector(queries, i)
        distances[i] = np.inf
        for prim in range(len(triangles.faces)):
            distance = nearest_on_triangle(p, *corners(triangles, prim))[0]
            distances[i] = min(distances[i], distance)


def validate(tree: bvh.BVH, where: Points) -> None:
    """Compare a sample of our answers with brute force over all faces."""
    sample = kernel_input(where[:SAMPLE])
    distances = np.empty(len(sample))
    _measure_all(tree.arrays.primitives, sample, distances)
    if not np.array_equal(distances, tree.distance(sample)):
        raise SystemExit("wrong answer: distances differ from brute force")
    if not np.array_equal(distances, np.abs(tree.signed_distance(sample))):
        raise SystemExit("wrong answer: signed distances differ from brute force")
    error = tree.winding_number(sample, 2.0) - tree.winding_number(sample)
    if not np.abs(error).max() <= WINDING_ERROR:
        raise SystemExit("wrong answer: winding numbers differ from the sum over all faces")
