"""Files of meshes that are not trusted: regular files alone, unpacked up to a limit.

A file may unpack to 1 GiB, or BVH_MAX_UNPACKED bytes, beyond eight times its size on the disk: so
a large file is never refused for what it holds, and a small one never fills the memory.
"""

import contextlib
import io
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path
from typing import IO, Any

LIMIT = "BVH_MAX_UNPACKED"
USUAL, MOST = 1 << 30, 1 << 60
# Bytes of arrays for a byte of a file, as bytes become doubles.
SHARE = 8
# Bytes that are unpacked at a time.
PIECE = 1 << 20

ARCHIVES = (".zip", ".tar.gz", ".tar.bz2", ".bz2")


class TooLarge(ValueError):
    """The file would unpack to more than the limit."""


class Allowance:
    """The number of bytes that the content of a file may still take."""

    def __init__(self, path: str) -> None:
        given = os.environ.get(LIMIT, "").strip()
        if given and not (given.isdecimal() and len(given) < 20 and int(given) <= MOST):
            raise ValueError(f"{LIMIT} must be a number of bytes up to {MOST}, got {given[:99]!r}")
        self._beyond = int(given) if given else USUAL
        self._left = self._beyond + SHARE * os.path.getsize(path)

    def add(self, status: os.stat_result) -> None:
        """Allow more for another file, by its size on the disk: holes in it do not count."""
        self._left += SHARE * min(status.st_size, 512 * getattr(status, "st_blocks", MOST))

    def take(self, size: int, what: str) -> None:
        """Take bytes for something that a file holds, or refuse it."""
        self._left -= size
        if self._left < 0:
            most = f"{self._beyond} bytes more than {SHARE} times the file"
            raise TooLarge(f"{what} would take over {most}: set {LIMIT} to allow more")


class NoFile(ValueError):
    """The name is of a pipe, a device or a socket."""


@contextlib.contextmanager
def opened(name: str | os.PathLike[str]) -> Iterator[io.FileIO]:
    """Open a regular file; refuse others, such as a pipe, without waiting for them."""

    # Another process may replace the file by a pipe after the first check.
    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    if not stat.S_ISREG(os.stat(name).st_mode):
        raise NoFile("is something else than a file")
    # Without a buffer, which would keep the header when the file is read again.
    with open(name, "rb", buffering=0, opener=opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NoFile("is something else than a file")
        yield file


class NamedFiles:
    """Files in the folder of a mesh file to which it refers: buffers, materials, images.

    It is a resolver as trimesh takes them. Files are in the folder of the mesh or below. Readers
    go on without an image that they cannot have, so what is refused is kept in `refused`.
    """

    def __init__(self, path: str, allowance: Allowance) -> None:
        self._folder, self._allowance = Path(os.path.abspath(path)).parent.resolve(), allowance
        self._read: dict[Path, bytes] = {}
        self.file_name = os.path.basename(path)
        self.refused: ValueError | None = None

    def get(self, name: str) -> bytes:
        """Return the content of a file; a file that is named several times is read once."""
        name = name.strip()
        # The name as given, without a leading slash, and without folders.
        for candidate in (name, name.lstrip("/"), os.path.split(name)[-1]):
            path = (self._folder / candidate).resolve()
            if path.is_relative_to(self._folder) and path.exists():
                break
        else:
            raise FileNotFoundError(f"no such file in the folder of the mesh: {name}")
        if path.is_dir():
            raise IsADirectoryError(f"{name} is a folder")
        # Readers may catch the exception, so it is also stored.
        try:
            if path not in self._read:
                self._read[path] = self._content(path, name)
        except NoFile as error:
            self.refused = NoFile(f"{name!r}, which it names, {error}")
            raise self.refused from None
        except ValueError as error:
            self.refused = error
            raise
        return self._read[path]

    __getitem__ = get

    def _content(self, path: Path, name: str) -> bytes:
        """Read a file, which is called `name` in errors, if the allowance suffices."""
        with opened(path) as file:
            status = os.fstat(file.fileno())
            self._allowance.add(status)
            self._allowance.take(status.st_size, repr(name))
            # The system may read less in one call; a buffered reader goes on.
            with io.BufferedReader(file) as reader:
                return reader.read(status.st_size)


class _Counted(io.RawIOBase):
    """An unpacked stream, whose bytes are taken from an allowance as they are read."""

    def __init__(self, stream: io.BufferedIOBase, allowance: Allowance, what: str) -> None:
        self._stream, self._allowance, self._what = stream, allowance, what

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(min(len(buffer), PIECE))
        self._allowance.take(len(data), self._what)
        buffer[: len(data)] = data
        return len(data)


def unpacked(file: str | IO[bytes], name: str, allowance: Allowance) -> dict[str, bytes]:
    """Return the files in an archive by their names; `name` tells its format."""
    import bz2
    import gzip
    import tarfile

    ending = name.lower()
    if ending.endswith(".zip"):
        return unzipped(file, allowance)
    unpack = gzip.open if ending.endswith("gz") else bz2.open
    counted = _Counted(unpack(file), allowance, "what it unpacks to")
    if not ending.endswith((".tar.gz", ".tar.bz2")):
        return {os.path.basename(name)[: -len(".bz2")]: counted.readall()}
    found = {}
    with tarfile.open(fileobj=io.BufferedReader(counted), mode="r|") as archive:
        for member in archive:
            if member.isfile():
                # A sparse file is larger than what the archive holds of it.
                allowance.take(member.size if member.issparse() else 0, repr(member.name))
                stream = archive.extractfile(member)
                assert stream is not None
                found[member.name] = stream.read()
    return found


def unzipped(
    file: str | IO[bytes], allowance: Allowance, wanted: Container[str] | None = None
) -> dict[str, bytes]:
    """Return the files in a zip archive, or those `wanted`, by name; declared sizes are ignored."""
    import zipfile

    found = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or (wanted is not None and member.filename not in wanted):
                continue
            # With other methods, zipfile unpacks all that it has read at once, to a million times
            # as much.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename!r} in it is not compressed by deflate")
            with archive.open(member) as stream:
                parts: list[bytes] = []
                while part := stream.read(PIECE):
                    allowance.take(len(part), repr(member.filename))
                    parts.append(part)
            found[member.filename] = b"".join(parts)
    return found


def stored(files: dict[str, bytes]) -> io.BytesIO:
    """Return files as a zip archive that is not compressed, for a reader that unpacks it itself."""
    import zipfile

    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    copy.seek(0)
    return copy
