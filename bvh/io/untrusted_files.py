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
from typing import IO

LIMIT = "BVH_MAX_UNPACKED"
# The limit by default, and the most that BVH_MAX_UNPACKED may say.
USUAL, MOST = 1 << 30, 1 << 60
# Bytes of arrays for a byte of a file, as bytes become doubles.
SHARE = 8
# Bytes that are unpacked at a time.
PIECE = 1 << 20


class TooLarge(ValueError):
    """The file would unpack to more than the limit."""


class Allowance:
    """The number of bytes that the content of a mesh file, `path`, may still take."""

    def __init__(self, path: str) -> None:
        given = os.environ.get(LIMIT, "").strip()
        if given and not (given.isdecimal() and len(given) < 20 and int(given) <= MOST):
            raise ValueError(f"{LIMIT} must be a number of bytes up to {MOST}, got {given[:99]!r}")
        # The limit beyond SHARE times the size of the file, and what is left.
        self._beyond = self._left = int(given) if given else USUAL
        self.add(os.stat(path))

    def add(self, status: os.stat_result) -> None:
        """Allow more for another file, by its size on the disk: holes in it do not count."""
        # A block of `st_blocks` is 512 bytes; some systems have no such field, or say 0.
        blocks = getattr(status, "st_blocks", 0) or MOST
        self._left += SHARE * min(status.st_size, 512 * blocks)

    def take(self, size: int, what: str) -> None:
        """Take `size` bytes for content called `what`; raise a TooLarge if fewer are left."""
        self._left -= size
        if self._left < 0:
            most = f"{self._beyond} bytes more than {SHARE} times the file"
            raise TooLarge(f"{what} would take over {most}: set {LIMIT} to allow more")


class NoFile(ValueError):
    """The name is that of a pipe, a device or a socket instead of a file."""


def path_name(path: str | os.PathLike[str]) -> str:
    """Return a path as a string; raise for all else, such as bytes and open files."""
    name: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"path must be a string or a path, got {type(path).__name__}")
    return name


@contextlib.contextmanager
def opened(name: str | os.PathLike[str]) -> Iterator[io.FileIO]:
    """Return a context with a regular file, opened to read; raise for others, as for a pipe."""

    def opener(path: str, flags: int) -> int:
        """Open without waiting for a pipe, by which the file may be replaced after the check."""
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    if not stat.S_ISREG(os.stat(name).st_mode):
        raise NoFile("is something else than a file")
    # Without a buffer, which would keep the header when the file is read again.
    with open(name, "rb", buffering=0, opener=opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NoFile("is something else than a file")
        yield file


class NamedFiles:
    """A resolver of trimesh: it reads files that a mesh file names in its own folder, or below."""

    def __init__(self, path: str, allowance: Allowance) -> None:
        self._folder, self._allowance = Path(os.path.abspath(path)).parent.resolve(), allowance
        self._read: dict[Path, bytes] = {}
        self.file_name = os.path.basename(path)
        self.refused: ValueError | None = None  # for a file; readers continue without it

    def get(self, name: str) -> bytes:
        """Return the content of the file `name`, which is read once however often it is named."""
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


def unzipped(
    file: str | IO[bytes], allowance: Allowance, names: Container[str] | None = None
) -> dict[str, bytes]:
    """Return the contents of the files in a zip archive by name, only of `names` if given.

    The bytes that they unpack to are taken from the allowance: the archive may declare too few.
    """
    import zipfile

    contents = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or (names is not None and member.filename not in names):
                continue
            # With other methods, zipfile unpacks all that it has read at once, to perhaps a million
            # times as many bytes, before the allowance is asked.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename!r} in it is not compressed by deflate")
            with archive.open(member) as stream:
                parts: list[bytes] = []
                while part := stream.read(PIECE):
                    allowance.take(len(part), repr(member.filename))
                    parts.append(part)
            contents[member.filename] = b"".join(parts)
    return contents


def as_zip(files: dict[str, bytes]) -> io.BytesIO:
    """Return files, contents by name, as an uncompressed zip archive, for readers of archives."""
    import zipfile

    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    copy.seek(0)
    return copy
