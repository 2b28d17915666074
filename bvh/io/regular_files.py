"""Regular files, opened without waiting for what is none, and those that a file of a mesh names."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from bvh.io.unpacking import Allowance


class NoFile(ValueError):
    """What is named is a pipe, a device or a socket."""


@contextlib.contextmanager
def opened(name: str | os.PathLike[str]) -> Iterator[FileIO]:
    """Open a regular file; refuse others, such as a pipe, without waiting for them."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    if not stat.S_ISREG(os.stat(name).st_mode):
        raise NoFile("is something else than a file")
    # Without a buffer, which would keep the header when the file is read again.
    with open(name, "rb", buffering=0, opener=opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NoFile("is something else than a file")
        yield file


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except NoFile as error:
        raise NoFile(f"{name!r}, which it names, {error}") from None


class NamedFiles:
    """The files beside a file of a mesh that it names: buffers, materials, images.

    It is a resolver as trimesh takes them. Files are in the folder of the mesh or below. Readers
    go on without an image that they cannot have, so what is refused is kept in `refused`.
    """

    def __init__(self, path: str, allowance: Allowance) -> None:
        self._folder, self._allowance = Path(os.path.abspath(path)).parent.resolve(), allowance
        self._read: dict[Path, bytes] = {}
        self.file_name = os.path.basename(path)
        self.refused: ValueError | None = None

    def get(self, name: str) -> bytes:
        """Return the content of a file, which is read once however often it is named."""
        name = name.strip()
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
        except ValueError as error:
            self.refused = error
            raise
        return self._read[path]

    __getitem__ = get

    def _content(self, path: Path, name: str) -> bytes:
        with _named(name), opened(path) as file:
            status = os.fstat(file.fileno())
            self._allowance.add(status)
            self._allowance.take(status.st_size, repr(name))
            parts, left = [], status.st_size
            # The system may read less at a time.
            while left and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
