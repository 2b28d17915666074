"""Handles of trees, scenes and parts, which stand for them in task graphs.

A handle is a snapshot: later changes of a tree or scene do not change the answers of a graph. It is
pickled once, however many tasks use it. A tree or scene that is mapped from a file is not pickled:
its handle has the path and the checksum, and each process opens the file once. A scene that has
changed since is pickled without the trees that are mapped.

The checksum detects a file that was saved again, or differs on another machine. It is no protection
against those who can write to the file; parts, which may come from elsewhere, have digests of their
content.
"""

import copy
import io
import os
import pickle
import weakref
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np

from bvh.distributed.out_of_core.parts import Parts
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import size_of
from bvh.io.untrusted_files import opened
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import MappedFile
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.files.loading import loaded_from
from bvh.scene.scene import Scene

Searchable = BVH | Scene | Parts

# Maps of files by (path, inode, size, time of change), and the lock that is held while contents are
# opened.
_maps: weakref.WeakValueDictionary[tuple[str, int, int, int], Any] = weakref.WeakValueDictionary()
_guard = ForkSafeLock()
# Files that stay mapped though no graph needs them; each has a file descriptor.
MOST_MAPS = 128


class Handle:
    """Stand-in for a tree, a scene or parts in task graphs; each process opens it once."""

    def __init__(
        self, token: object, content: Any = None, recipe: Any = None,
        here: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        """Store Dask's token of the content, and the content or how to make it.

        `content` is the tree, scene or parts, None until `open` is called. `recipe` makes it in
        other processes: a function without arguments, or bytes to unpickle; None stands for the
        pickle of `content`. `here`, if given, is the function that makes it in this process.
        """
        self._token, self._content, self.recipe, self._here = token, content, recipe, here

    def open(self) -> Any:
        """Return the tree, scene or parts; raise a ValueError if its file is missing or differs."""
        if self._content is None:
            with _guard.lock:
                recipe = self._here or self.recipe
                if self._content is None and isinstance(recipe, bytes):
                    # The content is set before the recipe is dropped: another thread that pickles
                    # the handle meanwhile needs one of them.
                    self._content, self.recipe = pickle.loads(recipe), None
                elif self._content is None and recipe is not None:
                    self._content = recipe()
        return self._content

    def __reduce__(self) -> tuple[object, ...]:
        # A scheduler that has not opened the handle passes on the bytes that it was sent.
        return Handle, (self._token, None, self.recipe or pickle.dumps(self._content, protocol=5))

    def __dask_tokenize__(self) -> object:
        return self._token


@lru_cache(maxsize=MOST_MAPS)
def mapped_content(kind: str, path: str, checksum: str, offset: int) -> BVH | Scene:
    """Return the tree or scene, by `kind`, of a file of this `checksum`, mapped once a process.

    It begins at `offset`, above 0 for a tree in the file of a scene. Raises a ValueError if the
    file is missing, or differs.
    """
    origin = f"the {kind} is mapped from {path} with checksum {checksum}"
    if not os.path.isfile(path):
        raise ValueError(f"no such file here: {origin}")
    content = _map_of(path)[offset:]
    start = content[:HEADER_SIZE].tobytes()
    found = start[HEADER_SIZE - DIGEST_SIZE :].hex()
    if kind == "scene":
        # The checksum of a scene includes the headers of its trees.
        loaded = loaded_from(path, content)
        source = loaded.source if isinstance(loaded, Scene) else None
        found = "" if source is None else source.checksum
    if found != checksum:
        other = f"has {found}" if found else f"is no saved {kind}"
        raise ValueError(f"{origin}; the file here {other}")
    return loaded if kind == "scene" else loaded_from(path, content[: size_of(start)])


def unpickled_scene(state: bytes, trees: list[Handle]) -> Scene:
    """Return the scene of a pickle with indices into `trees` in place of trees."""
    unpickler = pickle.Unpickler(io.BytesIO(state))
    unpickler.persistent_load = lambda k: trees[k].open()  # type: ignore[method-assign]
    scene: Scene = unpickler.load()
    return scene


def handle_of(target: Searchable) -> Handle:
    """Return a handle of a tree, scene or parts as they are now."""
    if isinstance(target, Parts):
        return Handle(target.__dask_tokenize__(), target)
    source = target.source
    if source is None:
        return _scene_in_memory(target) if isinstance(target, Scene) else _tree_in_memory(target)
    if isinstance(target, BVH):
        return _mapped("tree", source, content=copy.copy(target))
    # In this process, make another scene from the same map, as the user may change `target`.
    return _mapped("scene", source, here=partial(loaded_from, source.path, source.content))


def _mapped(kind: str, file: MappedFile, **options: Any) -> Handle:
    """Return the handle of a mapped `kind`, "tree" or "scene"; `options` are those of `Handle`."""
    recipe = partial(mapped_content, kind, file.path, file.checksum, file.offset)
    return Handle(("bvh.mapped", *recipe.args), recipe=recipe, **options)


def _tree_in_memory(tree: BVH) -> Handle:
    """Return the handle of a copy of a tree, as it is now."""
    token, content = None, None
    # Again if another thread has refitted the tree between the token and the copy.
    while content is None or tree.__dask_tokenize__() != token:
        token, content = tree.__dask_tokenize__(), copy.copy(tree)
    return Handle(token, content)


def _scene_in_memory(scene: Scene) -> Handle:
    """Return the handle of a scene in memory: its pickle, and handles of its trees."""
    # Trees are pickled as indices into `trees`, so that a mapped one is only a path there.
    trees: list[Handle] = []
    index_of: dict[int, int] = {}

    def persistent_id(thing: object) -> int | None:
        """Return the index of a tree; None for other objects, which are pickled as usual."""
        if not isinstance(thing, BVH):
            return None
        if id(thing) not in index_of:
            index_of[id(thing)] = len(trees)
            trees.append(handle_of(thing))
        return index_of[id(thing)]

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.persistent_id = persistent_id  # type: ignore[method-assign]
    pickler.dump(scene)
    # The token contains tokens of the trees, so that the content of mapped trees is not read.
    tokens = [tree.__dask_tokenize__() for tree in trees]
    token = "bvh.scene", blake2b(stream.getvalue()).hexdigest(), tokens
    return Handle(token, recipe=partial(unpickled_scene, stream.getvalue(), trees))


def _map_of(path: str) -> Any:
    """Return the bytes of a file as a memory map, which all users in this process share."""
    with opened(path) as file:
        status = os.fstat(file.fileno())
        key = path, status.st_ino, status.st_size, status.st_mtime_ns
        mapped = _maps.get(key)
        # An empty file cannot be mapped.
        if mapped is None and status.st_size:
            mapped = _maps[key] = np.memmap(file, np.uint8, "r", shape=(status.st_size,))
        return np.empty(0, np.uint8) if mapped is None else mapped
