"""Parts that are open: mapped trees with their ids, as many as memory is given for."""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.part_folder import Index, local_files, part_ids
from bvh.queries.hierarchy import BVH
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import load

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

# Files whose bytes have been checked in this process: name, time of change, size.
_checked: set[tuple[str, int, int]] = set()


class Part(NamedTuple):
    """An open part: its tree, and the ids of its triangles in the whole."""

    tree: BVH
    ids: NDArray[np.int64]

    def ids_of(self, prim_id: Any) -> NDArray[np.int64]:
        """Return the ids in the whole of primitives of the part; -1 for -1."""
        ids = np.full(prim_id.shape, -1, np.int64)
        hit = prim_id >= 0
        ids[hit] = self.ids[prim_id[hit]]
        return ids


class OpenParts:
    """Parts of a folder, opened when they are needed; those used last stay open.

    Parameters
    ----------
    place : str
        Folder or URL.
    index : Index
    memory : int
        Bytes of files to be mapped at a time.
    """

    def __init__(self, place: str, index: Index, memory: int) -> None:
        self._place, self._index, self._memory = place, index, memory
        self._open: OrderedDict[int, Part] = OrderedDict()
        self._guard = ForkSafeLock()

    @contextlib.contextmanager
    def part(self, number: int) -> Iterator[Part]:
        """Open a part; what the memory does not hold beside it is closed."""
        with self._guard.lock:
            part = self._open.pop(number, None)
            records = self._index.parts
            used = sum(records[k].tree_bytes for k in self._open)
            while self._open and used + records[number].tree_bytes > self._memory:
                used -= records[self._open.popitem(last=False)[0]].tree_bytes
            if part is None:
                part = self._opened(number)
            self._open[number] = part
        yield part

    def _opened(self, number: int) -> Part:
        """Map the files of a part, checked at the first time in a process."""
        tree_path, ids_path = local_files(self._place, self._index, number)
        name = f"{self._place}: part {number}"
        state = tree_path.stat()
        key = str(tree_path.resolve()), state.st_mtime_ns, state.st_size
        try:
            tree = load(tree_path, mmap=True, verify=key not in _checked)
            if not isinstance(tree, BVH) or tree.kind != "triangles":
                raise ValueError("is not a tree over triangles")
        except ValueError as error:
            raise ValueError(f"{name} ({tree_path.name}): {error}") from None
        ids = part_ids(ids_path, self._index.parts[number], name)
        if len(tree) != len(ids):
            raise ValueError(f"{name} has {len(tree)} triangles and {len(ids)} ids")
        _checked.add(key)
        return Part(tree, ids)


def byte_count(name: str, value: int | str) -> int:
    """Return a number of bytes, given as such or as text with a unit."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(i?)b?\s*", value.lower())
        if found is None or (found[3] and not found[2]):
            raise ValueError(f"{name} must be a number of bytes, such as '2GB', got {value!r}")
        return int(float(found[1]) * (BINARY_UNITS if found[3] else UNITS)[found[2]])
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer or a string, got {value!r}")
    return int(value)
