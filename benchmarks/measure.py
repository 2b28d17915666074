"""Measurement of some tasks on one mesh, in a process of its own that `plan` starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import peers
from .peers.caster import Caster
from .plan import GROUPS
from .processes import Row, answer_parent
from .scenes import Scene
from .tasks.builds import builds, memory
from .tasks.clearances import clearances
from .tasks.cluster import cluster_costs, cluster_rays
from .tasks.cores import cores
from .tasks.devices import devices
from .tasks.drop_in import drop_in
from .tasks.instances import instances
from .tasks.lidar import lidar
from .tasks.motion import motion
from .tasks.overlaps import overlaps
from .tasks.parts import parts
from .tasks.points import points
from .tasks.precision import features, leaks, precision
from .tasks.rays import all_hits, batches, singles
from .tasks.task import Setting, Task, measured
from .timing import Patience


def distributed(setting: Setting) -> Iterator[Row]:
    """Yield the rows of one of the tasks of clusters and of meshes in parts."""
    makers = {"cluster": cluster_rays, "cluster-costs": cluster_costs, "parts": parts}
    yield from makers[setting.tasks[0]](setting)


# Each yields the tasks of a group, or finished rows where nothing takes turns.
MAKERS: dict[str, Callable[[Setting], Iterator[Task | Row]]] = {
    "builds": builds, "rays": batches, "single": singles, "all-hits": all_hits, "points": points,
    "instances": instances, "leaks": leaks, "overlaps": overlaps, "motion": motion,
    "clearances": clearances, "lidar": lidar,
    "scaling": batches, "memory": memory, "precision": precision, "drop-in": drop_in,
    "features": features, "cores": cores,
    "distributed": distributed, "device": devices,
}  # fmt: skip


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each task: seconds of each caster and round, and what was asked."""
    setting = Setting(options, peers.available(options["peers"]))
    patience, casters = Patience(options["patience"]), Casters(setting.peers)
    for group, make in MAKERS.items():
        for task in make(setting) if {*GROUPS[group].tasks} & {*setting.tasks} else ():
            row = task
            if isinstance(task, Task):
                row = measured(task, casters.of(task.mesh), options["rounds"], patience)
                row |= {"mesh": task.mesh.name, "triangles": len(task.mesh.faces)}
                row |= {"unmade": casters.failed} if casters.failed else {}
            yield {**row, "threads": setting.threads}


class Casters:
    """Peers of one mesh at a time, built when they are first asked about it."""

    def __init__(self, kinds: list[type[Caster]]) -> None:
        self.kinds = kinds
        self.mesh: Scene | None = None
        self.casters: list[Caster] = []
        self.failed: dict[str, str] = {}

    def of(self, mesh: Scene) -> list[Caster]:
        """Return the peers that can be built of a mesh."""
        if mesh is self.mesh:
            return self.casters
        # The last mesh's memory is free before the next one's is taken.
        self.mesh, self.casters, self.failed = mesh, [], {}
        for kind in self.kinds:
            try:
                if len(mesh.faces) <= kind.max_triangles:
                    self.casters.append(kind.of_mesh(mesh.vertices, mesh.faces))
            # Whatever a peer raises, the others are measured.
            except Exception as error:
                self.failed[kind.name] = f"{type(error).__name__}: {error}"
        return self.casters


if __name__ == "__main__":
    answer_parent(measure)
