"""Loading: a saved tree read into memory, or mapped and left where it is.

What is read is not trusted. A header is checked before anything is made of it; the arrays, by their
digests and for soundness, before any kernel runs on them: in `load`, or for a mapped tree at its
first use. Until then such a tree has no arrays, and asking for them is what has them checked (see
`Hierarchy.__getattr__`): no question can go past the check, and one that has passed costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import warnings
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input, thread_count
from bvh.arrays import TreeArrays, frozen, frozen_primitives
from bvh.build import build
from bvh.hierarchy import Hierarchy
from bvh.jit import BVHWarning
from bvh.primitives import Boxes, Obbs, Primitives, Triangles
from bvh.scene import Scene
from bvh.scene_file import SCENE_MAGIC, SceneHeader, unpacked_scene
from bvh.scene_loading import scene_of
from bvh.simd import WIDTH
from bvh.soundness import check_primitives, check_tree
from bvh.tree import BVH
from bvh.tree_file import (
    HEADER_SIZE,
    MAGIC,
    Header,
    digest_of,
    file_size,
    padded,
    places_of,
    unpacked,
)
from bvh.wide_nodes import WideNodes

CLASSES: dict[str, Any] = {"triangles": Triangles, "boxes": Boxes, "obbs": Obbs}

# Held while a mapped tree is checked, so that two threads never set its arrays.
_lock = threading.Lock()


def _renew_lock() -> None:
    """Let go, in a forked child, of what a thread of the parent may have held."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def load(
    path: str | os.PathLike[str],
    *,
    mmap: bool = False,
    verify: bool = True,
    audit: bool = False,
    threads: int | None = None,
) -> BVH | Scene:
    """Read a tree that `BVH.save` has written, or a scene that `Scene.save` has.

    A file can be damaged, or made to do harm; no such file leads to anything but a ValueError, or
    to a tree that is safe to ask. It holds no code.

    Parameters
    ----------
    path : str or path-like
        The file.
    mmap : bool
        Map the file into memory instead of reading it: a tree of any size is there at once, is
        read from the disk as far as questions lead, and is shared by all processes that map it.
        The file must not be changed in place while the tree lives; to save to it anew is safe.
    verify : bool
        Check checksums and structure, which takes about as long as reading the file does: at once,
        or with `mmap` at the first use of the tree, whatever it is, which then raises the
        ValueError. Without it only the header is checked: for files that you have written
        yourself, and that cannot have been damaged.
    audit : bool
        Run `BVH.validate`, too, and at once: whether answers can be right depends on the boxes of
        nodes, which a file made with care can get wrong in spite of all checksums.
    threads : int, optional
        Threads for the checks; one for each CPU by default.

    Returns
    -------
    BVH or Scene
        Answers bit for bit as the one that was saved. Where this CPU suits nodes of another width
        than the one that saved the tree, it is built again from its primitives. Of a scene, the
        tables of instances and attributes are always read and checked, and all else that is said
        here of a tree goes for each of its trees.

    Raises
    ------
    ValueError
        If the file is neither tree nor scene, is of another version, damaged, or not valid; the
        message says how.
    FileNotFoundError
        If there is none.

    Examples
    --------
    >>> import bvh, os, tempfile
    >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "boxes.bvh")
    >>> tree.save(path)
    >>> bvh.load(path, mmap=True)
    BVH(2 boxes, 1 nodes)
    """
    workers = thread_count(threads)
    name = os.fspath(path)
    header: Header | SceneHeader
    with _naming(name), _opened(name) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(HEADER_SIZE)
        scene = start.startswith(SCENE_MAGIC)
        header = unpacked_scene(start, size) if scene else unpacked(start, size)
        content: NDArray[np.uint8]
        if mmap:
            content = np.memmap(file, np.uint8, "r", shape=(size,))
        else:
            content = _read(file, start, size)

    trees: list[BVH] = []

    def tree_of(header: Header, content: NDArray[np.uint8]) -> BVH:
        trees.append(_tree(name, header, content, mmap, verify, workers))
        return trees[-1]

    loaded: BVH | Scene
    if isinstance(header, SceneHeader):
        with _naming(name):
            loaded = scene_of(header, content, tree_of, workers)
    else:
        loaded = tree_of(header, content)
    if audit:
        with _naming(name):
            for tree in trees:
                tree.validate()
    return loaded


def _tree(
    name: str,
    header: Header,
    content: NDArray[np.uint8],
    mmap: bool,
    verify: bool,
    threads: int,
) -> BVH:
    """Return the tree of a file, or of the part of one that is a tree's."""
    tree: BVH = object.__new__(BVH)
    tree._bounds = kernel_input(np.array(header.bounds).reshape(2, 3))
    tree._quality, tree._build_seconds = header.quality, header.seconds
    if header.width != WIDTH:
        if mmap:
            warnings.warn(
                f"{name} was saved for vectors of {header.width}; it is read and built again for "
                f"vectors of {WIDTH}",
                BVHWarning,
                stacklevel=4,
            )
        _build_again(tree, name, header, content, verify, threads)
    elif mmap and verify:
        tree._first_use = _FirstUse(name, header, content, threads)
    else:
        arrays = _tree_of(name, header, content, verify, threads)
        tree._face_ids = _face_ids(header, content)
        tree._set_arrays(arrays)
    return tree


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file begins as saved trees, or saved scenes, do."""
    with _opened(os.fspath(path)) as file:
        return file.read(len(MAGIC)) in (MAGIC, SCENE_MAGIC)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Begin the message of a ValueError with the file's name."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise ValueError(f"{name}: {error}") from None


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file; refuse what is none, such as a pipe, without waiting for it."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ValueError("is something else than a file")
    with open(name, "rb", buffering=0, opener=opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is something else than a file")
        yield file


def _read(file: IO[bytes], start: bytes, size: int) -> NDArray[np.uint8]:
    """Read a whole file whose header has been checked."""
    content = aligned(size, np.uint8)
    file.seek(0)
    done = 0
    while done < size:
        count = file.readinto(content[done:].data)  # type: ignore[attr-defined]
        if not count:
            break
        done += count
    if done < size or content[:HEADER_SIZE].tobytes() != start:
        raise ValueError("was changed while it was read")
    return content


def _parts(header: Header, content: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """Return views of a file's arrays by their names."""
    parts = {}
    for place in places_of(header):
        array = content[place.offset : place.offset + place.size].view(place.dtype)
        if place.columns:
            array = array.reshape(place.rows, place.columns)
        # The same array where numbers are little-endian.
        parts[place.name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return parts


def _primitives(header: Header, parts: dict[str, NDArray[Any]]) -> Primitives:
    kind = CLASSES[header.kind]
    return frozen_primitives(kind(*(parts[name] for name in kind._fields)))


def _face_ids(header: Header, content: NDArray[np.uint8]) -> NDArray[np.int32] | None:
    """Return which face of its source each triangle is a part of, if the file says so."""
    ids = _parts(header, content).get("face_ids")
    return None if ids is None else kernel_input(ids)


def _check_bytes(header: Header, content: NDArray[np.uint8], threads: int) -> None:
    """Check the digests of arrays, and that there is nothing between them."""
    places = places_of(header)
    assert len(content) == file_size(places)
    for place, digest in zip(places, header.digests, strict=True):
        end = place.offset + place.size
        if digest_of(content[place.offset : end], threads) != digest:
            raise ValueError(f"is damaged: the checksum of its array {place.name!r} is wrong")
        if content[end : place.offset + padded(place.size)].any():
            raise ValueError(f"is damaged: there is something behind its array {place.name!r}")
    ids = _face_ids(header, content)
    if ids is not None and (ids < 0).any():
        raise ValueError("is not valid: a face has a number below 0")


def _tree_of(
    name: str, header: Header, content: NDArray[np.uint8], verify: bool, threads: int
) -> TreeArrays:
    """Return the arrays of a file, checked if they are to be."""
    parts = _parts(header, content)
    nodes = WideNodes(parts["blocks"], parts["ids"])
    primitives = _primitives(header, parts)
    arrays = frozen(TreeArrays(nodes, parts["groups"], primitives, parts["frame"]))
    if verify:
        with _naming(name):
            _check_bytes(header, content, threads)
            with _not_valid():
                check_tree(arrays, np.array(header.bounds).reshape(2, 3), threads)
    return arrays


@contextlib.contextmanager
def _not_valid() -> Iterator[None]:
    """Say that the content of a file is what an error is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"is not valid: {error}") from None


def _build_again(
    tree: Hierarchy,
    name: str,
    header: Header,
    content: NDArray[np.uint8],
    verify: bool,
    threads: int,
) -> None:
    """Give a tree arrays for this CPU, made of the primitives alone."""
    primitives = _primitives(header, _parts(header, content))
    with _naming(name):
        if verify:
            _check_bytes(header, content, threads)
        with _not_valid():
            check_primitives(primitives, threads)
    # Own copies: what lies in the file is not needed any more.
    primitives = frozen_primitives(CLASSES[header.kind](*(array.copy() for array in primitives)))
    face_ids = _face_ids(header, content)
    tree._face_ids = None if face_ids is None else kernel_input(face_ids.copy())
    arrays, tree._bounds = build(primitives, header.quality, threads, None)
    tree._set_arrays(arrays)


class _FirstUse:
    """Checks a mapped tree and gives it its arrays, once."""

    def __init__(self, name: str, header: Header, content: NDArray[np.uint8], threads: int) -> None:
        self.given = (name, header, content)
        self.threads = threads
        self.flaw = ""
        self.done = False

    def __call__(self, tree: Hierarchy) -> None:
        with _lock:
            if self.done:
                return
            if self.flaw:
                raise ValueError(self.flaw)
            try:
                arrays = _tree_of(*self.given, True, self.threads)
            except ValueError as error:
                self.flaw = str(error)
                raise
            tree._face_ids = _face_ids(*self.given[1:])
            tree._set_arrays(arrays)
            self.done = True
