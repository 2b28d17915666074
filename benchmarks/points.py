"""`python -m benchmarks.points [MESH ...]`: nearest points, signed distances, winding numbers.

Peers are asked the same as we are, with numbers that float32 holds, slow ones about fewer points.
No time is printed before a sample of our distances equals brute force over all faces; the share of
a peer's answers that are no nearer and no further than ours, and of the same sign, is told. Of
winding numbers those count that are wrong by no more than a series of three terms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.arguments import kernel_input
from bvh.jit import entry
from bvh.nearest import nearest_on_triangle
from bvh.numerics import vector
from bvh.primitives import corners

from .casters import Asked, Caster, Ours, Points
from .tasks import Entrant, Task

QUERIES = {
    "closest point": "closest_point",
    "signed distance": "signed_distance",
    "winding number": "winding_number",
}
KINDS = ("at the surface", "near it", "in the box", "far away")
COUNT = 50_000
SAMPLE = 50
# What float32 keeps of coordinates, where a peer calculates in it, in sizes of the mesh.
AGREES = 2e-5
# What ours may be wrong by, and a peer's.
WINDING_ERROR, WINDING_AGREES = 1e-3, 2e-2


def places(tree: bvh.BVH, count: int) -> Iterator[tuple[str, Points]]:
    """Yield points near the surface, anywhere in the box, and outside of it."""
    rng = np.random.default_rng(0)
    faces = tree.vertices[tree.faces]
    lower, upper = tree.bounds
    size = (upper - lower).max()
    weights = rng.dirichlet(np.ones(3), count)
    on = np.einsum("nk,nkx->nx", weights, faces[rng.integers(0, len(faces), count)])
    away = rng.normal(size=(count, 3)) * size
    points = (
        on + 1e-3 * away,
        on + 2e-2 * away,
        rng.uniform(lower, upper, (count, 3)),
        0.5 * (lower + upper) + 5.0 * away,
    )
    yield from zip(KINDS, map(_single, points), strict=True)


def _single(points: Points) -> Points:
    """Round to what float32 holds."""
    return points.astype(np.float32).astype(np.float64)


def point_task(tree: bvh.BVH, query: str, kind: str, points: Points, threads: int) -> Task:
    """Return the task of one query about points of one kind."""
    ours = Ours(tree, threads)
    method = QUERIES[query]
    mine: Asked = getattr(ours, method)(points)
    expected = mine.said(mine.call())
    if method == "winding_number":
        room = np.full(len(points), WINDING_AGREES)
    else:
        room = AGREES * (np.abs(points).max(axis=1) + np.abs(tree.bounds).max())

    def entrant(peer: Caster, count: int) -> Entrant | None:
        asked: Asked | None = getattr(peer, method)(points[:count])
        if asked is None:
            return None
        # Numbers of either sign within the room of zero agree, too.
        return Entrant(
            asked.call,
            lambda found: float(
                np.mean(np.abs(asked.said(found) - expected[:count]) <= room[:count])
            ),
        )

    calls = {"bvh": mine.call}
    name = f"{query}, {kind}"
    return Task(name, "point", len(points), calls, lambda: validate(tree, points), entrant, {})


@entry
def _measure_all(triangles, points, found):
    """Find the least distance of each point by the leaf test of every face."""
    for i in range(len(points)):
        p = vector(points, i)
        found[i] = np.inf
        for prim in range(len(triangles.faces)):
            found[i] = min(found[i], nearest_on_triangle(p, *corners(triangles, prim))[0])


def validate(tree: bvh.BVH, points: NDArray[np.float64]) -> None:
    """Compare a sample of our distances with brute force."""
    some = kernel_input(points[:SAMPLE])
    found = np.empty(len(some))
    _measure_all(tree.arrays.primitives, some, found)
    if not np.array_equal(found, tree.distance(some)):
        raise SystemExit("our distances differ from brute force")
    if not np.array_equal(found, np.abs(tree.signed_distance(some))):
        raise SystemExit("our signed distances differ from brute force")
    error = tree.winding_number(some) - tree.winding_number(some, np.inf)
    if not np.abs(error).max() <= WINDING_ERROR:
        raise SystemExit("our winding numbers differ from the sum over all faces")


if __name__ == "__main__":
    from .session import main

    main("points", __doc__, ["closest-point", "signed-distance", "winding-number"], every=True)
