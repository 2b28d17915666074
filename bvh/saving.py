"""Saving: a tree written to one file, in one step as others see it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import thread_count
from bvh.arrays import TreeArrays
from bvh.hierarchy import Hierarchy
from bvh.primitives import Custom, Triangles, count_of
from bvh.simd import WIDTH
from bvh.tree_file import ALIGNMENT, Header, Place, digest_of, file_size, packed, places_of
from bvh.wide_nodes import BLOCK_SIZE

# Bytes that are written at a time: between them Ctrl-C is heard.
PIECE = 1 << 24


class Saving(Hierarchy):
    """How a tree is saved."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Write the tree to a file, for `bvh.load`.

        The file holds flat arrays and no code. It is written under a temporary name in the same
        folder, brought to the disk, and moved into place: whoever opens `path` finds the old file
        or the new one, whole, and a save that fails or is interrupted changes nothing.

        Parameters
        ----------
        path : str or path-like
            The file, made or replaced. Its ending is free; ``.bvh`` is usual.
        threads : int, optional
            Threads for the checksums; one for each CPU by default.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If `path` is something else than a file.
        TypeError
            If the tree holds a user's primitives, whose test is code.

        Examples
        --------
        >>> import bvh, os, tempfile
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tree.save(os.path.join(folder, "one.bvh"))
        ...     again = bvh.load(os.path.join(folder, "one.bvh"))
        >>> again.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
        Hits(t=1.0, prim_id=0, u=0.25, v=0.25, front=True)
        """
        replace_file(os.fspath(path), contents_of(self, thread_count(threads))[1])


def contents_of(tree: Hierarchy, threads: int) -> tuple[int, Iterator[NDArray[np.uint8]]]:
    """Return how many bytes the file of a tree has, and the bytes, piece by piece.

    Raises
    ------
    TypeError
        If the tree holds a user's primitives.
    """
    held = tree._arrays
    if isinstance(held.primitives, Custom):
        raise TypeError("a BVH over custom primitives cannot be saved: their test is code")
    arrays = stored_arrays(held)
    if tree._face_ids is not None:
        arrays["face_ids"] = tree._face_ids.astype("<i4", copy=False)
    header = Header(
        tree.kind,
        tree._quality,
        WIDTH,
        len(held.primitives.points),
        count_of(held.primitives),
        len(held.nodes.blocks) // BLOCK_SIZE,
        len(held.nodes.ids),
        tree._build_seconds,
        tuple(tree._bounds.ravel().tolist()),
        tuple(digest_of(array, threads) for array in arrays.values()),
        tree._face_ids is not None,
    )
    places = places_of(header)
    return file_size(places), written(packed(header), places, arrays)


def stored_arrays(arrays: TreeArrays) -> dict[str, NDArray[Any]]:
    """Return a tree's arrays by their names in its file, as they lie in it."""
    (blocks, ids), groups, primitives, frame = arrays
    stored: dict[str, NDArray[Any]] = {
        "frame": frame,
        "blocks": blocks,
        "ids": ids,
        "groups": groups,
    }
    stored["points"] = primitives.points
    if isinstance(primitives, Triangles):
        stored["faces"] = primitives.faces
    return {
        name: array.astype(array.dtype.newbyteorder("<"), copy=False)
        for name, array in stored.items()
    }


def written(
    start: bytes, places: list[Place], arrays: dict[str, NDArray[Any]]
) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of a header and of the arrays behind it."""
    yield np.frombuffer(start, np.uint8)
    for place in places:
        data = arrays[place.name].reshape(-1).view(np.uint8)
        assert len(data) == place.size
        for begin in range(0, place.size, PIECE):
            yield data[begin : begin + PIECE]
        yield np.zeros(-place.size % ALIGNMENT, np.uint8)


def replace_file(path: str, contents: Iterator[NDArray[np.uint8]]) -> None:
    """Write a file so that there is never a part of it under its name."""
    # Through a link to what it points at, as a plain write would.
    path = os.path.realpath(path)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"{path} is something else than a file")
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}")
    try:
        # A new file, with the permissions that every new file gets.
        with open(temporary, "xb") as file:
            for piece in contents:
                file.write(piece.data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # The new name is brought to the disk, too, where a folder can be opened for that.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
