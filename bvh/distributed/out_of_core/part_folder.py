"""Folder of a partitioned mesh: one file for each part's tree, one for its ids, and an index.

========== ==================================================================================
file       content
========== ==================================================================================
index.json version, number of triangles, sources, of each part its box, counts, checksums and
           bits of groups, and the checksum of all this
00000.bvh  the tree of a part, as `BVH.save` writes it
00000.npy  the ids of its triangles in the whole, int64, ascending
========== ==================================================================================

The index is written last, so that a folder without one is not finished. A folder may be a URL of
fsspec (see `fetched_files`).

A ray that no box of the index lets through opens no file. So the index is what all else is checked
against: its own content by its checksum, the files by theirs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.part_records import (
    PartRecord,
    bits_of,
    box_of,
    check_record,
    row_of,
    whole,
)
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.queries.hierarchy import BVH

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

INDEX = "index.json"
SCRATCH = "unfinished"
FORMAT, VERSION = "bvh parts", 2
# Of a folder without groups of faces, as it was before there were any.
UNGROUPED = 1

# What reading a damaged index may raise, beside a ValueError of this file or of `json`.
_DAMAGE = (
    KeyError, TypeError, AttributeError, RecursionError, OverflowError, UnicodeDecodeError
)  # fmt: skip

# Files of parts, and those that are being written: by `BVH.save`, and here.
OURS = re.compile(r"\d{5,}\.(bvh|npy)|\.\d{5,}\.bvh\.[0-9a-f]{16}")
# Files of a run, in the folder SCRATCH.
SCRATCH_FILES = re.compile(r"lock|all(-\d+)*|index\.json")


@dataclass(frozen=True)
class Source:
    """A mesh or file that triangles come from: its name, first id and number of triangles."""

    name: str
    first: int
    triangles: int


@dataclass(frozen=True)
class Index:
    """Content of an index file."""

    triangles: int
    quality: str
    sources: tuple[Source, ...]
    parts: tuple[PartRecord, ...]
    digest: str


def tree_name(number: int) -> str:
    """Return the name of the file of a part's tree."""
    return f"{number:05d}.bvh"


def ids_name(number: int) -> str:
    """Return the name of the file of a part's ids."""
    return f"{number:05d}.npy"


def file_digest(path: Path) -> str:
    """Return the checksum of a whole file."""
    with open(path, "rb") as file:
        digest = blake2b(digest_size=DIGEST_SIZE)
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def header_digest(path: Path) -> str:
    """Return the checksum in the header of a tree's file."""
    with open(path, "rb") as file:
        return file.read(HEADER_SIZE)[HEADER_SIZE - DIGEST_SIZE :].hex()


class NewFolder:
    """Local folder in which parts are being written, and the place that they are for."""

    def __init__(self, place: str, path: Path) -> None:
        self._place, self.path = place, path
        self.scratch = path / SCRATCH
        self._quality = ""

    def add(self, number: int, tree: BVH, ids: NDArray[np.int64]) -> PartRecord:
        """Write a part."""
        tree_path, ids_path = self.path / tree_name(number), self.path / ids_name(number)
        tree.save(tree_path)
        np.save(ids_path, ids)
        self._quality = tree._quality
        return PartRecord(
            len(ids),
            box_of(tree),
            tree_path.stat().st_size,
            header_digest(tree_path),
            ids_path.stat().st_size,
            file_digest(ids_path),
            bits_of(tree),
        )

    def publish(self, parts: list[PartRecord], sources: list[Source]) -> None:
        """Bring the parts to their place and, at last, write the index."""
        content = {
            "format": FORMAT,
            "version": UNGROUPED if all(part.groups is None for part in parts) else VERSION,
            "triangles": sum(part.triangles for part in parts),
            "quality": self._quality,
            "sources": [asdict(source) for source in sources],
            "parts": [row_of(part) for part in parts],
        }
        content["digest"] = _digest_of(content)
        text = json.dumps(content, indent=1).encode()
        if not is_url(self._place):
            new = self.scratch / INDEX
            with open(new, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path / INDEX)
            return
        files, root = file_system(self._place)
        files.makedirs(root, exist_ok=True)
        for number in range(len(parts)):
            for name in (tree_name(number), ids_name(number)):
                files.put_file(str(self.path / name), f"{root}/{name}")
        files.pipe_file(f"{root}/{INDEX}", text)


def _digest_of(content: dict[str, Any]) -> str:
    """Return the checksum of the content of an index, other than itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest()


@contextlib.contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[NewFolder]:
    """Prepare a folder for parts; after an exception, remove what has been written.

    Raises
    ------
    FileExistsError
        If there are files in it, other than of a run that was interrupted, or if another process
        writes to it.
    """
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
    _demand_ours(target)
    target.scratch.mkdir(exist_ok=True)
    with _locked(target):
        # Another process may have finished it meanwhile.
        _demand_ours(target)
        _clear(target)
        try:
            yield target
        except BaseException:
            # Not the index of another process, where there are no locks.
            if not (path / INDEX).exists():
                _clear(target)
                shutil.rmtree(target.scratch, ignore_errors=True)
            raise
    shutil.rmtree(target.scratch, ignore_errors=True)


def _demand_ours(target: NewFolder) -> None:
    """Raise a FileExistsError unless a folder is empty, or left by a run that was interrupted."""
    names = set(os.listdir(target.path))
    if not names:
        return
    ours = SCRATCH in names and all(OURS.fullmatch(name) for name in names - {SCRATCH})
    if ours and target.scratch.is_dir() and not target.scratch.is_symlink():
        ours = all(SCRATCH_FILES.fullmatch(name) for name in os.listdir(target.scratch))
    if not ours:
        raise FileExistsError(f"folder has files in it: {target.path}")


@contextlib.contextmanager
def _locked(target: NewFolder) -> Iterator[None]:
    """Keep other processes from writing to a folder, where the disk knows locks."""
    with open(target.scratch / "lock", "wb") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileExistsError(
                    f"folder is being written to by another process: {target.path}"
                ) from None
            except OSError:
                pass
        yield


def _clear(target: NewFolder) -> None:
    """Remove what a run that did not finish has left, other than the mark that it has not."""
    for folder, pattern in ((target.path, OURS), (target.scratch, SCRATCH_FILES)):
        for entry in folder.iterdir():
            if pattern.fullmatch(entry.name) and entry.name != "lock":
                entry.unlink()


def is_url(place: str) -> bool:
    """Return whether a place is a URL of fsspec, such as s3://bucket/city."""
    return "://" in place


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(
            f'{url} needs fsspec: pip install "raybvh[dask]", and its plug-in for the protocol'
        ) from None
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def read_index(place: str) -> Index:
    """Read and check the index of a folder, and that it has the files that the index tells of.

    Raises
    ------
    ValueError
        If there is none, or it is of another version, or damaged, or a file is missing, cut off or
        another one; the message says which. Files at URLs are looked at when they are fetched.
    """
    try:
        if is_url(place):
            files, root = file_system(place)
            text = files.cat_file(f"{root}/{INDEX}")
        else:
            if not stat.S_ISREG(os.stat(Path(place) / INDEX).st_mode):
                raise ValueError(f"{place}/{INDEX}: is something else than a file")
            text = (Path(place) / INDEX).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"{place}: holds no {INDEX}: it is not a folder of parts, or bvh.partition has not "
            "finished it"
        ) from None
    try:
        index = _index_of(json.loads(text))
    except _DAMAGE as error:
        raise ValueError(f"{place}/{INDEX}: is damaged: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{place}/{INDEX}: {error}") from None
    if not is_url(place):
        for number in range(len(index.parts)):
            checked_files(Path(place), index, number)
    return index


def _index_of(content: dict[str, Any]) -> Index:
    """Return the index with some content, which is checked."""
    if content["format"] != FORMAT or type(content["version"]) is not int:
        raise ValueError("is not an index of parts")
    if content["version"] > VERSION:
        raise ValueError(
            f"has format version {content['version']}; this version of bvh reads {VERSION}"
        )
    if content["digest"] != _digest_of(content):
        raise ValueError("is damaged: its checksum is wrong")
    index = Index(
        content["triangles"],
        str(content["quality"]),
        tuple(Source(**row) for row in content["sources"]),
        tuple(PartRecord(**row) for row in content["parts"]),
        content["digest"],
    )
    for part in index.parts:
        check_record(part)
    first = 0
    for source in index.sources:
        counts = source.first, source.triangles
        if not (whole(*counts) and isinstance(source.name, str) and source.first == first):
            raise ValueError("is damaged: its sources do not follow each other")
        first += source.triangles
    if not first == index.triangles == sum(part.triangles for part in index.parts):
        raise ValueError("is damaged: its counts of triangles differ")
    return index


def checked_files(folder: Path, index: Index, number: int) -> tuple[Path, Path]:
    """Return the files of a part in a local folder: its tree's and its ids'.

    Raises
    ------
    ValueError
        If one is missing, cut off, or another file; the message names the part.
    """
    tree, ids = folder / tree_name(number), folder / ids_name(number)
    for path in (tree, ids):
        check_file(path, index.parts[number], f"{folder}: part {number} ({path.name})")
    return tree, ids


def check_file(path: Path, part: PartRecord, label: str) -> None:
    """Raise a ValueError unless a file of a part has the size, and the header, in the index."""
    is_tree = path.suffix == ".bvh"
    size = part.tree_bytes if is_tree else part.ids_bytes
    if not path.is_file():
        raise ValueError(f"{label} is missing")
    if path.stat().st_size != size:
        raise ValueError(f"{label} has {path.stat().st_size} bytes, the index says {size}")
    if is_tree and header_digest(path) != part.tree_header:
        raise ValueError(f"{label} is not the file of the index")
