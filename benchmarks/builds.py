"""Building a tree, of every quality."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import bvh

from .casters import Caster
from .scenes import Scene
from .tasks import Entrant, Task

QUALITIES = ["low", "medium", "high"]


def qualities() -> Iterator[str]:
    """Yield the qualities that this version can build."""
    for quality in QUALITIES:
        try:
            bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]], quality=quality)
        except ValueError:
            continue
        yield quality


def builds(scene: Scene, threads: int) -> Iterator[Task]:
    """Yield the task of building with each quality that there is."""
    for quality in qualities():
        ours = partial(
            bvh.BVH.from_triangles, scene.vertices, scene.faces, quality=quality, threads=threads
        )

        def check(ours: partial[bvh.BVH] = ours) -> None:
            ours().validate()

        def entrant(peer: Caster, count: int) -> Entrant:
            given = peer.given(scene.vertices, scene.faces)
            # Nobody's tree can be checked but by what it answers, which other tasks do.
            return Entrant(lambda: type(peer)(*given), lambda made: 1.0)

        yield Task(f"build {quality}", "build", 1, {"bvh": ours}, check, entrant, {})
