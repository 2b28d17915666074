"""Plan of a run: the groups of tasks, and the processes that measure them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import NamedTuple

from . import cold
from .processes import Row, available, stream
from .scenes import DEFAULT
from .tasks.builds import builders
from .tasks.instances import MESH as INSTANCE
from .tasks.points import QUERIES
from .workloads import BATCHES, dashed

# 20 triangles each, squared: 10 thousand, 32 thousand, ... a million.
SIZES = tuple(f"organic-{frequency}" for frequency in (23, 40, 71, 126, 224))


class Group(NamedTuple):
    """Tasks that are measured in one process."""

    # Their names on the command line, and a description for the help.
    tasks: tuple[str, ...]
    about: str
    # Part of a run that names no task; measured on each mesh.
    usual: bool = False
    # Independent of the mesh, so measured beside the first one only.
    once: bool = False
    # Measured where none are named.
    meshes: tuple[str, ...] = tuple(DEFAULT)
    threads: tuple[int, ...] = (1, 2)


GROUPS = {
    "builds": Group(("build",), "trees of each quality", True),
    "rays": Group(tuple(map(dashed, BATCHES)), "batches of rays", True),
    "single": Group(("single",), "rays one by one", True),
    "all-hits": Group(("all-hits",), "lists and counts of all hits", True),
    "points": Group(tuple(map(dashed, QUERIES)), "queries of points", True),
    "instances": Group(("scene",), "rays through many instances", True, True),
    "leaks": Group(("leaks",), "rays lost between triangles", True, True),
    "overlaps": Group(("overlaps",), "intersecting meshes", meshes=("organic", "cad_part")),
    "clearances": Group(("clearances",), "distances of meshes", meshes=("organic", "cad_part"),
                        threads=(1,)),
    "motion": Group(("motion",), "moving scenes, deforming meshes, picks", once=True),
    "lidar": Group(("lidar",), "a lidar's frame in a street of instances", once=True, threads=(1,)),
    "scaling": Group(("scaling",), "time per ray on ever more triangles", meshes=SIZES),
    "memory": Group(("memory",), "peak of a build, bytes of a tree", meshes=("organic-235",),
                    threads=(2,)),
    "cores": Group(("cores",), "calls on threads, and on up to 64 virtual cores",
                   threads=(available(),)),
    "distributed": Group(("cluster", "cluster-costs", "parts"),
                         "rays on processes, meshes larger than memory", threads=(2,)),
    "cold": Group(("cold",), "first calls in fresh processes", once=True, threads=(available(),)),
    "precision": Group(("precision",), "hits of the surface that a ray leaves", once=True,
                       threads=(1,)),
    "features": Group(("features",), "rays at vertices and edges, and beside them", once=True,
                      threads=(1,)),
    "device": Group(("device",), "rays and points on a GPU (--device)", threads=(2,)),
    "drop-in": Group(("drop-in",), "mesh.ray and mesh.nearest of trimesh", once=True, threads=(1,)),
}  # fmt: skip

# Of a quick run.
FEW = [task for name in ("rays", "leaks") for task in GROUPS[name].tasks]
USUAL = [task for group in GROUPS.values() if group.usual for task in group.tasks]
TASKS = [task for group in GROUPS.values() for task in group.tasks]


class Job(NamedTuple):
    """Process that measures some tasks on one mesh and number of threads."""

    mesh: str
    tasks: tuple[str, ...]
    threads: int

    def rows(self, options: Namespace) -> Iterator[Row]:
        """Yield the rows of its process, or of its processes where each figure needs its own."""
        if self.tasks == ("cold",):
            yield from cold.rows(options.verbs, options.warm, self.threads)
            return
        names = (
            "rounds", "side", "quality", "points", "peers", "instances", "patience", "full",
            "rays", "triangles", "quick", "device",
        )  # fmt: skip
        task = {
            **{name: getattr(options, name) for name in names}, "mesh": self.mesh,
            "tasks": self.tasks, "instance": self.mesh if options.scene_only else INSTANCE,
        }  # fmt: skip
        if self.tasks == ("scaling",):
            # Many builds of large meshes: peers take part where they are named.
            task["peers"] = options.peers or []
        for builder in builders(options.peers) if self.tasks == ("memory",) else [""]:
            yield from stream("measure", {**task, "builder": builder}, self.threads)


def jobs(options: Namespace) -> Iterator[Job]:
    """Yield the processes of a run: for each mesh the usual tasks together, then the others."""
    once = () if options.scene_only else ("scene", "leaks")
    for number, mesh in enumerate(options.meshes or DEFAULT):
        usual = (t for t in USUAL if t in options.tasks and (number == 0 or t not in once))
        tasks = tuple(usual)
        for threads in (options.threads or _allowed((1, 2))) if tasks else ():
            yield Job(mesh, tasks, threads)
    for group in GROUPS.values():
        named = [task for task in group.tasks if task in options.tasks]
        if group.usual or not named:
            continue
        meshes = [""] if group.once else options.meshes or group.meshes
        for mesh in meshes:
            for threads in options.threads or _allowed(group.threads):
                yield from (Job(mesh, (task,), threads) for task in named)


def _allowed(threads: tuple[int, ...]) -> list[int]:
    """Return the numbers of threads for which this process has CPUs."""
    return sorted({min(number, available()) for number in threads})
