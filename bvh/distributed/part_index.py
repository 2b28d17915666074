"""Index of a folder of parts: what it says of each, read and checked; and the files it speaks of.

A ray that no box of the index lets through opens no file. So the index is what all else is checked
against: its own content by its checksum, the files by theirs. Since version 3 a part is known by a
digest of its content, which no other file has. Versions 1 and 2 know a tree by the checksum of its
header, which covers CRC-32s of its arrays: it finds damage, but another tree can be made that has
the same.
"""

import json
import os
import stat
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bvh.distributed import part_records
from bvh.distributed.part_records import PartRecord, content_digest
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, PIECE
from bvh.runtime.registry import extra

INDEX = "index.json"
FORMAT, VERSION = "bvh parts", 3

# What reading a damaged index may raise, beside a ValueError of this file or of `json`.
_DAMAGE = KeyError, TypeError, AttributeError, RecursionError, OverflowError, UnicodeDecodeError


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


def file_names(number: int) -> tuple[str, str]:
    """Return the names of the files of a part: of its tree, and of its ids."""
    return f"{number:05d}.bvh", f"{number:05d}.npy"


def file_digest(path: Path, size: int = part_records.CONTENT_DIGEST_SIZE) -> str:
    """Return the digest of a whole file."""
    with open(path, "rb") as file:
        return content_digest(iter(partial(file.read, PIECE), b""), size)


def index_digest(content: dict[str, object]) -> str:
    """Return the checksum of the content of an index, other than itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest()


def is_url(place: str) -> bool:
    """Return whether a place is a URL of fsspec, such as s3://bucket/city."""
    return "://" in place


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    with extra("dask", f"{url} needs fsspec and its plug-in for the protocol"):
        from fsspec.core import url_to_fs
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def read_index(place: str) -> Index:
    """Read and check the index of a folder, and that it has the files that the index tells of."""
    # A ValueError says what is missing, damaged or another file. Files at URLs are looked at when
    # they are fetched.
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
    if content["digest"] != index_digest(content):
        raise ValueError("is damaged: its checksum is wrong")
    sources = tuple(Source(**row) for row in content["sources"])
    parts = tuple(PartRecord(**row) for row in content["parts"])
    quality = str(content["quality"])
    index = Index(content["triangles"], quality, sources, parts, content["digest"])
    for part in index.parts:
        part_records.check_record(part, content["version"] == VERSION)
    first = 0
    for source in index.sources:
        counts = part_records.whole(source.first, source.triangles)
        if not (counts and isinstance(source.name, str) and source.first == first):
            raise ValueError("is damaged: its sources do not follow each other")
        first += source.triangles
    if not first == index.triangles == sum(part.triangles for part in index.parts):
        raise ValueError("is damaged: its counts of triangles differ")
    return index


def checked_files(folder: Path, index: Index, number: int) -> tuple[Path, Path]:
    """Return the checked files of a part in a local folder: its tree's and its ids'."""
    tree, ids = (folder / name for name in file_names(number))
    for path in (tree, ids):
        check_file(path, index.parts[number], f"{folder}: part {number} ({path.name})")
    return tree, ids


def check_file(path: Path, part: PartRecord, label: str) -> None:
    """Raise a ValueError unless a file of a part has the size, and the header, in the index."""
    # Of a tree, the box and the number of triangles are those of the header, too.
    is_tree = path.suffix == ".bvh"
    size = part.tree_bytes if is_tree else part.ids_bytes
    if not path.is_file():
        raise ValueError(f"{label} is missing")
    if path.stat().st_size != size:
        raise ValueError(f"{label} has {path.stat().st_size} bytes, the index says {size}")
    if is_tree:
        try:
            with open(path, "rb") as file:
                part_records.check_header(file.read(HEADER_SIZE), part)
        except ValueError as error:
            raise ValueError(f"{label} {error}") from None
