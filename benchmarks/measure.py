"""Measures one mesh in a process of its own; `session` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bvh

from . import instances, peers
from .all_hits import SIDE as HITS_SIDE
from .all_hits import hit_tasks
from .builds import builds
from .casters import Caster
from .leaks import leaks
from .points import QUERIES, places, point_task
from .processes import Row, answer_parent
from .ray_tasks import batch, singles
from .scenes import Scene, load
from .tasks import Task, measured
from .timing import Patience
from .workloads import BATCHES, Workload, workloads

# Kinds of points that are asked about unless every kind is.
SOME = ("near it", "in the box")


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each task: seconds of each caster and round, and what was asked."""
    scene = load(options["mesh"])
    threads, only = options["threads"], options["only"]
    kinds = peers.found(options["peers"])
    patience = Patience(options["patience"])
    about = {"mesh": scene.name, "triangles": len(scene.faces), "threads": threads}
    made = Made(kinds)
    for task, mesh in tasks(scene, options):
        row = measured(task, made.of(mesh), options["rounds"], patience)
        yield {**about, **row, **made.refused()}
    if "leaks" in only and threads == 1:
        yield {**leaks([kind for kind in kinds if kind.most_rays > 1 << 20]), "threads": 1}


class Made:
    """The peers of one mesh at a time, made when they are first asked about it."""

    def __init__(self, kinds: list[type[Caster]]) -> None:
        self.kinds = kinds
        self.mesh: Scene | None = None
        self.casters: list[Caster] = []
        self.failed: dict[str, str] = {}

    def of(self, mesh: Scene) -> list[Caster]:
        """Return the peers that can be made of a mesh."""
        if mesh is not self.mesh:
            # The last mesh's memory is free before the next one's is taken.
            self.mesh, self.casters, self.failed = mesh, [], {}
            for kind in self.kinds:
                if len(mesh.faces) <= kind.most_triangles:
                    self._make(kind, mesh)
        return self.casters

    def _make(self, kind: type[Caster], mesh: Scene) -> None:
        try:
            self.casters.append(kind.made(mesh.vertices, mesh.faces))
        # Whatever a peer raises, the others are measured.
        except Exception as error:
            self.failed[kind.name] = f"{type(error).__name__}: {error}"

    def refused(self) -> dict[str, Any]:
        """Return what could not be made, as part of a row."""
        return {"unmade": self.failed} if self.failed else {}


def tasks(scene: Scene, options: dict[str, Any]) -> Iterator[tuple[Task, Scene]]:
    """Yield each task that is asked for, and the mesh that peers are asked about."""
    only, threads, every = options["only"], options["threads"], options["every"]
    if "build" in only:
        yield from ((task, scene) for task in builds(scene, threads))
    quality = {"quality": options["quality"]} if options["quality"] else {}
    tree = bvh.BVH.from_triangles(scene.vertices, scene.faces, **quality)
    if {*BATCHES, "single"} & {*only}:
        for work in workloads(tree, options["side"], inside=scene.inside):
            if work.name in only and len(work):
                yield batch(tree, work, threads), scene
            if work.name == "random":
                random = work
        if "single" in only:
            yield from ((task, scene) for task in singles(tree, random, threads))
    if "all-hits" in only:
        for work in _listed(tree, scene, options):
            yield from ((task, scene) for task in hit_tasks(tree, work, threads))
    for query in (query for query in QUERIES if query.replace(" ", "-") in only):
        for kind, points in places(tree, options["points"]):
            if every or kind in SOME:
                yield point_task(tree, query, kind, points, threads), scene
    del tree
    if "scene" in only:
        held, whole = instances.held(load(options["instance"]), options["instances"])
        side = options["side"]
        yield from ((task, whole) for task in instances.instance_tasks(held, whole, side, threads))


def _listed(tree: bvh.BVH, scene: Scene, options: dict[str, Any]) -> Iterator[Workload]:
    """Yield the rays whose hits are listed: random ones, or also a camera's and what follows."""
    names = ("primary", "diffuse", "random") if options["every"] else ("random",)
    for work in workloads(tree, min(options["side"], HITS_SIDE), inside=scene.inside):
        if work.name in names and len(work):
            yield work


if __name__ == "__main__":
    answer_parent(measure)
