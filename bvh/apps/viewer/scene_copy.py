"""Copy of a scene that shares its trees: what a page asks, while other threads change the scene."""

import threading

import numpy as np

from bvh.scene.scene import Scene
from bvh.scene.table import COLUMNS, InstanceHolder, Instances, nested_scenes, table_guard
from bvh.tree.changes import changes

# A scene, its copy, and the position in its journals.
_Part = tuple[InstanceHolder, Scene, tuple[int, ...]]


class SceneCopy:
    """A copy of a scene, nested scenes included, brought up to date by `follow`.

    A scene must not be changed while it is queried. Pages query this copy instead, with `lock`
    held. Ids, the order of leaves and answers are those of the scene at the last `follow`, which
    reads its tables, but neither compacts them nor touches what the scene's own queries traverse.
    `version` is another after each change, also of shared trees.
    """

    def __init__(self, source: Scene) -> None:
        self.source = source
        self.lock = threading.RLock()
        self.scene = Scene()
        # Inner ones first.
        self._parts: list[_Part] = []
        self._seen = self._deformed = -1
        self.version = 0
        # Ids of outermost instances that pages hide, and of those that are hidden in the copy.
        self.hidden: set[int] = set()
        self._applied: set[int] = set()
        self.follow()

    def hide(self, instance_id: int) -> None:
        """Hide an instance in the copy, or show it again if it is hidden."""
        with self.lock:
            self.hidden ^= {instance_id}
            self._apply()

    def _apply(self) -> None:
        """Hide what is to be hidden; show what is not any more, if the scene does."""
        with table_guard.lock:
            table = self.source._instances
            kept = table.column("child") >= 0
            columns = (table.column(name)[kept].tolist() for name in ("ids", "visible"))
            shown = dict(zip(*columns, strict=True))
        for number in (self._applied | self.hidden) & shown.keys():
            wanted = shown[number] and number not in self.hidden
            if number in self.scene and self.scene[number].visible != wanted:
                self.scene.set_visible(number, wanted)
                self.version += 1
        self._applied = set(self.hidden)

    def follow(self) -> None:
        """Apply what has changed in the scene."""
        with self.lock:
            if self._seen == changes.count:
                return
            # Later changes are noticed next time.
            seen, deformed = changes.count, changes.trees
            read = [at for _, _, at in self._parts]
            with table_guard.lock:
                shapes = [part._instances.shape for part, _, _ in self._parts]
                if self._parts and shapes == [at[0] for at in read]:
                    self._parts = [_followed(*part) for part in self._parts]
                else:
                    self._copy_all()
            self.version += deformed != self._deformed or read != [at for _, _, at in self._parts]
            self._seen, self._deformed = seen, deformed
            if self._applied or self.hidden:
                self._apply()

    def _copy_all(self) -> None:
        """Copy all tables."""
        parts: list[_Part] = []
        copies: dict[int, Scene] = {}
        for part in nested_scenes(self.source, compact=False):
            copy = Scene()
            copy._begin(_copied(part._instances, copies), dict(part._attributes))
            copy._up = part._up
            copies[id(part)] = copy
            parts.append((part, copy, _position(part._instances)))
        self._parts, self.scene = parts, copies[id(self.source)]


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


def _position(table: Instances) -> tuple[int, ...]:
    """Return the number of changes of a table's shape, and the ends of its journals."""
    return table.shape, table.moved.end, table.masked.end


def _followed(part: InstanceHolder, copy: Scene, at: tuple[int, ...]) -> _Part:
    """Apply to a copy what has changed in its scene since a position; return the new one."""
    table, mine = part._instances, copy._instances
    copy._up = part._up
    now = _position(table)
    if now != at:
        moved, marked = table.moved.since(at[1]), table.masked.since(at[2])
        if moved is None or marked is None or len(table.column("ids")) != len(mine):
            # Rows with gaps are not those of the copy.
            kept = np.flatnonzero(table.column("child") >= 0)
            moved = marked = np.arange(len(kept))
        else:
            kept = np.arange(len(mine))
        for name, rows in (("maps", moved), ("masks", marked), ("visible", marked)):
            if len(rows):
                mine.write(name, rows, table.column(name)[kept[rows]])
    return part, copy, now
