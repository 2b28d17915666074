"""Folder of a partitioned mesh: one file for each part's tree, one for its ids, and an index.

========== ==================================================================================
file       content
========== ==================================================================================
index.json version, number of triangles, sources, of each part its box, counts, digests and bits
           of groups, and the checksum of all this (see `part_index`)
00000.bvh  the tree of a part, as `BVH.save` writes it
00000.npy  the ids of its triangles in the mesh, int64, ascending
========== ==================================================================================

The index is written last, so that a folder without one is not finished. A folder may be a URL of
fsspec (see `fetched_files`). Links in a folder are refused, and none is followed: every file is a
new one.
"""

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvh.distributed import part_index
from bvh.distributed.part_index import INDEX, PartRecord, Source, file_names, file_system, is_url
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, write_pieces
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import file_of
from bvh.runtime.cache.plain_files import PlainFolder, lock_file
from bvh.runtime.threads import pool

SCRATCH = "unfinished"

# Names of files of parts.
OURS = re.compile(r"\d{5,}\.(bvh|npy)")
# Files of a run, in the folder SCRATCH.
SCRATCH_FILES = re.compile(r"lock|all(-\d+)*|index\.json")


class NewFolder:
    """Local folder in which parts are being written, and the place that they are for."""

    def __init__(self, place: str, path: Path) -> None:
        self._place, self.path = place, path
        self.scratch = path / SCRATCH

    def add(self, number: int, tree: BVH, ids: NDArray[np.int64]) -> PartRecord:
        """Write the files of a part; return its record."""
        tree_path, ids_path = (self.path / name for name in file_names(number))
        size, contents = file_of(tree, 1)
        pieces, stream = list(contents), io.BytesIO()
        # The digest is computed while the file is written, which waits for the disk.
        digest = pool(1).submit(part_index.content_digest, pieces)
        with open(tree_path, "xb") as file:
            write_pieces(file, pieces)
        np.save(stream, ids)
        with open(ids_path, "xb") as file:
            file.write(stream.getbuffer())
        header = pieces[0][HEADER_SIZE - DIGEST_SIZE :].tobytes().hex()
        of_ids = stream.tell(), part_index.content_digest([stream.getbuffer()])
        found = size, header, *of_ids, part_index.bits_of(tree), digest.result()
        box = tree.bounds.reshape(-1).tolist()
        return PartRecord(len(ids), box if np.isfinite(box).all() else None, *found)

    def publish(self, parts: list[PartRecord], sources: list[Source], quality: str) -> None:
        """Copy the parts to the URL, if the place is one, and write the index last."""
        content = {
            "format": part_index.FORMAT, "version": part_index.VERSION,
            "triangles": sum(part.triangles for part in parts), "quality": quality,
            "sources": [*map(asdict, sources)], "parts": [*map(asdict, parts)],
        }  # fmt: skip
        content["digest"] = part_index.index_digest(content)
        text = json.dumps(content, indent=1).encode()
        if not is_url(self._place):
            new = self.scratch / INDEX
            with open(new, "xb") as file:
                write_pieces(file, [np.frombuffer(text, np.uint8)])
            os.replace(new, self.path / INDEX)
            return
        files, root = file_system(self._place)
        files.makedirs(root, exist_ok=True)
        for number in range(len(parts)):
            for name in file_names(number):
                files.put_file(str(self.path / name), f"{root}/{name}")
        files.pipe_file(f"{root}/{INDEX}", text)


@contextlib.contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[NewFolder]:
    """Prepare a folder for parts; after an exception, remove the files."""
    # FileExistsError if there are files in it, other than of a run that was interrupted, or if
    # another process writes to it.
    place = os.fspath(folder)
    if is_url(place):
        files, root = file_system(place)
        try:
            names = [os.path.basename(path) for path in files.find(root, maxdepth=1)]
        except FileNotFoundError:
            names = []
        if not all(OURS.fullmatch(name) for name in names):
            raise FileExistsError(f"folder has files in it: {place}")
        with tempfile.TemporaryDirectory() as local:
            target = NewFolder(place, Path(local))
            target.scratch.mkdir()
            yield target
        return
    path = Path(place)
    path.mkdir(parents=True, exist_ok=True)
    target = NewFolder(place, path)
    _demand_ours(path)
    target.scratch.mkdir(exist_ok=True)
    with contextlib.closing(PlainFolder(target.scratch)) as scratch, _locked(scratch):
        # Another process may have finished the folder before the lock was taken.
        _demand_ours(path)
        _clear(path, scratch)
        try:
            yield target
        except BaseException:
            # Without locks, another process may have finished: then its files must stay.
            if not (path / INDEX).exists():
                _clear(path, scratch)
                shutil.rmtree(target.scratch, ignore_errors=True)
            raise
    shutil.rmtree(target.scratch, ignore_errors=True)


def _demand_ours(path: Path) -> None:
    """Raise a FileExistsError unless a folder is empty, or left by a run that was interrupted."""
    files = _files(path, OURS, SCRATCH)
    ours = all(files.values()) and (SCRATCH in files or not files)
    if ours and files:
        ours = all(_files(path / SCRATCH, SCRATCH_FILES).values())
    if not ours:
        raise FileExistsError(f"folder has files in it: {path}")


def _files(path: Path, pattern: re.Pattern[str], folder: str = "") -> dict[str, bool]:
    """Return of each name in a folder whether it fits `pattern`, as a file, or is that of `folder`.

    Links are neither.
    """
    found = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name == folder:
                # A junction is a link to a folder, on Windows.
                is_link = getattr(entry, "is_junction", bool)()
                found[folder] = entry.is_dir(follow_symlinks=False) and not is_link
            else:
                is_file = entry.is_file(follow_symlinks=False)
                found[entry.name] = is_file and pattern.fullmatch(entry.name) is not None
    return found


@contextlib.contextmanager
def _locked(scratch: PlainFolder) -> Iterator[None]:
    """Keep other processes from writing to a folder, if its file system supports locks."""
    with open(scratch.open("lock", os.O_RDWR | os.O_CREAT), "r+b") as file:
        locked = True
        with contextlib.suppress(OSError):
            locked = lock_file(file.fileno())
        if not locked:
            place = scratch.path.parent
            raise FileExistsError(f"folder is being written to by another process: {place}")
        yield


def _clear(path: Path, scratch: PlainFolder) -> None:
    """Remove the files of an interrupted run, except the mark that it was interrupted."""
    for name in os.listdir(path):
        if OURS.fullmatch(name):
            (path / name).unlink()
    for name in scratch.names():
        if SCRATCH_FILES.fullmatch(name) and name != "lock":
            scratch.remove(name)
