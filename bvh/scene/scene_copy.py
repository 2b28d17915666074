"""Copy of a scene that shares its trees, for queries while other threads change the scene."""

import threading
from typing import Any

import numpy as np

from bvh.scene.scene import Scene
from bvh.scene.table import COLUMNS, InstanceHolder, Instances, nested_scenes, table_guard
from bvh.tree.changes import changes


class SceneCopy:
    """A copy of a scene, nested scenes included, brought up to date by `follow`.

    A scene must not be changed while it is queried. Programs with several threads, such as pages,
    query this copy instead, with `lock` held. Ids, the order of leaves and answers are those of the
    scene at the last `follow`, which reads its tables, but neither closes their gaps nor touches
    the arrays that the scene's own queries traverse.

    Attributes
    ----------
    source, scene : Scene
        The scene, and the copy.
    lock : threading.RLock
    hidden : set of int
        Ids of instances that are not visible in the copy.
    version : int
        Another one after each change, also of shared trees.
    """

    def __init__(self, source: Scene) -> None:
        self.source = source
        self.lock = threading.RLock()
        self.hidden: set[int] = set()
        self.version = 0
        # Scenes and their copies, inner ones first; versions of their tables, and what is hidden.
        self._parts: list[tuple[InstanceHolder, Scene]] = []
        self._read: list[int] = []
        self._hiding: frozenset[int] = frozenset()
        # The modification counters of the process at the last update.
        self._seen = self._deformed = -1
        self.follow()

    def hide(self, instance_id: int) -> None:
        """Hide an instance in the copy, or show it again if it is hidden."""
        with self.lock:
            self.hidden ^= {instance_id}
            self._seen = -1
            self.follow()

    def follow(self) -> None:
        """Apply what has changed in the scene."""
        with self.lock:
            if self._seen == changes.count:
                return
            # Later changes are noticed next time.
            self._seen, deformed = changes.count, changes.trees
            hiding = frozenset(self.hidden)
            with table_guard.lock:
                tables = [part._instances for part, _ in self._parts]
                pairs = zip(tables, self._read, strict=True)
                if not tables or any(table.shape > version for table, version in pairs):
                    self._copy_all()
                read = [part._instances.version for part, _ in self._parts]
                changed = read != self._read or hiding != self._hiding
                for part, copy in self._parts if changed else ():
                    _update(part, copy, hiding if part is self.source else frozenset())
            self.version += changed or deformed != self._deformed
            self._read, self._hiding, self._deformed = read, hiding, deformed

    def _copy_all(self) -> None:
        """Copy all tables."""
        self._parts = []
        copies: dict[int, Scene] = {}
        for part in nested_scenes(self.source, compact=False):
            copy = copies[id(part)] = Scene()
            copy._begin(_copied(part._instances, copies), dict(part._attributes))
            self._parts.append((part, copy))
        self.scene = copies[id(self.source)]


def _copied(table: Instances, copies: dict[int, Scene]) -> Instances:
    """Return a copy of a table without gaps; it shares the trees and the dictionary of names."""
    rows = np.flatnonzero(table.column("child") >= 0)
    columns = {name: table.column(name)[rows] for name in COLUMNS}
    _, children = np.unique(columns["child"], return_inverse=True)
    columns["child"] = children.astype(np.int32).reshape(-1)
    return Instances.of_state({
        "columns": columns,
        "children": [copies.get(id(child), child) for child in table.used_children()],
        "names": table.names, "next_id": table.next_id,
    })  # fmt: skip


def _update(part: InstanceHolder, copy: Scene, hidden: frozenset[int]) -> None:
    """Write maps, masks and visibility, where they are others, to a copy."""
    table, mine = part._instances, copy._instances
    copy._up = part._up
    rows = np.flatnonzero(table.column("child") >= 0)
    columns: dict[str, Any] = {name: table.column(name)[rows] for name in ("maps", "masks")}
    columns["visible"] = table.column("visible")[rows]
    columns["visible"] &= ~np.isin(table.column("ids")[rows], [*hidden])
    for name, values in columns.items():
        # Compared as bits, -0.0 and 0.0 differ.
        bits = f"i{values.itemsize}"
        other = values.view(bits) != mine.column(name).view(bits)
        changed = np.flatnonzero(other.any(axis=tuple(range(1, other.ndim))))
        if len(changed):
            mine.write(name, changed, values[changed])
