"""Folder of a partitioned mesh: written part by part, its index last; read and checked.

========== ==================================================================================
file       content
========== ==================================================================================
index.json version, number of triangles, sources, of each part its box, counts, digests and bits
           of groups, and the checksum of all this
00000.bvh  the tree of a part, as `BVH.save` writes it
00000.npy  the ids of its triangles in the mesh, int64, ascending
========== ==================================================================================

A folder without an index is not finished. A folder may be a URL of fsspec (see `fetched_files`).
Queries rely on the boxes of the index, without opening the files of parts that they rule out. So
everything is checked against the index: its own content by its checksum, the files of parts by
digests of their content.
"""

import contextlib
import io
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, PIECE, write_pieces
from bvh.io.file_formats import box_in
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import file_size_and_pieces
from bvh.runtime.arguments import ALL_BITS
from bvh.runtime.registry import extra
from bvh.runtime.threads import watch
from bvh.scene.files.loading import prefixed

INDEX = "index.json"
FORMAT, VERSION = "bvh parts", 3
# Bytes of digests of content: too long for anybody to find other content of the same digest.
CONTENT_DIGEST_SIZE = 32
SCRATCH = "unfinished"

# Names of files of parts, as `file_names` returns them.
PART_FILE = re.compile(r"\d{5,}\.(bvh|npy)")

# Errors of reading a damaged index, other than a ValueError of this file or of `json`.
_DAMAGE = KeyError, TypeError, AttributeError, RecursionError, OverflowError, UnicodeDecodeError


@dataclass(frozen=True)
class Source:
    """A mesh or file that triangles come from: its name, first id and number of triangles."""

    name: str
    first: int
    triangles: int


@dataclass(frozen=True)
class PartRecord:
    """The record of a part in the index; digests are hexadecimal digits."""

    triangles: int
    bounds: list[float] | None  # lower and upper corner; None if no triangle is valid
    tree_bytes: int
    tree_header: str  # the checksum in the header of the tree's file
    ids_bytes: int
    ids_digest: str
    # All group bits of valid triangles, so that a query whose mask has none of them opens no file;
    # None if the mesh has no groups.
    groups: int | None
    tree_digest: str

    @property
    def nbytes(self) -> int:
        """Bytes of both files."""
        return self.tree_bytes + self.ids_bytes


@dataclass(frozen=True)
class Index:
    """Content of an index file; `digest` is its checksum (see `index_digest`)."""

    triangles: int
    sources: tuple[Source, ...]
    parts: tuple[PartRecord, ...]
    digest: str


def file_names(number: int) -> tuple[str, str]:
    """Return the names of the files of part `number`: (tree, ids)."""
    return f"{number:05d}.bvh", f"{number:05d}.npy"


def content_digest(pieces: Iterable[Any]) -> str:
    """Return the BLAKE2b of the bytes of all pieces, in hexadecimal digits."""
    digest = blake2b(digest_size=CONTENT_DIGEST_SIZE)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the `content_digest` of a file, read piece by piece."""
    with open(path, "rb") as file:
        return content_digest(iter(partial(file.read, PIECE), b""))


def index_digest(content: dict[str, object]) -> str:
    """Return the checksum of the content of an index without its entry "digest"."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest()


def is_url(place: str) -> bool:
    """Return whether a place is a URL of fsspec, such as s3://bucket/city."""
    return "://" in place


def file_system(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it without a slash at the end."""
    with extra("dask", f"{url} needs fsspec and its plug-in for the protocol"):
        from fsspec.core import url_to_fs
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def read_index(place: str) -> Index:
    """Return the index of a folder, checked; a ValueError names what is wrong.

    Of a local folder, the sizes and headers of all files are checked, too; those at URLs are
    checked when they are fetched.
    """
    path = Path(place) / INDEX
    try:
        if is_url(place):
            files, root = file_system(place)
            text = files.cat_file(f"{root}/{INDEX}")
        elif not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"{path}: is something else than a file")
        else:
            text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"{place}: holds no {INDEX}: it is not a folder of parts, or bvh.partition has not "
            "finished it"
        ) from None
    with prefixed(f"{place}/{INDEX}"):
        try:
            index = _index_of(json.loads(text))
        except _DAMAGE as error:
            raise ValueError(f"is damaged: {error!r}") from None
    if not is_url(place):
        for number in range(len(index.parts)):
            for file in files_of(place, index, number):
                file.check(path.with_name(file.name))
    return index


def _index_of(content: dict[str, Any]) -> Index:
    """Return the index in `content`, read from JSON, after checks.

    Raises a ValueError, or an error that missing keys and wrong types cause, if it is not valid.
    """
    if content["format"] != FORMAT or type(content["version"]) is not int:
        raise ValueError("is not an index of parts")
    if (version := content["version"]) > VERSION:
        raise ValueError(f"has format version {version}; this version of bvh reads {VERSION}")
    if version < VERSION:
        raise ValueError(
            f"has format version {version}, of bvh 0.2.0 or before, which this version does not "
            "read: call bvh.partition again"
        )
    if content["digest"] != index_digest(content):
        raise ValueError("is damaged: its checksum is wrong")
    sources = tuple(Source(**row) for row in content["sources"])
    parts = tuple(PartRecord(**row) for row in content["parts"])
    for part in parts:
        _check_record(part)
    first = 0
    for source in sources:
        are_counts = _whole(source.first, source.triangles)
        if not (are_counts and isinstance(source.name, str) and source.first == first):
            raise ValueError("is damaged: its sources do not follow each other")
        first += source.triangles
    if not first == content["triangles"] == sum(part.triangles for part in parts):
        raise ValueError("is damaged: its counts of triangles differ")
    return Index(content["triangles"], sources, parts, content["digest"])


def _check_record(part: PartRecord) -> None:
    """Raise a ValueError or TypeError unless all values of a part's record are possible."""
    digests = [(part.tree_header, DIGEST_SIZE)]
    digests += [(digest, CONTENT_DIGEST_SIZE) for digest in (part.ids_digest, part.tree_digest)]
    for digest, size in digests:
        # Nothing but digits, two a byte, as digests become names of local files.
        if not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", digest):
            raise ValueError("is damaged: a checksum is not one")
    box = part.bounds
    if box is not None:
        are_numbers = isinstance(box, list) and {type(x) for x in box} <= {int, float}
        if not (are_numbers and len(box) == 6 and np.isfinite(np.array(box, float)).all()):
            raise ValueError("is damaged: a box is not six numbers")
        if any(low > high for low, high in zip(box[:3], box[3:], strict=True)):
            raise ValueError("is damaged: the corners of a box are exchanged")
    counts = part.triangles, part.tree_bytes, part.ids_bytes
    if not (_whole(*counts) and min(counts) > 0 and part.triangles < 2**31):
        raise ValueError("is damaged: a part has no triangles, or no bytes")
    bits = part.groups
    if not (bits is None or (_whole(bits) and bits <= ALL_BITS)):
        raise ValueError("is damaged: groups are not 32 bits")


def _whole(*numbers: object) -> bool:
    """Return whether all `numbers` are integers from 0 to the largest of int64."""
    return all(type(number) is int and 0 <= number < 2**63 for number in numbers)


class PartFile(NamedTuple):
    """A file of a part as the index has it; `label` begins messages about it."""

    part: PartRecord
    name: str
    size: int
    digest: str
    label: str

    def check(self, path: Path) -> None:
        """Raise a ValueError unless a file has the size and, of a tree, the header of this one."""
        if not path.is_file():
            raise ValueError(f"{self.label} is missing")
        if path.stat().st_size != self.size:
            wrong = f"has {path.stat().st_size} bytes, the index says {self.size}"
            raise ValueError(f"{self.label} {wrong}")
        if path.suffix != ".bvh":
            return
        with open(path, "rb") as file:
            header = file.read(HEADER_SIZE)
        if header[HEADER_SIZE - DIGEST_SIZE :].hex() != self.part.tree_header:
            raise ValueError(f"{self.label} is not the file of the index")
        with prefixed(self.label):
            kind, count, bounds = box_in(header)
        if kind != "triangles":
            raise ValueError(f"{self.label} is not a tree over triangles")
        box = None if math.isnan(bounds[0]) else list(bounds)
        if count != self.part.triangles or box != self.part.bounds:
            wrong = "has another box, or other triangles, than the index says"
            raise ValueError(f"{self.label} {wrong}")


def files_of(place: str, index: Index, number: int) -> tuple[PartFile, PartFile]:
    """Return the files of part `number` in `place`, a folder or URL: (tree, ids)."""
    part, (tree, ids), label = index.parts[number], file_names(number), f"{place}: part {number}"
    return (
        PartFile(part, tree, part.tree_bytes, part.tree_digest, f"{label} ({tree})"),
        PartFile(part, ids, part.ids_bytes, part.ids_digest, f"{label} ({ids})"),
    )


def bits_of(tree: BVH) -> int | None:
    """Return the union of the group bits of a tree's valid triangles; None if it has no groups."""
    if tree.groups is None:
        return None
    # Leaves have only valid triangles; unused lanes have -1.
    ids = tree.arrays.nodes.ids
    return int(np.bitwise_or.reduce(tree.groups[ids[ids >= 0]], initial=np.uint32(0)))


class NewPartFolder:
    """Local folder in which parts are written, with a folder `scratch` for temporary files."""

    def __init__(self, place: str, path: Path) -> None:
        """Write to `path`; `place` is the same or, if `publish` is to copy the parts, a URL."""
        self._place, self.path, self.scratch = place, path, path / SCRATCH
        # This fails in all processes but one. All files are new, so no link is followed.
        self.scratch.mkdir()

    def add(self, number: int, tree: BVH, ids: NDArray[np.int64]) -> PartRecord:
        """Write the files of part `number`; return its record in the index.

        `ids` are the ids in the mesh of the triangles of `tree`.
        """
        tree_path, ids_path = (self.path / name for name in file_names(number))
        size, contents = file_size_and_pieces(tree, threads=1)
        pieces, stream = list(contents), io.BytesIO()

        def write() -> None:
            with open(tree_path, "xb") as file:
                write_pieces(file, pieces)

        # Compute the digest while the file is written, which waits for the disk: two calls on two
        # threads. The array is the flag by which `watch` ends both after an exception.
        calls = partial(content_digest, pieces), write
        tree_digest, _ = watch(calls, 2, np.zeros(1, np.int32))
        np.save(stream, ids)
        with open(ids_path, "xb") as file:
            file.write(stream.getbuffer())
        box = tree.bounds.reshape(-1).tolist()
        return PartRecord(
            triangles=len(ids), bounds=box if np.isfinite(box).all() else None, tree_bytes=size,
            tree_header=pieces[0][HEADER_SIZE - DIGEST_SIZE :].tobytes().hex(),
            ids_bytes=stream.tell(), ids_digest=content_digest([stream.getbuffer()]),
            groups=bits_of(tree), tree_digest=tree_digest,
        )  # fmt: skip

    def publish(self, parts: list[PartRecord], sources: list[Source], quality: str) -> None:
        """Write the index; if the place is a URL, first copy the files of parts to it."""
        content = {
            "format": FORMAT, "version": VERSION,
            "triangles": sum(part.triangles for part in parts), "quality": quality,
            "sources": [*map(asdict, sources)], "parts": [*map(asdict, parts)],
        }  # fmt: skip
        content["digest"] = index_digest(content)
        text = json.dumps(content, indent=1).encode()
        if not is_url(self._place):
            new = self.scratch / INDEX
            with open(new, "xb") as file:
                write_pieces(file, [np.frombuffer(text, np.uint8)])
            os.replace(new, self.path / INDEX)
            return
        files, root = file_system(self._place)
        files.makedirs(root, exist_ok=True)
        names = [name for number in range(len(parts)) for name in file_names(number)]
        begun: list[str] = []
        try:
            for name in (*names, INDEX):
                begun.append(f"{root}/{name}")
                if name == INDEX:
                    files.pipe_file(begun[-1], text)
                else:
                    files.put_file(str(self.path / name), begun[-1])
        except BaseException:
            # The index first: without it, a folder holds no parts.
            for path in reversed(begun):
                with contextlib.suppress(Exception):
                    files.rm_file(path)
            raise


@contextlib.contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[NewPartFolder]:
    """Return a context with a new folder for parts, whose files are removed after an exception.

    For a URL, parts are written to a temporary folder, and copied by `publish`.
    """
    place = os.fspath(folder)
    if is_url(place):
        files, root = file_system(place)
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = [os.path.basename(path) for path in files.find(root, maxdepth=1)]
        # Files of parts without an index, left by a process that was killed, are overwritten.
        if not all(PART_FILE.fullmatch(name) for name in names):
            raise FileExistsError(f"folder has files in it: {place}")
        with tempfile.TemporaryDirectory() as local:
            yield NewPartFolder(place, Path(local))
        return
    path = Path(place)
    path.mkdir(parents=True, exist_ok=True)
    if left := os.listdir(path):
        hint = "; of another process, or of one that was killed: then remove them"
        raise FileExistsError(f"folder has files in it: {path}{hint if SCRATCH in left else ''}")
    target = NewPartFolder(place, path)
    try:
        yield target
    except BaseException:
        if not (path / INDEX).exists():
            for name in filter(PART_FILE.fullmatch, os.listdir(path)):
                (path / name).unlink()
        raise
    finally:
        shutil.rmtree(target.scratch, ignore_errors=True)
