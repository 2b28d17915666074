"""Folder of a partitioned mesh: one file for each part's tree, one for its ids, and an index.

========== ==================================================================================
file       content
========== ==================================================================================
index.json version, number of triangles, sources, and of each part its box, counts, checksums
00000.bvh  the tree of a part, as `BVH.save` writes it
00000.npy  the ids of its triangles in the whole, int64, ascending
========== ==================================================================================

The index is written last, so that a folder without one is not finished. A folder may be a URL of
fsspec; its parts are then fetched one by one into a local folder, under names that contain their
checksums.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.queries.hierarchy import BVH

INDEX = "index.json"
SCRATCH = "unfinished"
FORMAT, VERSION = "bvh parts", 1


@dataclass(frozen=True)
class Source:
    """A mesh or file that triangles come from: its name, first id and number of triangles."""

    name: str
    first: int
    triangles: int


@dataclass(frozen=True)
class PartRecord:
    """What the index has of a part.

    Attributes
    ----------
    triangles : int
    bounds : list of six floats or None
        Lower and upper corner; None if no triangle is valid.
    tree_bytes, ids_bytes : int
        Sizes of the files.
    tree_header, ids_digest : str
        Checksum in the header of the tree's file, which covers those of its arrays, and checksum of
        the whole file of ids.
    """

    triangles: int
    bounds: list[float] | None
    tree_bytes: int
    tree_header: str
    ids_bytes: int
    ids_digest: str


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
        bounds = tree.bounds.reshape(-1)
        return PartRecord(
            len(ids),
            bounds.tolist() if np.isfinite(bounds).all() else None,
            tree_path.stat().st_size,
            header_digest(tree_path),
            ids_path.stat().st_size,
            file_digest(ids_path),
        )

    def publish(self, parts: list[PartRecord], sources: list[Source]) -> None:
        """Bring the parts to their place and, at last, write the index."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        content = {
            "format": FORMAT,
            "version": VERSION,
            "triangles": sum(part.triangles for part in parts),
            "quality": self._quality,
            "sources": [asdict(source) for source in sources],
            "parts": [asdict(part) for part in parts],
        }
        text = json.dumps(content, indent=1).encode()
        if not is_url(self._place):
            new = self.path / f".{secrets.token_hex(8)}"
            new.write_bytes(text)
            os.replace(new, self.path / INDEX)
            return
        files, root = file_system(self._place)
        files.makedirs(root, exist_ok=True)
        for number in range(len(parts)):
            for name in (tree_name(number), ids_name(number)):
                files.put_file(str(self.path / name), f"{root}/{name}")
        files.pipe_file(f"{root}/{INDEX}", text)


@contextlib.contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[NewFolder]:
    """Prepare a folder for parts; after an exception, remove what has been written.

    Raises
    ------
    FileExistsError
        If there are files in it, other than of a run that was interrupted.
    """
    place = os.fspath(folder)
    if is_url(place):
        files, root = file_system(place)
        if files.exists(f"{root}/{INDEX}"):
            raise FileExistsError(f"folder has files in it: {place}")
        with tempfile.TemporaryDirectory() as local:
            target = NewFolder(place, Path(local))
            target.scratch.mkdir()
            yield target
        return
    path = Path(place)
    path.mkdir(parents=True, exist_ok=True)
    target = NewFolder(place, path)
    others = set(os.listdir(path))
    if others and SCRATCH not in others:
        raise FileExistsError(f"folder has files in it: {place}")
    _clear(target)
    target.scratch.mkdir()
    try:
        yield target
    except BaseException:
        _clear(target)
        raise


def _clear(target: NewFolder) -> None:
    """Remove what a run that did not finish has left; the mark that it has, last."""
    for entry in target.path.iterdir():
        if entry.suffix in (".bvh", ".npy"):
            entry.unlink()
    shutil.rmtree(target.scratch, ignore_errors=True)


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
    """Read and check the index of a folder.

    Raises
    ------
    ValueError
        If there is none, or it is of another version, or damaged; the message says which.
    """
    try:
        if is_url(place):
            files, root = file_system(place)
            text = files.cat_file(f"{root}/{INDEX}")
        else:
            text = (Path(place) / INDEX).read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{place}: holds no {INDEX}: it is not a folder of parts, or bvh.partition has not "
            "finished it"
        ) from None
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or not isinstance(content["version"], int):
            raise ValueError("is not an index of parts")
        if content["version"] > VERSION:
            raise ValueError(
                f"has format version {content['version']}; this version of bvh reads {VERSION}"
            )
        index = Index(
            int(content["triangles"]),
            str(content["quality"]),
            tuple(Source(**row) for row in content["sources"]),
            tuple(PartRecord(**row) for row in content["parts"]),
            blake2b(text, digest_size=DIGEST_SIZE).hexdigest(),
        )
        _check(index)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{place}/{INDEX}: is damaged: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{place}/{INDEX}: {error}") from None
    return index


def _check(index: Index) -> None:
    """Raise a ValueError or TypeError unless the numbers of an index agree."""
    for part in index.parts:
        for digest in (part.tree_header, part.ids_digest):
            # They become names of files.
            if not re.fullmatch(f"[0-9a-f]{{{2 * DIGEST_SIZE}}}", digest):
                raise ValueError("is damaged: a checksum is not one")
        if part.bounds is not None and (
            len(part.bounds) != 6 or not np.isfinite(np.array(part.bounds, float)).all()
        ):
            raise ValueError("is damaged: a box is not six numbers")
        if not (0 < part.triangles < 2**31 and part.tree_bytes > 0 and part.ids_bytes > 0):
            raise ValueError("is damaged: a part has no triangles, or no bytes")
    first = 0
    for source in index.sources:
        if source.first != first or source.triangles < 0:
            raise ValueError("is damaged: its sources do not follow each other")
        first += source.triangles
    if not first == index.triangles == sum(part.triangles for part in index.parts):
        raise ValueError("is damaged: its counts of triangles differ")


def local_files(place: str, index: Index, number: int) -> tuple[Path, Path]:
    """Return the checked local files of a part: its tree's and its ids'; fetched for a URL.

    Raises
    ------
    ValueError
        If one is missing, cut off, or another file; the message names the part.
    """
    part, names = index.parts[number], (tree_name(number), ids_name(number))
    if is_url(place):
        label = f"{place}: part {number}"
        return _fetched(place, names[0], part, label), _fetched(place, names[1], part, label)
    tree, ids = Path(place) / names[0], Path(place) / names[1]
    for path in (tree, ids):
        check_file(path, part, f"{place}: part {number} ({path.name})")
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


def part_ids(path: Path, part: PartRecord, name: str) -> NDArray[np.int64]:
    """Map the ids of a part, after a check of all bytes."""
    if file_digest(path) != part.ids_digest:
        raise ValueError(f"{name} ({path.name}) is damaged: its checksum is wrong")
    ids: NDArray[np.int64] = np.load(path, mmap_mode="r")
    if ids.shape != (part.triangles,) or ids.dtype != np.int64:
        raise ValueError(f"{name} ({path.name}) does not hold {part.triangles} ids")
    return ids


def cache_folder() -> Path:
    """Return the folder for fetched parts: BVH_PARTS_DIR, or one in the user's cache."""
    given = os.environ.get("BVH_PARTS_DIR")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "bvh" / "parts"


def _fetched(place: str, name: str, part: PartRecord, label: str) -> Path:
    """Return the local copy of a part's file; fetch it unless it is there already."""
    folder, ending = cache_folder(), Path(name).suffix
    digest = part.tree_header if ending == ".bvh" else part.ids_digest
    path = folder / f"{digest}{ending}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files, root = file_system(place)
        new = folder / f".{secrets.token_hex(8)}{ending}"
        try:
            files.get_file(f"{root}/{name}", str(new))
            check_file(new, part, f"{label} ({name})")
            os.replace(new, path)
        except FileNotFoundError:
            raise ValueError(f"{label} ({name}) is missing") from None
        finally:
            new.unlink(missing_ok=True)
    return path
