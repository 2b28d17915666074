"""What a scene holds: children, each under an affine map, as a table of columns that grow.

A row is an instance. Rows stand in the order of their ids, which are given once and never again.
What is removed leaves a gap that the next look at the whole table closes; what changes is noted in
journals, so that whoever works on the table can follow without going through it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import ALL_BITS
from bvh.changes import changes
from bvh.forks import ForkSafeLock
from bvh.hierarchy import Hierarchy

# Ids are told in int32.
MAX_ID = 2**31 - 1

# The context of what needs none.
_NOTHING = contextlib.nullcontext()

# Rows that a journal remembers, beside twice the rows of its table.
REMEMBERED = 4096

COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "ids": (np.int64, ()),
    "child": (np.int32, ()),
    "maps": (np.float64, (3, 4)),
    "masks": (np.uint32, ()),
    "visible": (np.bool_, ()),
}

# Held while gaps are closed, and by whoever looks at a table that has some: a question closes them,
# and other threads may ask at the same time.
_guard = ForkSafeLock()


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """One instance of a scene, as it was when it was asked for.

    Attributes
    ----------
    id : int
    child : BVH or Scene
    transform : ndarray of float64, shape (4, 4)
        From the child's coordinates to the scene's.
    name : str or None
    mask : int
        32 bits; rays that share none with it pass through.
    visible : bool
    """

    id: int
    child: Any
    transform: NDArray[np.float64]
    name: str | None
    mask: int
    visible: bool

    def __repr__(self) -> str:
        place = told_place(self.transform, self.mask, self.visible)
        return f"Instance({self.id}{told_name(self.name)}, {self.child!r}{place})"


def told_name(name: str | None) -> str:
    """Return a name, if there is one, as a part of what tells its owner."""
    return "" if name is None else f" {name!r}"


def told_place(transform: NDArray[np.float64], mask: int, visible: bool) -> str:
    """Return where an instance is and who sees it, as far as that is out of the ordinary."""
    told = ""
    if not np.array_equal(transform[:3, :3], np.eye(3)):
        told += ", transformed"
    if transform[:3, 3].any():
        told += f", at [{', '.join(f'{x + 0.0:.6g}' for x in transform[:3, 3].tolist())}]"
    if not visible:
        return told + ", hidden"
    return told if mask == ALL_BITS else f"{told}, mask {mask:#x}"


class Journal:
    """Which rows have changed, for readers who each remember how far they have read."""

    __slots__ = ("_begin", "_entries", "_rows")

    def __init__(self) -> None:
        self._entries: list[NDArray[np.int64]] = []
        self._begin = self._rows = 0

    @property
    def end(self) -> int:
        """Where a reader stands who has read all."""
        return self._begin + len(self._entries)

    def note(self, rows: NDArray[np.int64], most: int) -> None:
        """Add changed rows; forget the old ones where there are more than `most`."""
        self._rows += len(rows)
        if self._rows > most:
            self.forget()
            self._rows = len(rows)
        self._entries.append(rows)

    def forget(self) -> None:
        """Leave readers who are not at the end to take all rows for changed."""
        # One more, so that who has read all but nothing since is behind, too.
        self._begin = self.end + 1
        self._entries, self._rows = [], 0

    def since(self, place: int) -> NDArray[np.int64] | None:
        """Return the rows that have changed since a reader was at `place`; None for any."""
        if place < self._begin:
            return None
        entries = self._entries[place - self._begin :]
        if len(entries) == 1:
            return entries[0]
        return np.unique(np.concatenate(entries)) if entries else np.empty(0, np.int64)


class Instances:
    """The table of a scene's instances.

    Attributes
    ----------
    children : list of Hierarchy or Assembly
        Each once, however many instances it has.
    names : dict
        Of those that have one, by id.
    next_id : int
    shape : int
        Another number whenever an instance has come, gone, or got another child.
    moved, masked : Journal
        Rows whose map has changed; whose mask or visibility has.
    """

    __slots__ = (
        "_columns", "_dead", "_places", "_settled", "_size", "children", "masked", "moved",
        "names", "next_id", "shape",
    )  # fmt: skip

    def __init__(self) -> None:
        self._columns = {name: np.empty((0, *s), kind) for name, (kind, s) in COLUMNS.items()}
        self._size = self._dead = 0
        self._settled = True
        self._places: dict[int, int] = {}  # of children, by Python's id
        self.children: list[Hierarchy | Assembly] = []
        self.names: dict[int, str] = {}
        self.next_id = self.shape = 0
        self.moved, self.masked = Journal(), Journal()

    def __len__(self) -> int:
        return self._size - self._dead

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, those of rows whose instance is gone included (see `settle`)."""
        return self._columns[name][: self._size]

    def place_of(self, child: Hierarchy | Assembly) -> int:
        """Return the number of a child, a new one if it is new."""
        place = self._places.setdefault(id(child), len(self.children))
        if place == len(self.children):
            self.children.append(child)
        return place

    def extend(
        self,
        places: NDArray[np.int32] | int,
        maps: NDArray[np.float64],
        names: Iterable[str | None],
        masks: NDArray[np.uint32] | int = ALL_BITS,
        visible: NDArray[np.bool_] | bool = True,
    ) -> NDArray[np.int64]:
        """Add instances of the children with the given numbers; return their ids."""
        first, count = self.next_id, len(maps)
        if count == 0 or first + count > MAX_ID:
            # A child that was new has no instance.
            self._settled = False
        if first + count > MAX_ID:
            raise ValueError(f"a scene can give {MAX_ID} ids, and has given {first}")
        ids = np.arange(first, first + count)
        begin, end = self._size, self._size + count
        self._reserve(end)
        new = {"ids": ids, "child": places, "maps": maps, "masks": masks, "visible": visible}
        for column, values in new.items():
            self._columns[column][begin:end] = values
        for number, name in zip(ids.tolist(), names, strict=False):
            if name is not None:
                self.names[number] = name
        self._size, self.next_id = end, first + count
        self._reshaped()
        return ids

    def _reserve(self, rows: int) -> None:
        """Make room, twice as much as before so that one by one is cheap, too."""
        if rows > len(self._columns["ids"]):
            for name, old in self._columns.items():
                new = np.empty((max(rows, 2 * len(old), 4), *old.shape[1:]), old.dtype)
                new[: len(old)] = old
                self._columns[name] = new

    def row_of(self, number: int) -> int:
        """Return the row of one id."""
        ids, row = self._columns["ids"], number
        # Where nothing has been removed, an id is a row.
        if not (0 <= row < self._size and ids[row] == number):
            row = int(self.column("ids").searchsorted(number))
        if row >= self._size or ids[row] != number or self._columns["child"][row] < 0:
            raise KeyError(f"there is no instance {number}")
        return row

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of ids."""
        held = self.column("ids")
        if not len(held):
            rows, known = ids, np.zeros(len(ids), np.bool_)
        elif held[-1] - held[0] == len(held) - 1:
            known = (ids >= held[0]) & (ids <= held[-1])
            rows = np.where(known, ids - held[0], 0)
        else:
            rows = np.minimum(held.searchsorted(ids), len(held) - 1)
            known = held[rows] == ids
        if len(held):
            known &= self.column("child")[rows] >= 0
        if not known.all():
            raise KeyError(f"there is no instance {ids[int((~known).argmax())]}")
        return rows

    def record(self, row: int) -> Instance:
        """Return one instance."""
        columns, number = self._columns, int(self._columns["ids"][row])
        transform = np.eye(4)
        transform[:3] = columns["maps"][row]
        transform.flags.writeable = False
        child = self.children[columns["child"][row]]
        name = self.names.get(number)
        mask, visible = int(columns["masks"][row]), bool(columns["visible"][row])
        return Instance(number, child, transform, name, mask, visible)

    def move(self, rows: NDArray[np.int64], maps: NDArray[np.float64]) -> None:
        """Give rows other maps."""
        self._columns["maps"][rows] = maps
        self.moved.note(rows, REMEMBERED + 2 * self._size)
        changes.note_scene()

    def mark(self, rows: NDArray[np.int64], column: str, values: Any) -> None:
        """Give rows other masks, or another visibility."""
        self._columns[column][rows] = values
        self.masked.note(rows, REMEMBERED + 2 * self._size)
        changes.note_scene()

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Remove rows; each may be given once."""
        self._columns["child"][rows] = -1
        self._dead += len(rows)
        for number in self._columns["ids"][rows].tolist():
            self.names.pop(number, None)
        self._settled = False
        self._reshaped()

    def replace(self, row: int, place: int) -> None:
        """Give a row another child."""
        self._columns["child"][row] = place
        self._settled = False
        self._reshaped()

    def _reshaped(self) -> None:
        self.shape += 1
        changes.note_scene()

    def settle(self) -> None:
        """Close the gaps that removed rows have left, and let go of children that are not used."""
        if not self._settled:
            with _guard.lock:
                if not self._settled:
                    self._close_gaps()

    def steady(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which no other thread closes gaps."""
        return _NOTHING if self._settled else _guard.lock

    def _close_gaps(self) -> None:
        used = np.zeros(len(self.children) + 1, np.bool_)
        used[self.column("child")] = True  # -1 is the last
        rows = self.living()
        self._columns = {name: column[rows] for name, column in self._columns.items()}
        self._columns["child"] = (np.cumsum(used) - 1).astype(np.int32)[self._columns["child"]]
        self._size, self._dead = len(rows), 0
        self.children = [c for c, kept in zip(self.children, used[:-1], strict=True) if kept]
        self._places = {id(child): k for k, child in enumerate(self.children)}
        self.moved.forget()
        self.masked.forget()
        self._settled = True

    def living(self) -> NDArray[np.int64]:
        """Return the rows that have not been removed."""
        return np.flatnonzero(self.column("child") >= 0)

    def state(self) -> dict[str, Any]:
        """Return copies of what the table is made of; the children are not copied."""
        self.settle()
        return {
            "columns": {name: self.column(name).copy() for name in COLUMNS},
            "children": list(self.children), "names": dict(self.names), "next_id": self.next_id,
        }  # fmt: skip

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Instances:
        """Return the table with a `state`, which it keeps."""
        table = cls()
        table._columns, table.children = state["columns"], state["children"]
        table.names, table.next_id = state["names"], state["next_id"]
        table._size = len(table._columns["ids"])
        table._places = {id(child): k for k, child in enumerate(table.children)}
        return table


class Assembly:
    """What a scene is to the scenes that hold it: a table of instances."""

    __slots__ = ("_instances",)

    _instances: Instances


def below(top: Assembly) -> list[Assembly]:
    """Return all assemblies in one, itself included, each once, after those that it holds."""
    found: list[Assembly] = []
    seen = {id(top)}
    top._instances.settle()
    open_parts: list[tuple[Assembly, Iterator[Hierarchy | Assembly]]] = [
        (top, iter(top._instances.children))
    ]
    while open_parts:
        part, children = open_parts[-1]
        for child in children:
            if isinstance(child, Assembly) and id(child) not in seen:
                seen.add(id(child))
                child._instances.settle()
                open_parts.append((child, iter(child._instances.children)))
                break
        else:
            found.append(part)
            open_parts.pop()
    return found


def depth_of(parts: Sequence[Assembly]) -> int:
    """Return how many assemblies a path through the last of `parts` (see `below`) leads through."""
    depths: dict[int, int] = {}
    for part in parts:
        inner = (depths.get(id(child), 0) for child in part._instances.children)
        depths[id(part)] = 1 + max(inner, default=0)
    return depths[id(parts[-1])]
