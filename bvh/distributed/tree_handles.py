"""Handles of trees and scenes, which stand for them in task graphs.

A handle is a snapshot: what happens to a tree or scene afterwards does not change the answers of a
graph. It is pickled once, however many tasks use it. A tree or a scene that is mapped from a file
is not pickled at all: its handle has the path and the checksum, and each process opens the file
once. A scene that has been changed is pickled, without those of its trees that are mapped.

The checksum is that of the header, which covers CRC-32s of the arrays. It tells a file that was
saved again, or is another one on another machine, without reading gigabytes. It is no guard against
who can write to the file, and is trusted as with any tree that is mapped: bytes could be changed
as well after they were hashed. Parts, which may come from elsewhere, are known by digests of
their content.
"""

import copy
import io
import os
import pickle
import weakref
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.parts import Parts
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import MAGIC, NODES_AT, size_of
from bvh.io.untrusted_files import opened
from bvh.queries.hierarchy import BVH
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import load, loaded_from
from bvh.scene.instances import nested_scenes
from bvh.scene.scene import Scene

# Mapped trees and scenes of this process, by path and checksum, and maps of scenes' files.
_opened: dict[tuple[str, str], BVH] = {}
_scenes: dict[tuple[str, str], Scene] = {}
_maps: weakref.WeakValueDictionary[tuple[str, int, int, int], Any] = weakref.WeakValueDictionary()
_guard = ForkSafeLock()


class MappedTree:
    """Handle of a tree that is mapped from a file: its path and the checksum of its header.

    `offset` is where the tree begins in the file of a scene.
    """

    def __init__(self, path: str, checksum: str, tree: BVH | None = None, offset: int = 0) -> None:
        self.path, self.checksum, self._tree, self.offset = path, checksum, tree, offset

    def open(self) -> BVH:
        """Return the tree; a process opens it once. ValueError if it is not here, or another."""
        if self._tree is None:
            key = self.path, self.checksum
            with _guard.lock:
                if key not in _opened:
                    _opened[key] = self._mapped()
                self._tree = _opened[key]
        return self._tree

    def _mapped(self) -> BVH:
        wanted = f"{self.path} with checksum {self.checksum}"
        if not os.path.isfile(self.path):
            raise ValueError(f"no such file here: the tree is mapped from {wanted}")
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            start = file.read(HEADER_SIZE)
        found = start[-DIGEST_SIZE:].hex() if len(start) == HEADER_SIZE else ""
        if found != self.checksum:
            found = f"has {found}" if len(found) == len(self.checksum) else "is no saved tree"
            raise ValueError(f"the tree is mapped from {wanted}; the file here {found}")
        if self.offset:
            part = slice(self.offset, self.offset + size_of(start))
            tree = loaded_from(self.path, _map_of(self.path)[part])
        else:
            tree = load(self.path, mmap=True)
        assert isinstance(tree, BVH)
        return tree

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_tree": None}

    def __dask_tokenize__(self) -> tuple[str, str, str, int]:
        return "bvh.MappedTree", self.path, self.checksum, self.offset


class MappedScene:
    """Handle of a scene that is mapped from a file, and has not been changed."""

    def __init__(self, path: str, checksum: str, content: NDArray[np.uint8]) -> None:
        self.path, self.checksum = path, checksum
        self._content: NDArray[np.uint8] | None = content
        self._scene: Scene | None = None

    def open(self) -> Scene:
        """Return the scene; a process that it was sent to opens it once."""
        with _guard.lock:
            if self._scene is None:
                key = self.path, self.checksum
                if self._content is not None:
                    # Another one of the same map, which nobody changes.
                    scene = loaded_from(self.path, self._content)
                    assert isinstance(scene, Scene)
                    self._scene = scene
                elif key in _scenes:
                    self._scene = _scenes[key]
                else:
                    self._scene = _scenes[key] = self._mapped()
            return self._scene

    def _mapped(self) -> Scene:
        wanted = f"the scene is mapped from {self.path} with checksum {self.checksum}"
        if not os.path.isfile(self.path):
            raise ValueError(f"no such file here: {wanted}")
        scene = load(self.path, mmap=True)
        saved = scene._saved if isinstance(scene, Scene) else None
        if saved is None or saved.checksum != self.checksum:
            found = "is no saved scene" if saved is None else f"has {saved.checksum}"
            raise ValueError(f"{wanted}; the file here {found}")
        assert isinstance(scene, Scene)
        return scene

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "checksum": self.checksum, "_content": None, "_scene": None}

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return "bvh.MappedScene", self.path, self.checksum


class HeldTree:
    """Handle of a tree in memory; unpickled when it is first used, and then once a process."""

    def __init__(self, tree: BVH) -> None:
        self._tree: BVH | None = None
        self._token: object = None
        # Again, if another thread refits the tree between the two.
        while self._tree is None or tree.__dask_tokenize__() != self._token:
            self._token, self._tree = tree.__dask_tokenize__(), copy.copy(tree)
        self._pickled: bytes | None = None

    def open(self) -> BVH:
        """Return the tree."""
        if self._tree is None:
            with _guard.lock:
                if self._tree is None:
                    assert self._pickled is not None
                    self._tree = pickle.loads(self._pickled)
                    self._pickled = None
        return self._tree

    def __getstate__(self) -> dict[str, object]:
        # A scheduler passes on the bytes that it has.
        pickled = self._pickled or pickle.dumps(self._tree, protocol=5)
        return {"_token": self._token, "_tree": None, "_pickled": pickled}

    def __dask_tokenize__(self) -> object:
        return self._token


class HeldScene:
    """Handle of a scene: its state, and a handle of each of its trees."""

    def __init__(self, scene: Scene) -> None:
        self._trees: list[MappedTree | HeldTree] = []
        stream = io.BytesIO()
        _ScenePickler(stream, self._trees).dump(scene)
        self._state = stream.getvalue()
        # Without the content of mapped trees, which would have to be read for it.
        trees = [tree.__dask_tokenize__() for tree in self._trees]
        self._token = "bvh.HeldScene", blake2b(self._state).hexdigest(), trees
        self._scene: Scene | None = None

    def open(self) -> Scene:
        """Return the scene."""
        if self._scene is None:
            self._scene = _SceneUnpickler(io.BytesIO(self._state), self._trees).load()
        return self._scene

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_scene": None}

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return self._token


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


@dataclass(frozen=True, eq=False)
class HeldParts:
    """Handle of a mesh in parts, whose files each process opens."""

    parts: Parts

    def open(self) -> Parts:
        """Return the parts."""
        return self.parts

    def __dask_tokenize__(self) -> object:
        return self.parts.__dask_tokenize__()


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
    place = mapped_place(tree)
    if place is None:
        return HeldTree(tree)
    content, offset = place
    end = offset + HEADER_SIZE
    checksum = content[end - DIGEST_SIZE : end].tobytes().hex()
    return MappedTree(_path_of(content), checksum, _snapshot(tree), offset)


def _mapped_scene(scene: Scene) -> MappedScene | None:
    """Return a handle of a scene that is still what it was mapped from; None for any other."""
    if scene._saved is None or not scene._saved.checksum:
        return None
    content, checksum = scene._saved
    for part in nested_scenes(scene):
        saved, known = part._saved, part._instances
        if saved is None or saved.content is not content or not known.is_as_made:
            return None
        places = (mapped_place(tree) for tree in known.children if isinstance(tree, BVH))
        if any(place is None or place[0] is not content for place in places):
            return None
    return MappedScene(_path_of(content), checksum, content)


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


def _snapshot(tree: BVH) -> BVH:
    """Return a mapped tree that stays as it is when the other one is refitted."""
    try:
        object.__getattribute__(tree, "_arrays")
    except AttributeError:
        # It has not been used: what it will be checked by has no arrays either.
        use: Any = tree._first_use
        found: BVH = object.__new__(type(tree))
        for name in ("_bounds", "_quality", "_build_seconds"):
            setattr(found, name, getattr(tree, name))
        found._first_use = replace(use.__self__, done=False).first_use
        return found
    return copy.copy(tree)


def mapped_place(tree: BVH) -> tuple[Any, int] | None:
    """Return the map of the file that a tree is in, and where; None if it is in memory."""
    # A tree that has not been used has a method of its file, which is in a map or has been read.
    try:
        first: Any = object.__getattribute__(tree, "_arrays").nodes.data
        before = NODES_AT
    except AttributeError:
        use: Any = tree._first_use
        first, before = use.__self__.content, 0
    content = first
    while not isinstance(content, np.memmap) or isinstance(content.base, np.ndarray):
        if not isinstance(content.base, np.ndarray):
            return None
        content = content.base
    if content.filename is None or content.offset:
        return None
    offset = first.ctypes.data - content.ctypes.data - before
    return (content, offset) if content[offset:][: len(MAGIC)].tobytes() == MAGIC else None
