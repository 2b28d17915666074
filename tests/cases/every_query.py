"""Every query of every kind of tree and scene, once: are all of its kernels in the library?

    python -m tests.cases.every_query

In an environment where importing Numba is an error, as `.ci/wheels` makes it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import bvh

CUBE = np.array(list(product((0, 1), repeat=3)), float)
SIDES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
     [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
)  # fmt: skip
POINTS = np.arange(90.0).reshape(-1, 3) * [0.618, 0.414, 0.732] % 1.0
TURN = np.array([[0.8, -0.6, 0, 0.3], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
MANY = np.tile(POINTS, (300, 1))
PLANES = np.concatenate([np.tile(np.eye(3), (30, 1, 1)), POINTS[:, :, None]], axis=2)
CAMERA = bvh.Camera.look_at([3, 4, 5], [0, 0, 0], up=[0, 1, 0], width=64, height=48)

RAYS: list[dict[str, Any]] = [
    {}, {"cull": "back"}, {"mask": 3}, {"sort": True, "threads": 1},
    {"t_min": np.zeros(30), "t_max": np.ones(30)},
]  # fmt: skip
# Queries, given a tree or scene; those that have no such query, or not of their kind, refuse.
QUERIES: list[Callable[[Any], object]] = [
    *(lambda t, o=o: t.closest_hit(POINTS - 1, POINTS, **o) for o in [*RAYS, {"counters": True}]),
    *(lambda t, o=o: t.any_hit(POINTS - 1, POINTS, **o) for o in RAYS),
    *(
        lambda t, o=o: t.all_hits(POINTS - 1, POINTS, **o)
        for o in [{}, {"max_hits": 2}, {"edges": "once"}, {"mask": 3}]
    ),
    lambda t: t.count_hits(POINTS - 1, POINTS),
    lambda t: t.closest_hit(MANY - 1, MANY[::-1]),
    lambda t: t.any_hit([-1, -1, -1], MANY),
    *(
        lambda t, name=name: getattr(t, name)([-1, -1, -1.0], [1, 1, 1.0])
        for name in ("closest_hit", "any_hit", "all_hits", "count_hits", "visible")
    ),
    lambda t: t.caster()(-1.0, -1.0, -1.0, 1.0, 1.0, 1.0),
    lambda t: t.closest_hit(POINTS - 1, POINTS).position,
    lambda t: t.closest_hit(POINTS - 1, POINTS).normal,
    *(
        lambda t, name=name, p=p: getattr(t, name)(p)
        for name, p in product(
            ("closest_point", "distance", "contains", "signed_distance", "winding_number"),
            (POINTS, POINTS[0]),
        )
    ),
    *(
        lambda t, o=o: t.closest_point(POINTS, **o)
        for o in ({"k": 3}, {"max_distance": 0.5}, {"mask": 3})
    ),
    lambda t: t.overlap_box(POINTS, POINTS + 0.1),
    lambda t: t.overlap_sphere(POINTS, np.full(30, 0.2)),
    lambda t: t.overlap_frustum(PLANES),
    lambda t: t.self_overlaps(),
    lambda t: t.visible(POINTS, POINTS[::-1]),
    lambda t: t.clearances(),
    lambda t: t.collisions(),
    lambda t: t.flattened(),
    lambda t: t.stats(),
    lambda t: t.pick(CAMERA, 32, 24),
]


def trees() -> list[Any]:
    """Return trees of all kinds and qualities, scenes of them, and what is made of those."""
    low, high = POINTS, POINTS + 0.1
    turns = np.tile(TURN, (len(low), 1, 1))
    soup = np.arange(2700.0).reshape(-1, 3) * [0.618, 0.414, 0.732] % 1.0
    faces = np.arange(len(soup)).reshape(-1, 3)
    made: list[Any] = [
        bvh.BVH.from_triangles(soup, faces, quality=quality) for quality in ("medium", "high")
    ]
    placed = [
        bvh.BVH.from_triangles(CUBE, SIDES), bvh.BVH.from_boxes(low, high),
        bvh.BVH.from_obbs(low, high, turns),
    ]  # fmt: skip
    scenes = [bvh.Scene() for _ in range(len(placed) + 1)]
    for i, (tree, scene) in enumerate(zip(placed, scenes, strict=False)):
        for some in (scene, scenes[-1]):
            some.add(tree, np.diag([1.0, 1.0, 1.0 + i, 1.0]))
            some.add(tree, TURN)
    rounds = [bvh.BVH.from_spheres(low, 0.1), bvh.BVH.from_capsules(low, high, 0.1)]
    return [*made, *placed, *rounds, *scenes, scenes[0].flattened()]


def main() -> None:
    warnings.simplefilter("ignore")
    made = trees()
    refused = AttributeError, NotImplementedError, TypeError, ValueError
    answered = 0
    for tree in made:
        pairs = [lambda t, o=o: t.overlap_tree(o, TURN) for o in made]
        pairs += [lambda t, o=o: t.distance_to(o, TURN) for o in made]
        for ask in [*QUERIES, *pairs]:
            with contextlib.suppress(*refused):
                ask(tree)
                answered += 1
    print(f"{answered} queries of {len(made)} trees and scenes")


if __name__ == "__main__":
    main()
