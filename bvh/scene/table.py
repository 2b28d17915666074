"""Table of a scene's instances: children under affine maps, in growing columns.

A row is an instance. Rows are in the order of ids, which are never reused. Removed rows leave gaps,
which the next query closes.

All that is computed from tables follows their `version`, which counts changes; a log has the rows
of the last ones. `tests/scene/test_changes.py` checks each cell of this table:

=========================== ======= ========= ======= ======= =========== ===========
change                      leaves  SceneView moves   masks   one_trees   seen_closed
=========================== ======= ========= ======= ======= =========== ===========
add, remove, replace        new     new       new     new     new         new
set_transform               updated kept      updated kept    dropped     kept
set_mask, set_visible       updated kept      kept    updated dropped     dropped
refit                       kept    new       new     new     new         new
rename, up                  kept    kept      kept    kept    kept        kept
=========================== ======= ========= ======= ======= =========== ===========

`moves` stands for maps, inverses, the TLAS, transforms and `metrics` of leaves; `one_trees` for all
trees over all leaves, with the merged tree of rays. A change in a nested scene has these effects on
all leaves below its instances. `Scene.source` is None after any change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.trimesh_scenes import Attributes
from bvh.queries.tree_base import MappedFile, TreeBase
from bvh.runtime.arguments import ALL_BITS, Axis
from bvh.runtime.forks import ForkSafeLock
from bvh.tree.changes import changes

Rows = NDArray[np.int64]

MAX_ID = 2**31 - 1  # ids are int32 in results
REMEMBERED = 4096  # changes and rows that a log may hold, plus twice the rows of its table
# Rows by which a table over all ids may exceed the ids that are looked up (see `names_of`).
SMALL_TABLE = 1024
NO_ROWS = np.empty(0, np.int64)
IDENTITY = np.eye(3, 4)

# Columns with their types, and the shape of a row.
COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "ids": (np.int64, ()),
    "child": (np.int32, ()),
    "maps": (np.float64, (3, 4)),
    "masks": (np.uint32, ()),
    "visible": (np.bool_, ()),
}

# Held while a table changes or its gaps are closed, while one with gaps is read (queries close
# them, possibly in other threads), and while a table is copied for another thread.
table_guard = ForkSafeLock()


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """Snapshot of one instance of a scene.

    Attributes
    ----------
    id : int
    child : BVH or Scene
    transform : ndarray of float64, shape (4, 4)
        From the child's coordinates to the scene's.
    name : str or None
    mask : int
        32 bits; queries whose mask shares no bit with it ignore the instance.
    visible : bool
        Queries ignore instances that are not visible.

    Examples
    --------
    >>> import bvh
    >>> scene = bvh.Scene()
    >>> number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), name="plate", mask=3)
    >>> scene[number].id, scene[number].name, scene[number].mask, scene[number].visible
    (0, 'plate', 3, True)
    """

    id: int
    child: Any
    transform: NDArray[np.float64]
    name: str | None
    mask: int
    visible: bool

    def __repr__(self) -> str:
        rest = format_placement(self.transform, self.mask, self.visible)
        return f"Instance({self.id}{format_name(self.name)}, {self.child!r}{rest})"


def matrices_of(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return maps (..., 3, 4) as read-only matrices (..., 4, 4)."""
    matrices = np.zeros((*maps.shape[:-2], 4, 4))
    matrices[..., :3, :], matrices[..., 3, 3] = maps, 1.0
    matrices.flags.writeable = False
    return matrices


def format_name(name: str | None) -> str:
    """Return a space and a name as a part of a repr; nothing for None."""
    return "" if name is None else f" {name!r}"


def format_placement(transform: NDArray[np.float64], mask: int, visible: bool) -> str:
    """Return transform (4, 4), visibility and mask as a part of a repr; no text for defaults."""
    text = ""
    if not np.array_equal(transform[:3, :3], np.eye(3)):
        text += ", transformed"
    if transform[:3, 3].any():
        text += f", at [{', '.join(f'{x + 0.0:.6g}' for x in transform[:3, 3].tolist())}]"
    if not visible:
        return text + ", hidden"
    return text if mask == ALL_BITS else f"{text}, mask {mask:#x}"


class Instances:
    """Table of a scene's instances, and the log of its changes."""

    __slots__ = (
        "_columns", "_dead", "_is_compact", "_log", "_logged", "_numbers", "_size", "children",
        "names", "next_id", "structure_version", "unchecked", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self._columns = {name: np.empty((0, *s), kind) for name, (kind, s) in COLUMNS.items()}
        self._size, self._dead = 0, 0  # the number of rows, and of those that are removed
        self._is_compact, self.next_id = True, 0
        # Each child once, however many instances it has; and its index here by ``id(child)``.
        self.children: list[TreeBase | InstanceHolder] = []
        self._numbers: dict[int, int] = {}
        # Indices of children that may be over spheres or capsules, which not all maps suit.
        self.unchecked: set[int] = set()
        # Names of instances by id, without those that have none.
        self.names: dict[int, str] = {}
        # The number of changes, and its value after the last addition, removal or replacement.
        self.version = self.structure_version = 0
        # The last changes: True if of maps, False if of masks or visibility, and the rows.
        self._log: list[tuple[bool, Rows]] = []
        self._logged = 0  # the number of changes and of rows in the log

    def __len__(self) -> int:
        with self.without_compaction():
            return self._size - self._dead

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, including rows whose instance has been removed (see `compact`)."""
        return self._columns[name][: self._size]

    def child_index(self, child: TreeBase | InstanceHolder, restricted: bool = True) -> int:
        """Return the index of a child; append a new one, to `unchecked` too if `restricted`."""
        number = self._numbers.setdefault(id(child), len(self.children))
        if number == len(self.children):
            self.children.append(child)
            if restricted:
                self.unchecked.add(number)
        return number

    def extend(
        self, children: NDArray[np.int32] | int, maps: NDArray[np.float64],
        names: Iterable[str | None], masks: NDArray[np.uint32] | int = ALL_BITS,
        visible: NDArray[np.bool_] | bool = True,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Add n instances under `maps` (n, 3, 4), with n names or None; return their ids, (n,).

        `children` (indices in `self.children`), `masks` and `visible` are one for all, or (n,).
        """
        first, count = self.next_id, len(maps)
        if first + count > MAX_ID:
            self._is_compact = False  # `compact` drops the child, if it is new
            raise ValueError(f"a scene can assign {MAX_ID} ids, and has assigned {first}")
        ids = np.arange(first, first + count)
        begin, end = self._size, self._size + count
        new = {"ids": ids, "child": children, "maps": maps, "masks": masks, "visible": visible}
        with table_guard.lock:
            for column, values in new.items():
                old = self._columns[column]
                if end > len(old):
                    # At least twofold, so that adding one by one is cheap, too.
                    more = np.empty((max(end - len(old), len(old), 4), *old.shape[1:]), old.dtype)
                    self._columns[column] = np.concatenate([old, more])
                self._columns[column][begin:end] = values
            # `names` may be endless.
            named = zip(ids.tolist(), names, strict=False)
            self.names |= {number: str(name) for number, name in named if name is not None}
            self._size, self.next_id = end, first + count
            self._note_structure()
        return ids

    def row_of(self, number: int) -> int:
        """Return the row of the instance with the id `number`; KeyError if there is none."""
        ids, row = self._columns["ids"], number
        # Where nothing has been removed, an id is a row.
        if not (0 <= row < self._size and ids[row] == number):
            row = int(self.column("ids").searchsorted(number))
        if row >= self._size or ids[row] != number or self._columns["child"][row] < 0:
            raise KeyError(f"there is no instance {number}")
        return row

    def rows_of(self, ids: NDArray[np.int64]) -> Rows:
        """Return the row of the instance with each id, (n,); KeyError for an id of no instance."""
        all_ids = self.column("ids")
        if len(all_ids) and all_ids[-1] - all_ids[0] == len(all_ids) - 1:
            # Ids without gaps need no search.
            rows: Rows = np.clip(ids - all_ids[0], 0, len(all_ids) - 1)
        else:
            rows = np.minimum(all_ids.searchsorted(ids), len(all_ids) - 1)
        exists = np.zeros(len(ids), np.bool_)
        if len(all_ids):  # an empty table has no row to compare with
            exists = (all_ids[rows] == ids) & (self.column("child")[rows] >= 0)
        if not exists.all():
            raise KeyError(f"there is no instance {ids[int((~exists).argmax())]}")
        return rows

    def names_of(self, ids: NDArray[Any], missing: str | None) -> Any:
        """Return names of `ids` as an object array, `missing` for none; errors as in `rows_of`."""
        ids = ids.astype(np.int64, copy=False)
        size = int(ids.max(initial=-1)) + 2
        if ids.min(initial=-1) >= -1 and size <= ids.size + SMALL_TABLE:
            # Dense ids: a table from -1 to the largest is twenty times as fast as sorting.
            distinct, rows = np.full(size, -1), ids + 1  # -1 for ids that do not occur
            distinct[rows] = ids
        else:
            distinct, rows = np.unique(ids, return_inverse=True)
        # Raise for unknown ids; -1 is no id, and has no name.
        with self.without_compaction():
            self.rows_of(distinct[distinct != -1])
        names = np.array([self.names.get(k, missing) for k in distinct.tolist()], object)
        return names[rows.reshape(ids.shape)]

    def record(self, row: int) -> Instance:
        """Return a snapshot of the instance in a row."""
        number, child, matrix, mask, visible = (self._columns[name][row] for name in COLUMNS)
        number, child, name = int(number), self.children[child], self.names.get(int(number))
        return Instance(number, child, matrices_of(matrix), name, int(mask), bool(visible))

    def write(self, column: str, rows: Rows, values: NDArray[Any]) -> None:
        """Change the "maps", "masks" or "visible" `column` of some rows to `values`."""
        with table_guard.lock:
            self._columns[column][rows] = values
            self._note(column == "maps", rows)

    def rename(self, number: int, name: str | None) -> None:
        """Change the name of the instance with the id `number`; None removes the name."""
        with table_guard.lock:
            if name is None:
                self.names.pop(number, None)
            else:
                self.names[number] = str(name)
            self._note(False, NO_ROWS)

    def _note(self, moved: bool, rows: Rows) -> None:
        """Log a change of rows: of their maps if `moved`, else of their masks or visibility."""
        self._logged += 1 + len(rows)
        # A log that gets too long begins anew: all rows may have changed before.
        if self._logged > REMEMBERED + 2 * self._size:
            self._log, self._logged = [], 1 + len(rows)
        self._log.append((moved, rows))
        self.version += 1
        changes.note_scene()

    def changed_since(self, version: int) -> tuple[Rows, Rows] | None:
        """Return (rows with new maps, rows with new masks or visibility) since a version.

        None if the log does not reach back to that version: then all rows may have changed.
        """
        count = self.version - version
        if count > len(self._log):
            return None
        entries = self._log[len(self._log) - count :]
        moved = [rows for is_map, rows in entries if is_map]
        return _union(moved), _union([rows for is_map, rows in entries if not is_map])

    def forget(self) -> None:
        """Empty the log, and count a change after which all rows may be different."""
        self._log, self._logged = [], 0
        self.version += 1

    def remove(self, rows: Rows) -> None:
        """Remove rows, each given once."""
        with table_guard.lock:
            self._dead += len(rows)
            for number in self._columns["ids"][rows].tolist():
                self.names.pop(number, None)
            self.replace(rows, -1)

    def replace(self, rows: Rows | int, child: int) -> None:
        """Change the child of rows to the one with an index; -1 removes the rows."""
        with table_guard.lock:
            self._columns["child"][rows] = child
            self._is_compact = False
            self._note_structure()

    def _note_structure(self) -> None:
        """Count an addition, a removal or a replacement, after which all rows may have changed."""
        self.forget()
        self.structure_version = self.version
        changes.note_scene()

    def compact(self) -> None:
        """Close the gaps of removed rows, and drop children that are not used."""
        if not self._is_compact:
            with table_guard.lock:
                if not self._is_compact:
                    state = self.state()
                    self._adopt(state["columns"], state["children"])
                    self.forget()
                    self._is_compact = True

    def without_compaction(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which no other thread compacts the table."""
        return contextlib.nullcontext() if self._is_compact else table_guard.lock

    def _adopt(self, columns: dict[str, NDArray[Any]], children: list[Any]) -> None:
        """Use columns without gaps, and their children, as those of the table."""
        self._columns, self.children = columns, children
        self._size, self._dead = len(columns["ids"]), 0
        self._numbers = {id(child): k for k, child in enumerate(children)}
        self.unchecked = set(self._numbers.values())

    @property
    def is_as_made(self) -> bool:
        """Whether nothing has changed since `of_state` made the table."""
        return self._is_compact and self.version == 0

    def state(self) -> dict[str, Any]:
        """Return copies of the table's parts, without gaps; the children are not copied."""
        with table_guard.lock:
            rows = np.flatnonzero(self.column("child") >= 0)
            columns = {name: self.column(name)[rows] for name in COLUMNS}
            used, numbers = np.unique(columns["child"], return_inverse=True)
            columns["child"] = numbers.astype(np.int32).reshape(-1)
            children = [self.children[k] for k in used.tolist()]
            rest = {"names": dict(self.names), "next_id": self.next_id}
            return {"columns": columns, "children": children, **rest}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Instances:
        """Return a table of a state from `state`, whose arrays and dicts are not copied."""
        table = cls()
        table._adopt(state["columns"], state["children"])
        table.names, table.next_id = state["names"], state["next_id"]
        return table


def _union(parts: list[Rows]) -> Rows:
    """Return the rows that are in at least one of some arrays."""
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate([NO_ROWS, *parts]))


class InstanceHolder:
    """Base class of `Scene`: the state in copies, pickles and files."""

    __slots__ = ("_attributes", "_instances", "_saved", "_up")

    _instances: Instances
    # (tree, attributes) by ``id(tree)``: while the tree is kept, no other object has its id.
    _attributes: dict[int, tuple[TreeBase, Attributes]]
    _up: Axis
    _saved: MappedFile | None  # the file that the scene was mapped from, until its axis is set


def nested_scenes(top: InstanceHolder, compact: bool = True) -> list[InstanceHolder]:
    """Return the scene `top` and all scenes nested in it, each once, inner ones first, `top` last.

    With `compact`, gaps in their tables are closed first (see `Instances.compact`).
    """

    def children_of(part: InstanceHolder) -> Iterator[TreeBase | InstanceHolder]:
        """Return an iterator over the children that have an instance in a scene."""
        table = part._instances
        if compact:
            table.compact()
            return iter(table.children)
        # The children with instances, listed at once: another thread may renumber children later.
        used = np.unique(table.column("child"))
        return iter([table.children[k] for k in used[used >= 0].tolist()])

    parts: list[InstanceHolder] = []
    seen, open_parts = {id(top)}, [(top, children_of(top))]
    while open_parts:
        part, children = open_parts[-1]
        for child in children:
            if isinstance(child, InstanceHolder) and id(child) not in seen:
                seen.add(id(child))
                open_parts.append((child, children_of(child)))
                break
        else:
            parts.append(part)
            open_parts.pop()
    return parts
