"""Folders of compiled kernels, and whom they are trusted to: a kernel is code that will run.

A folder is opened once and used by its descriptor: what its name stands for later is of no
importance. Owner and mode are looked at on what is open, of the folder and of the one above it when
they are opened, of the folder and the file each time a kernel is loaded. Windows knows neither
descriptors of folders nor such modes; there a folder is known by its absolute path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

BY_DESCRIPTOR = hasattr(os, "getuid") and os.open in os.supports_dir_fd

_OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Opening a pipe or a device must neither wait nor do anything.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Untrusted(PermissionError):
    """Somebody else could have put there what is there."""


class KernelFolder:
    """A folder of kernel files, opened when it is first needed."""

    def __init__(self, path: Path, link: bool = True, checked: bool = True) -> None:
        """Take a path; without `link` the folder above may not be a symbolic link.

        One that is not `checked` may be anybody's.
        """
        self.path = Path(os.path.abspath(path))
        self._link = link
        self._checked = checked
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None

    def _opened(self) -> int | None:
        """Return a descriptor of the folder if it is trusted; None where there are none.

        Raises OSError (`Untrusted` among them) if it cannot be opened, or not any more.
        """
        if not BY_DESCRIPTOR:
            return None
        status: os.stat_result | None = None
        if self._descriptor is not None:
            # A process that becomes a daemon closes all files, and the number may be another's.
            with contextlib.suppress(OSError):
                status = os.fstat(self._descriptor)
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            with self._above() as above:
                name = self.path.name
                self._descriptor = os.open(name, _FOLDER | _OPEN | _NO_LINK, dir_fd=above)
            status = os.fstat(self._descriptor)
            self._identity = status.st_dev, status.st_ino
        self._demand(status, self.path)
        return self._descriptor

    def _demand(self, status: os.stat_result, what: Path) -> None:
        """Refuse what is another user's, or what others may write to; root may do all anyway."""
        if not self._checked:
            return
        if status.st_uid not in (os.getuid(), 0):
            raise Untrusted(errno.EACCES, "belongs to another user", str(what))
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Untrusted(errno.EACCES, "can be written to by others", str(what))

    @contextlib.contextmanager
    def _above(self) -> Iterator[int]:
        """Open the folder above, if it is trusted."""
        root = self.path.parent
        above = os.open(root, _FOLDER | _OPEN | (0 if self._link else _NO_LINK))
        try:
            self._demand(os.fstat(above), root)
            link = os.lstat(root)
            if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.getuid(), 0):
                raise Untrusted(errno.EACCES, "is another user's link", str(root))
            yield above
        finally:
            os.close(above)

    def make(self) -> None:
        """Make the folder and those above it, for the user alone; raises OSError if it cannot."""
        root = self.path.parent
        root.parent.mkdir(parents=True, exist_ok=True)
        # One by one: the mode of `mkdir` is for the last folder only.
        root.mkdir(mode=0o700, exist_ok=True)
        if not BY_DESCRIPTOR:
            self.path.mkdir(exist_ok=True)
            return
        with self._above() as above, contextlib.suppress(FileExistsError):
            os.mkdir(self.path.name, 0o700, dir_fd=above)
        self._opened()

    def close(self) -> None:
        """Let go of the descriptor; the folder is opened again when it is needed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._identity = None

    def open(self, name: str, flags: int) -> int:
        """Open a file of the folder, or make it, with a mode for the user alone."""
        folder = self._opened()
        place = self.path / name if folder is None else name
        return os.open(place, flags | _OPEN | _NO_LINK, 0o600, dir_fd=folder)

    def read(self, name: str) -> bytes:
        """Return what a file holds, if it is trusted; raises OSError."""
        with open(self.open(name, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is no file", name)
            if BY_DESCRIPTOR:
                self._demand(status, self.path / name)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Put a file in place in one step; raises OSError if none can be made, not if it is full.

        A full disk, or a file that Windows holds in use: nothing is kept.
        """
        scrap = f"tmp{os.getpid()}-{os.urandom(8).hex()}"
        file = open(self.open(scrap, _NEW), "wb")  # noqa: SIM115
        with contextlib.suppress(OSError):
            with file:
                file.write(content)
            folder = self._opened()
            if folder is None:
                os.replace(self.path / scrap, self.path / name)
            else:
                os.replace(scrap, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        self.remove(scrap)

    def remove(self, name: str) -> None:
        """Remove a file if that is possible."""
        with contextlib.suppress(OSError):
            folder = self._opened()
            os.unlink(self.path / name if folder is None else name, dir_fd=folder)

    def holds(self, file: int, name: str) -> bool:
        """Tell whether an open file is the one of that name."""
        try:
            folder = self._opened()
            place = self.path / name if folder is None else name
            return os.path.samestat(os.fstat(file), os.stat(place, dir_fd=folder))
        except OSError:
            return False

    def names(self) -> list[str]:
        """Return the names of all files; raises OSError."""
        folder = self._opened()
        return os.listdir(self.path if folder is None else folder)

    def serves(self) -> bool:
        """Tell whether kernels can be kept here, or at least found."""
        try:
            self._opened()
            # A filled folder on a read-only disk still serves; an empty one is useless.
            return os.access(self.path, os.W_OK) or bool(self.names())
        except OSError:
            return False

    def touch(self) -> None:
        """Note that the folder is in use; a read-only one is never pruned anyway."""
        with contextlib.suppress(OSError):
            folder = self._opened()
            os.utime(self.path if folder is None else folder)
