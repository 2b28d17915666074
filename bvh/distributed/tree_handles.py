"""Handles of trees and scenes, which stand for them in task graphs.

A handle is a snapshot: what happens to a tree or scene afterwards does not change the answers of a
graph. It is pickled once, however many tasks use it. A tree that is mapped from a file is not
pickled at all: its handle has the path and the checksum, and each process opens the file once.

The checksum is that of the header, which covers CRC-32s of the arrays. It tells a file that was
saved again, or is another one on another machine, without reading gigabytes. It is no guard against
who can write to the file, and is trusted as with any tree that is mapped: bytes could be changed
as well after they were hashed. Parts, which may come from elsewhere, are known by digests of
their content.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.part_index import header_digest
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import MAGIC
from bvh.queries.hierarchy import BVH
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import load
from bvh.scene.scene import Scene

# Mapped trees of this process, by path and checksum.
_opened: dict[tuple[str, str], BVH] = {}
_guard = ForkSafeLock()


class MappedTree:
    """Handle of a tree that is mapped from a file: its path and the checksum of its header."""

    def __init__(self, path: str, checksum: str, tree: BVH | None = None) -> None:
        self.path, self.checksum, self._tree = path, checksum, tree

    def open(self) -> BVH:
        """Return the tree; a process opens it once.

        Raises
        ------
        ValueError
            If there is no such file here, or it is another one.
        """
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
        found = header_digest(Path(self.path))
        if found != self.checksum:
            found = f"has {found}" if len(found) == len(self.checksum) else "is no saved tree"
            raise ValueError(f"the tree is mapped from {wanted}; the file here {found}")
        tree = load(self.path, mmap=True)
        assert isinstance(tree, BVH)
        return tree

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "checksum": self.checksum, "_tree": None}

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return "bvh.MappedTree", self.path, self.checksum


class HeldTree:
    """Handle of a tree in memory; unpickled when it is first used, and then once a process."""

    def __init__(self, tree: BVH) -> None:
        self._tree: BVH | None = None
        self._token: Any = None
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

    def __getstate__(self) -> dict[str, Any]:
        # A scheduler passes on the bytes that it has.
        pickled = self._pickled or pickle.dumps(self._tree, protocol=5)
        return {"_token": self._token, "_tree": None, "_pickled": pickled}

    def __dask_tokenize__(self) -> Any:
        return self._token


class HeldScene:
    """Handle of a scene: its state, and a handle of each of its trees."""

    def __init__(self, scene: Scene) -> None:
        self._trees: list[MappedTree | HeldTree] = []
        stream = io.BytesIO()
        _ScenePickler(stream, self._trees).dump(scene)
        self._state, self._token = stream.getvalue(), scene.__dask_tokenize__()
        self._scene: Scene | None = None

    def open(self) -> Scene:
        """Return the scene."""
        if self._scene is None:
            self._scene = _SceneUnpickler(io.BytesIO(self._state), self._trees).load()
        return self._scene

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_scene": None}

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return self._token


class _ScenePickler(pickle.Pickler):
    """Pickler that keeps handles of trees beside what it writes."""

    def __init__(self, stream: io.BytesIO, trees: list[MappedTree | HeldTree]) -> None:
        super().__init__(stream, protocol=5)
        self._trees, self._rows = trees, dict[int, int]()

    def persistent_id(self, thing: Any) -> int | None:
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

    def persistent_load(self, row: Any) -> BVH:
        tree: BVH = self._trees[row].open()
        return tree


class HeldParts:
    """Handle of a mesh in parts, whose files each process opens."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def open(self) -> Parts:
        """Return the parts."""
        return self._parts

    def __dask_tokenize__(self) -> Any:
        return self._parts.__dask_tokenize__()


Handle = MappedTree | HeldTree | HeldScene | HeldParts


def handle_of(target: BVH | Scene | Parts) -> Handle:
    """Return what stands for a tree, a scene or parts in a graph."""
    if isinstance(target, Scene):
        return HeldScene(target)
    if isinstance(target, Parts):
        return HeldParts(target)
    return _tree_handle(target)


def _tree_handle(tree: BVH) -> MappedTree | HeldTree:
    content = mapped_content(tree)
    if content is None:
        return HeldTree(tree)
    checksum = content[HEADER_SIZE - DIGEST_SIZE : HEADER_SIZE].tobytes().hex()
    return MappedTree(os.path.abspath(str(content.filename)), checksum, _snapshot(tree))


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


def mapped_content(tree: BVH) -> Any:
    """Return the map of the file that a tree is in; None if it is in memory, or part of a file."""
    # A tree that has not been used has a method of its file, which is in a map or has been read.
    try:
        content: Any = object.__getattribute__(tree, "_arrays").nodes.data
    except AttributeError:
        use: Any = tree._first_use
        content = use.__self__.content
    while not isinstance(content, np.memmap) or isinstance(content.base, np.ndarray):
        if not isinstance(content.base, np.ndarray):
            return None
        content = content.base
    if content.filename is None or content.offset:
        return None
    return content if content[: len(MAGIC)].tobytes() == MAGIC else None
