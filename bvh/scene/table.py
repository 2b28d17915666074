"""Table of a scene's instances: children under affine maps, in growing columns.

A row is an instance. Rows are in the order of ids, which are never reused. Removed rows leave gaps
that the next query compacts; changes are logged in journals, which readers follow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.trimesh_scenes import Attributes
from bvh.queries.tree_base import MappedFile, TreeBase
from bvh.runtime.arguments import ALL_BITS, Axis
from bvh.runtime.forks import ForkSafeLock
from bvh.tree.changes import changes

# Ids are int32 in results.
MAX_ID = 2**31 - 1

# A context that does nothing.
_NOTHING = contextlib.nullcontext()

# Rows that a journal keeps, beside twice the rows of its table.
REMEMBERED = 4096
# Rows of a table of names that is small enough to scan.
SMALL_TABLE = 1024

COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "ids": (np.int64, ()),
    "child": (np.int32, ()),
    "maps": (np.float64, (3, 4)),
    "masks": (np.uint32, ()),
    "visible": (np.bool_, ()),
}

# Held while a table changes or is compacted, by readers of one with gaps (queries compact it,
# possibly in other threads), and while a table is copied for another thread.
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
        32 bits; rays whose mask shares no bit with it ignore the instance.
    visible : bool
        Rays ignore instances that are not visible.

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
    whole = np.zeros((*maps.shape[:-2], 4, 4))
    whole[..., :3, :], whole[..., 3, 3] = maps, 1.0
    whole.flags.writeable = False
    return whole


def format_name(name: str | None) -> str:
    """Return a name, if any, as a part of a repr."""
    return "" if name is None else f" {name!r}"


def format_placement(transform: NDArray[np.float64], mask: int, visible: bool) -> str:
    """Return transform, visibility and mask, where not the default, as a part of a repr."""
    text = ""
    if not np.array_equal(transform[:3, :3], np.eye(3)):
        text += ", transformed"
    if transform[:3, 3].any():
        text += f", at [{', '.join(f'{x + 0.0:.6g}' for x in transform[:3, 3].tolist())}]"
    if not visible:
        return text + ", hidden"
    return text if mask == ALL_BITS else f"{text}, mask {mask:#x}"


class Journal:
    """Log of changed rows; each reader keeps its own position in it."""

    __slots__ = ("_begin", "_entries", "_rows")

    def __init__(self) -> None:
        self._entries: list[NDArray[np.int64]] = []
        self._begin = self._rows = 0

    @property
    def end(self) -> int:
        """Position behind all entries."""
        return self._begin + len(self._entries)

    def note(self, rows: NDArray[np.int64], capacity: int) -> None:
        """Append changed rows; drop the old ones if there are more than `capacity`."""
        self._rows += len(rows)
        if self._rows > capacity:
            self.forget()
            self._rows = len(rows)
        self._entries.append(rows)

    def forget(self) -> None:
        """Drop all entries: to every reader, all rows have changed."""
        # One more, so that readers at the end are behind, too.
        self._begin = self.end + 1
        self._entries, self._rows = [], 0

    def since(self, position: int) -> NDArray[np.int64] | None:
        """Return the rows changed since `position`; None if that is unknown: maybe all."""
        if position < self._begin:
            return None
        entries = self._entries[position - self._begin :]
        if len(entries) == 1:
            return entries[0]
        return np.unique(np.concatenate(entries)) if entries else np.empty(0, np.int64)


class Instances:
    """Table of a scene's instances."""

    __slots__ = (
        "_columns", "_dead", "_is_compact", "_numbers", "_size", "children", "masked", "moved",
        "names", "next_id", "renamed", "shape",
    )  # fmt: skip

    def __init__(self) -> None:
        self._columns = {name: np.empty((0, *s), kind) for name, (kind, s) in COLUMNS.items()}
        self._size = self._dead = 0
        self._is_compact = True
        # Each child once, however many instances it has; its index, by Python's id.
        self.children: list[TreeBase | InstanceHolder] = []
        self._numbers: dict[int, int] = {}
        # By id, of the instances that have one.
        self.names: dict[int, str] = {}
        self.next_id = 0
        # Changes whenever an instance is added, removed, or gets another child; another name.
        self.shape = self.renamed = 0
        # Rows whose map has changed; whose mask or visibility has.
        self.moved, self.masked = Journal(), Journal()

    def __len__(self) -> int:
        with self.without_compaction():
            return self._size - self._dead

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, including rows whose instance has been removed (see `compact`)."""
        return self._columns[name][: self._size]

    def child_index(self, child: TreeBase | InstanceHolder) -> int:
        """Return the index of a child in `children`, which it is added to if it is new."""
        number = self._numbers.setdefault(id(child), len(self.children))
        if number == len(self.children):
            self.children.append(child)
        return number

    def extend(
        self, children: NDArray[np.int32] | int, maps: NDArray[np.float64],
        names: Iterable[str | None], masks: NDArray[np.uint32] | int = ALL_BITS,
        visible: NDArray[np.bool_] | bool = True,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Add instances of the children with the given indices; return their ids."""
        first, count = self.next_id, len(maps)
        if count == 0 or first + count > MAX_ID:
            # A new child has no instance.
            self._is_compact = False
        if first + count > MAX_ID:
            raise ValueError(f"a scene can give {MAX_ID} ids, and has given {first}")
        ids = np.arange(first, first + count)
        begin, end = self._size, self._size + count
        new = {"ids": ids, "child": children, "maps": maps, "masks": masks, "visible": visible}
        with table_guard.lock:
            self._reserve(end)
            for column, values in new.items():
                self._columns[column][begin:end] = values
            for number, name in zip(ids.tolist(), names, strict=False):
                if name is not None:
                    self.names[number] = name
            self._size, self.next_id = end, first + count
            self._reshaped()
        return ids

    def _reserve(self, rows: int) -> None:
        """Grow the capacity, at least twofold so that adding one by one is cheap, too."""
        if rows > len(self._columns["ids"]):
            for name, old in self._columns.items():
                new = np.empty((max(rows, 2 * len(old), 4), *old.shape[1:]), old.dtype)
                new[: len(old)] = old
                self._columns[name] = new

    def row_of(self, number: int) -> int:
        """Return the row of an id."""
        ids, row = self._columns["ids"], number
        # Where nothing has been removed, an id is a row.
        if not (0 <= row < self._size and ids[row] == number):
            row = int(self.column("ids").searchsorted(number))
        if row >= self._size or ids[row] != number or self._columns["child"][row] < 0:
            raise KeyError(f"there is no instance {number}")
        return row

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of ids."""
        given = self.column("ids")
        if len(given) and given[-1] - given[0] == len(given) - 1:
            rows: NDArray[np.int64] = np.clip(ids - given[0], 0, len(given) - 1)
        else:
            rows = np.minimum(given.searchsorted(ids), len(given) - 1)
        # Without any row, there is none to compare with.
        known = np.zeros(len(ids), np.bool_)
        if len(given):
            known = (given[rows] == ids) & (self.column("child")[rows] >= 0)
        if not known.all():
            raise KeyError(f"there is no instance {ids[int((~known).argmax())]}")
        return rows

    def names_of(self, ids: NDArray[Any], missing: str | None) -> Any:
        """Return the names of instances as objects, `missing` for -1 and where there is none."""
        ids = ids.astype(np.int64, copy=False)
        size = int(ids.max(initial=-1)) + 2
        if ids.min(initial=-1) == -1 and size <= ids.size + SMALL_TABLE:
            # To sort the ids would take twenty times as long.
            which, rows, seen = np.arange(-1, size - 1), ids + 1, np.zeros(size, np.bool_)
            seen[rows] = True
            which[~seen] = -1
        else:
            which, rows = np.unique(ids, return_inverse=True)
        # An unknown id is an error, with or without a name.
        with self.without_compaction():
            self.rows_of(which[which != -1])
        named = np.array([self.names.get(k, missing) for k in which.tolist()] + [None], object)
        return named[rows.reshape(ids.shape)]

    def used_children(self) -> list[TreeBase | InstanceHolder]:
        """Return the children that have instances."""
        used = np.unique(self.column("child"))
        return [self.children[k] for k in used[used >= 0].tolist()]

    def record(self, row: int) -> Instance:
        """Return one instance."""
        number, child, maps, mask, visible = (self._columns[name][row] for name in COLUMNS)
        found, name = self.children[child], self.names.get(int(number))
        return Instance(int(number), found, matrices_of(maps), name, int(mask), bool(visible))

    def write(self, column: str, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Change the maps, masks or visibility of rows."""
        journal = self.moved if column == "maps" else self.masked
        with table_guard.lock:
            self._columns[column][rows] = values
            journal.note(rows, REMEMBERED + 2 * self._size)
            changes.note_scene()

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Remove rows, each given once."""
        with table_guard.lock:
            self._dead += len(rows)
            for number in self._columns["ids"][rows].tolist():
                self.names.pop(number, None)
            self.replace(rows, -1)

    def replace(self, rows: NDArray[np.int64] | int, child: int) -> None:
        """Change the child of rows to the one with an index."""
        with table_guard.lock:
            self._columns["child"][rows] = child
            self._is_compact = False
            self._reshaped()

    def _reshaped(self) -> None:
        self.shape += 1
        changes.note_scene()

    def compact(self) -> None:
        """Close the gaps of removed rows, and drop children that are not used."""
        if not self._is_compact:
            with table_guard.lock:
                if not self._is_compact:
                    self._close_gaps()

    def without_compaction(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which no other thread compacts the table."""
        return _NOTHING if self._is_compact else table_guard.lock

    def _close_gaps(self) -> None:
        used = np.zeros(len(self.children) + 1, np.bool_)
        used[self.column("child")] = True  # -1 is the last
        rows = np.flatnonzero(self.column("child") >= 0)
        self._columns = {name: column[rows] for name, column in self._columns.items()}
        self._columns["child"] = (np.cumsum(used) - 1).astype(np.int32)[self._columns["child"]]
        self._size, self._dead = len(rows), 0
        self.children = [c for c, kept in zip(self.children, used[:-1], strict=True) if kept]
        self._numbers = {id(child): k for k, child in enumerate(self.children)}
        self.moved.forget()
        self.masked.forget()
        self._is_compact = True

    @property
    def is_as_made(self) -> bool:
        """Whether nothing but names has changed since the table was made of a state."""
        return self._is_compact and not (self.shape or self.moved.end or self.masked.end)

    def state(self) -> dict[str, Any]:
        """Return copies of the table's parts; the children are not copied."""
        self.compact()
        return {
            "columns": {name: self.column(name).copy() for name in COLUMNS},
            "children": list(self.children), "names": dict(self.names), "next_id": self.next_id,
        }  # fmt: skip

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Instances:
        """Return the table with a `state`, which is not copied."""
        table = cls()
        table._columns, table.children = state["columns"], state["children"]
        table.names, table.next_id = state["names"], state["next_id"]
        table._size = len(table._columns["ids"])
        table._numbers = {id(child): k for k, child in enumerate(table.children)}
        return table


class InstanceHolder:
    """Base class of `Scene`, as scenes around it use it: what is saved of it."""

    __slots__ = ("_attributes", "_instances", "_saved", "_up")

    _instances: Instances
    # By Python's id of a tree, with the tree, so that no other object can have that id.
    _attributes: dict[int, tuple[TreeBase, Attributes]]
    _up: Axis
    # What the scene was mapped from, until it is renamed or its axis is set.
    _saved: MappedFile | None


def nested_scenes(top: InstanceHolder, compact: bool = True) -> list[InstanceHolder]:
    """Return a scene and all scenes nested in it, each once, inner ones first."""

    def children_of(part: InstanceHolder) -> Iterator[TreeBase | InstanceHolder]:
        if compact:
            part._instances.compact()
        return iter(part._instances.children if compact else part._instances.used_children())

    found: list[InstanceHolder] = []
    seen = {id(top)}
    open_parts = [(top, children_of(top))]
    while open_parts:
        part, children = open_parts[-1]
        for child in children:
            if isinstance(child, InstanceHolder) and id(child) not in seen:
                seen.add(id(child))
                open_parts.append((child, children_of(child)))
                break
        else:
            found.append(part)
            open_parts.pop()
    return found


def depth_of(parts: Sequence[InstanceHolder]) -> int:
    """Return the levels of nesting of the last of some scenes (see `nested_scenes`)."""
    depths: dict[int, int] = {}
    for part in parts:
        inner = (depths.get(id(child), 0) for child in part._instances.children)
        depths[id(part)] = 1 + max(inner, default=0)
    return depths[id(parts[-1])]
