"""Parts that are open: mapped trees with their ids, as many as memory is given for."""

import contextlib
import os
import re
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from bvh.distributed.fetched_files import fetched
from bvh.distributed.merging import Columns
from bvh.distributed.part_folder import (
    Index,
    PartFile,
    bits_of,
    file_digest,
    file_system,
    files_of,
    is_url,
)
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.hierarchy import BVH
from bvh.queries.targets import ray_target
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import load, prefixed
from bvh.tree.primitives import Triangles

# Bytes of a file that are requested at a time; over HTTP all of it (0 in fsspec), as not all
# servers support ranges.
REQUEST, WHOLE = 1 << 25, 0

# Device, inode, size and times of a file (see `_state`).
State = tuple[int, ...]

# Fields of an `OpenPart` besides its number.
Mapped = tuple[BVH, NDArray[np.int64], dict[Path, State]]

# Keys of checks that files have passed in this process: states of files, and the entries of the
# index that they were compared with.
_checked: set[tuple[object, ...]] = set()
# Held while a part is opened.
_guard = ForkSafeLock()


class OpenPart(NamedTuple):
    """An open part: its tree, the ids of its triangles in the mesh, the states of both files."""

    number: int
    tree: BVH
    ids: NDArray[np.int64]
    files: dict[Path, State]

    def ids_of(self, prim_id: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the ids in the mesh of triangles `prim_id` of the part's tree; -1 for -1."""
        return np.where(prim_id >= 0, self.ids[prim_id], -1)

    def ray_search(self) -> RaySearch:
        """Return the target of rays in this part."""
        search: RaySearch = ray_target(self.tree)
        return search

    def columns_of(self, answer: Any) -> Columns:
        """Return the columns of hits or closest points: with ids in the mesh, and the part."""
        parts = np.full(np.shape(answer.prim_id), self.number, np.int32)
        return {**vars(answer), "prim_id": self.ids_of(answer.prim_id), "part": parts}

    @property
    def is_intact(self) -> bool:
        """Whether no mapped file was changed in place: reading one that was cut off may crash.

        A file that was removed, or replaced by one of another inode, stays mapped as it was.
        """
        for path, state in self.files.items():
            with contextlib.suppress(OSError):
                now = _state(path)
                # Changed, but of the same device and inode.
                if now != state and now[:2] == state[:2]:
                    return False
        return True


class OpenParts:
    """Parts of a folder or URL, opened when needed; those used last stay open."""

    def __init__(self, place: str, index: Index, memory: int) -> None:
        """Begin without open parts of `place`, a folder or URL with this index.

        They stay open as long as their files have at most `memory` bytes together, and need at most
        half of the file descriptors that a process may have; other meshes in parts have theirs.
        """
        self._place, self._index, self._memory = place, index, memory
        self._open: OrderedDict[int, OpenPart] = OrderedDict()
        # A mapped file needs a descriptor, and a part has two files.
        self._most = max(most_files() // 4, 1)
        size = sum(part.nbytes for part in index.parts)
        self._all_fit = size <= memory and len(index.parts) <= self._most

    def part(self, number: int) -> OpenPart:
        """Return part `number`; those used longest ago are closed if they do not fit beside it."""
        with _guard.lock:
            part = self._open.pop(number, None)
            records = self._index.parts
            used, size = sum(records[k].nbytes for k in self._open), records[number].nbytes
            while self._open and (used + size > self._memory or len(self._open) >= self._most):
                used -= records[self._open.popitem(last=False)[0]].nbytes
            if part is None or not part.is_intact:
                part = OpenPart(number, *self._opened(number))
            self._open[number] = part
        return part

    def lasting(self) -> dict[int, OpenPart]:
        """Return the open parts by number if all parts may stay open together; otherwise none."""
        with _guard.lock:
            parts = dict(self._open) if self._all_fit else {}
        return {number: part for number, part in parts.items() if part.is_intact}

    def leaves_of(
        self, parts: tuple[NDArray[np.int32]], ids: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Iterator[tuple[Triangles, None, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (triangles, None, hits, faces) for each part that some of the hits `rows` are in.

        Read by `locations`. `parts[0]` has the part of each hit, and `ids` the face in the mesh;
        None stands for a transform, which parts do not have.
        """
        number = parts[0].reshape(-1)[rows]
        for k in np.unique(number).tolist():
            part, some = self.part(k), rows[number == k]
            triangles = part.tree.arrays.primitives
            assert isinstance(triangles, Triangles)
            yield triangles, None, some, np.searchsorted(part.ids, ids[some])

    def check_content(self, number: int) -> None:
        """Raise a ValueError unless both files of part `number` have the digests of the index."""
        with _guard.lock:
            # Open the part anew, as its mapped file may have been replaced.
            self._open.pop(number, None)
        paths, files = self.part(number).files, files_of(self._place, self._index, number)
        for (path, state), file in zip(paths.items(), files, strict=True):
            if file_digest(path) != file.digest:
                raise ValueError(f"{file.label} is not the file of the index")
            if _state(path) != state:
                raise ValueError(f"{file.label} was changed while it was checked")

    def _opened(self, number: int) -> Mapped:
        """Return a part whose files are mapped, and checked the first time in a process."""
        files = files_of(self._place, self._index, number)
        if not is_url(self._place):
            paths = [Path(self._place) / file.name for file in files]
            for file, path in zip(files, paths, strict=True):
                file.check(path)
            return self._mapped(files, *paths)
        system, root = file_system(self._place)
        block_size = WHOLE if "http" in system.protocol else REQUEST

        def copies() -> list[Path]:
            """Return local copies of the files, which are fetched if there are none."""
            opened = partial(system.open, mode="rb", block_size=block_size)
            return [fetched(file, partial(opened, f"{root}/{file.name}")) for file in files]

        paths = copies()
        with contextlib.suppress(ValueError):
            return self._mapped(files, *paths)
        # A damaged copy: fetch it once more.
        for path in paths:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return self._mapped(files, *copies())

    def _mapped(self, files: tuple[PartFile, PartFile], tree_path: Path, ids_path: Path) -> Mapped:
        """Return a part, mapped from files that are checked unless they were before."""
        record, count = files[0].part, self._index.triangles
        states = {path: _state(path) for path in (tree_path, ids_path)}
        key = *states.values(), record.tree_header, record.ids_digest, record.groups, count
        is_new = key not in _checked
        with prefixed(files[0].label):
            tree = load(tree_path, mmap=True, verify=is_new)
            if not isinstance(tree, BVH):
                raise ValueError("is not a tree over triangles")
            if is_new and bits_of(tree) != record.groups:
                raise ValueError("has other groups than the index says")
        with prefixed(files[1].label):
            if is_new and file_digest(ids_path) != record.ids_digest:
                raise ValueError("is damaged: its checksum is wrong")
            ids = _mapped_ids(ids_path, record.triangles)
            in_order = not is_new or (ids[1:] > ids[:-1]).all()
            if len(ids) and not (ids[0] >= 0 and ids[-1] < count and in_order):
                raise ValueError(f"holds ids that are not ascending in 0..{count - 1}")
        _checked.add(key)
        return tree, ids, states


# All `OpenParts` of this process, by place, checksum of the index, and memory.
_all: weakref.WeakValueDictionary[tuple[str, str, int], OpenParts] = weakref.WeakValueDictionary()


def open_parts(place: str, index: Index, memory: int) -> OpenParts:
    """Return the open parts of a folder or URL, which all its `Parts` in this process share.

    So all tasks that query groups of parts map no more than `memory` bytes together, and the part
    that each thread is querying.
    """
    return _all.setdefault((place, index.digest, memory), OpenParts(place, index, memory))


def most_files() -> int:
    """Return how many files the system lets this process have open."""
    try:
        import resource
    except ImportError:  # on Windows, where maps do not count
        return 1 << 31
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 31 if limit == resource.RLIM_INFINITY else limit


def _state(path: Path) -> State:
    """Return the state of a file, which differs after each change of its content."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _mapped_ids(path: Path, count: int) -> NDArray[np.int64]:
    """Return the ids in a .npy file, mapped; raise a ValueError unless they are `count` int64."""
    try:
        ids: NDArray[np.int64] = open_memmap(path, mode="r")
    except Exception as error:
        # NumPy reads a header as Python's literals, and raises whatever that does.
        raise ValueError(f"holds no ids: {error!r}") from None
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise ValueError("holds no ids")
    if len(ids) != count:
        raise ValueError(f"has {len(ids)} ids for {count} triangles")
    return ids


def byte_count(name: str, value: int | str) -> int:
    """Return the argument `name`, a number of bytes or text such as "2GB" or "500MiB", as bytes."""
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
        raise TypeError(f"{name} must be an integer or a string, got {value!r}")
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(?:([kmgt])(i?))?b?\s*", str(value).lower())
    if match is None:
        raise ValueError(f"{name} must be a number of bytes, such as '2GB', got {value!r}")
    # MB are powers of 1000, MiB of 1024.
    unit = (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " ")
    return int(float(match[1]) * unit) if isinstance(value, str) else int(value)
