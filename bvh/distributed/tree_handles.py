"""Handles of trees and scenes, which stand for them in task graphs.

A handle is a snapshot: what happens to a tree or scene afterwards does not change the answers of a
graph. It is pickled once, however many tasks use it. A tree or a scene that is mapped from a file
is not pickled at all: its handle has the path and the checksum, and each process opens the file
once. A scene that has been changed is pickled, without those of its trees that are mapped.

The checksum is that of the header, which covers CRC-32s of the arrays. It tells a file that was
saved again, or is another one on another machine, without reading gigabytes. It is no guard against
who can write to the file; parts, which may come from elsewhere, are known by digests of content.
"""

import copy
import io
import os
import pickle
import weakref
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.parts import Parts
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import size_of
from bvh.io.untrusted_files import opened
from bvh.queries.hierarchy import BVH
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import load, loaded_from
from bvh.scene.scene import Scene

Opened = TypeVar("Opened")

# Mapped trees and scenes of this process, by path and checksum, and maps of scenes' files.
_opened: dict[tuple[str, str], BVH | Scene] = {}
_maps: weakref.WeakValueDictionary[tuple[str, int, int, int], Any] = weakref.WeakValueDictionary()
_guard = ForkSafeLock()


class OpenedOnce(Generic[Opened]):
    """Base of what stands for something in task graphs, and opens it once in a process."""

    _content: Opened | None = None
    # Makes or finds it.
    _open: Callable[[], Opened]

    def open(self) -> Opened:
        """Return it; ValueError if the file that it is in is not here, or is another one."""
        if self._content is None:
            with _guard.lock:
                if self._content is None:
                    self._content = self._open()
        return self._content

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_content": None}


class _Mapped(OpenedOnce[Any]):
    """Handle of what is mapped from a file: path, checksum of headers, and where a tree begins."""

    _kind: str
    # The checksum of what the file has now, "" for none, and what opens it.
    _found: Callable[[], tuple[str, Callable[[], BVH | Scene]]]

    def __init__(self, path: str, checksum: str, offset: int = 0) -> None:
        self.path, self.checksum, self.offset = path, checksum, offset

    def _open(self) -> BVH | Scene:
        key = self.path, self.checksum
        if key not in _opened:
            wanted = f"the {self._kind} is mapped from {self.path} with checksum {self.checksum}"
            if not os.path.isfile(self.path):
                raise ValueError(f"no such file here: {wanted}")
            found, opening = self._found()
            if found != self.checksum:
                other = f"has {found}" if found else f"is no saved {self._kind}"
                raise ValueError(f"{wanted}; the file here {other}")
            _opened[key] = opening()
        return _opened[key]

    def __dask_tokenize__(self) -> tuple[str, str, str, int]:
        return f"bvh.{type(self).__name__}", self.path, self.checksum, self.offset


class MappedTree(_Mapped):
    """Handle of a tree that is mapped from a file, of its own or of a scene."""

    _kind = "tree"

    def _found(self) -> tuple[str, Callable[[], BVH | Scene]]:
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            start = file.read(HEADER_SIZE)

        def loaded() -> BVH | Scene:
            if self.offset == 0:
                return load(self.path, mmap=True)
            part = slice(self.offset, self.offset + size_of(start))
            return loaded_from(self.path, _map_of(self.path)[part])

        return start[HEADER_SIZE - DIGEST_SIZE :].hex(), loaded


class MappedScene(_Mapped):
    """Handle of a scene that is mapped from a file, and has not been changed."""

    _kind = "scene"
    # In the process that has the scene.
    _map: NDArray[np.uint8] | None = None

    def _open(self) -> BVH | Scene:
        # Another one of the same map, which nobody changes.
        return super()._open() if self._map is None else loaded_from(self.path, self._map)

    def _found(self) -> tuple[str, Callable[[], BVH | Scene]]:
        scene = load(self.path, mmap=True)
        saved = scene.source if isinstance(scene, Scene) else None
        return "" if saved is None else saved.checksum, lambda: scene

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_map": None}


class HeldTree(OpenedOnce[BVH]):
    """Handle of a tree in memory; unpickled when it is first used, and then once a process."""

    def __init__(self, tree: BVH) -> None:
        self._token: object = None
        # Again, if another thread refits the tree between the two.
        while self._content is None or tree.__dask_tokenize__() != self._token:
            self._token, self._content = tree.__dask_tokenize__(), copy.copy(tree)
        self._pickled: bytes | None = None

    def _open(self) -> BVH:
        assert self._pickled is not None
        tree: BVH = pickle.loads(self._pickled)
        # In this order: another thread may pickle the handle now.
        self._content, self._pickled = tree, None
        return tree

    def __getstate__(self) -> dict[str, object]:
        # A scheduler passes on the bytes that it has.
        pickled = self._pickled or pickle.dumps(self._content, protocol=5)
        return super().__getstate__() | {"_pickled": pickled}

    def __dask_tokenize__(self) -> object:
        return self._token


class HeldScene(OpenedOnce[Scene]):
    """Handle of a scene: its state, and a handle of each of its trees."""

    def __init__(self, scene: Scene) -> None:
        self._trees: list[MappedTree | HeldTree] = []
        stream = io.BytesIO()
        _ScenePickler(stream, self._trees).dump(scene)
        self._state = stream.getvalue()

    def _open(self) -> Scene:
        scene: Scene = _SceneUnpickler(io.BytesIO(self._state), self._trees).load()
        return scene

    def __dask_tokenize__(self) -> tuple[object, ...]:
        # Without the content of mapped trees, which would have to be read for it.
        trees = [tree.__dask_tokenize__() for tree in self._trees]
        return "bvh.HeldScene", blake2b(self._state).hexdigest(), trees


class _ScenePickler(pickle.Pickler):
    """Pickler that keeps handles of trees beside what it writes."""

    def __init__(self, stream: io.BytesIO, trees: list[MappedTree | HeldTree]) -> None:
        super().__init__(stream, protocol=5)
        self._trees, self._rows = trees, dict[int, int]()

    def persistent_id(self, thing: object) -> int | None:
        if not isinstance(thing, BVH):
            return None
        row = self._rows.setdefault(id(thing), len(self._trees))
        if row == len(self._trees):
            self._trees.append(_tree_handle(thing))
        return row


class _SceneUnpickler(pickle.Unpickler):
    """Unpickler of what `_ScenePickler` writes."""

    def __init__(self, stream: io.BytesIO, trees: list[MappedTree | HeldTree]) -> None:
        super().__init__(stream)
        self._trees = trees

    def persistent_load(self, row: int) -> BVH:
        return self._trees[row].open()


class HeldParts(OpenedOnce[Parts]):
    """Handle of a mesh in parts, whose files each process opens."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def _open(self) -> Parts:
        return self._parts

    def __dask_tokenize__(self) -> object:
        return self._parts.__dask_tokenize__()


Searched = BVH | Scene | Parts
Handle = MappedTree | HeldTree | MappedScene | HeldScene | HeldParts


def handle_of(target: Searched) -> Handle:
    """Return what stands for a tree, a scene or parts in a graph."""
    if isinstance(target, Scene):
        return _mapped_scene(target) or HeldScene(target)
    if isinstance(target, Parts):
        return HeldParts(target)
    return _tree_handle(target)


def _tree_handle(tree: BVH) -> MappedTree | HeldTree:
    source = tree.source
    if source is None:
        return HeldTree(tree)
    end = source.offset + HEADER_SIZE
    checksum = source.content[end - DIGEST_SIZE : end].tobytes().hex()
    handle = MappedTree(source.path, checksum, source.offset)
    handle._content = copy.copy(tree)
    return handle


def _mapped_scene(scene: Scene) -> MappedScene | None:
    """Return a handle of a scene that is still what it was mapped from; None for any other."""
    source = scene.source
    if source is None:
        return None
    content, checksum = source
    handle = MappedScene(_path_of(content), checksum)
    handle._map = content
    return handle


def _path_of(content: Any) -> str:
    return os.path.abspath(str(content.filename))


def _map_of(path: str) -> Any:
    """Return a map of a file; a process has one of each, while it is used."""
    with opened(path) as file:
        status = os.fstat(file.fileno())
        key = path, status.st_ino, status.st_size, status.st_mtime_ns
        found = _maps.get(key)
        if found is None:
            found = _maps[key] = np.memmap(file, np.uint8, "r", shape=(status.st_size,))
        return found
