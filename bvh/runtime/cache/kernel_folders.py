"""Trusted folders of compiled kernels.

A kernel is code that will run, so it is loaded only from a file and a folder that nobody but the
user or root can write to. A folder is opened once and used by its descriptor, so that its name may
change its meaning. Owner and mode are checked on what is open: those of the folder and of its
parent when they are opened, those of the folder and the file whenever a kernel is loaded. Windows
has neither descriptors of folders nor such modes; there a folder is used by its absolute path.
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
# Opening a pipe or a device must neither block nor have effects.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Untrusted(PermissionError):
    """A file or folder that another user could have written."""


class KernelFolder:
    """A folder of kernel files, opened when it is first needed."""

    def __init__(self, path: Path, link: bool = True, checked: bool = True) -> None:
        """Create an unopened folder.

        Without `link` the parent may not be a symbolic link. Without `checked` any owner and mode
        are accepted.
        """
        self.path = Path(os.path.abspath(path))
        self._link = link
        self._checked = checked
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None

    def _opened(self) -> int | None:
        """Return a descriptor of the folder; None on systems without them.

        Raises OSError if the folder cannot be opened, `Untrusted` if it is not trusted.
        """
        if not BY_DESCRIPTOR:
            return None
        status: os.stat_result | None = None
        if self._descriptor is not None:
            # A daemon closes all files at its start, and the number may be reused.
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
        """Raise `Untrusted` for what other users own or can write to; root is trusted."""
        if not self._checked:
            return
        if status.st_uid not in (os.getuid(), 0):
            raise Untrusted(errno.EACCES, "belongs to another user", str(what))
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Untrusted(errno.EACCES, "can be written to by others", str(what))

    @contextlib.contextmanager
    def _above(self) -> Iterator[int]:
        """Open the parent folder, if it is trusted."""
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
        """Create the folder and its parents for the user alone; raises OSError."""
        root = self.path.parent
        root.parent.mkdir(parents=True, exist_ok=True)
        # One by one: the mode of `mkdir` applies to the last folder only.
        root.mkdir(mode=0o700, exist_ok=True)
        if not BY_DESCRIPTOR:
            self.path.mkdir(exist_ok=True)
            return
        with self._above() as above, contextlib.suppress(FileExistsError):
            os.mkdir(self.path.name, 0o700, dir_fd=above)
        self._opened()

    def close(self) -> None:
        """Close the descriptor; the folder is opened again when it is needed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._identity = None

    def _at(self, name: str) -> tuple[Path | str, int | None]:
        """Return the path of a file, and the descriptor that it refers to; raises OSError."""
        folder = self._opened()
        return (self.path / name if folder is None else name), folder

    def open(self, name: str, flags: int) -> int:
        """Open or create a file of the folder; only the user can access a new one."""
        path, folder = self._at(name)
        return os.open(path, flags | _OPEN | _NO_LINK, 0o600, dir_fd=folder)

    def read(self, name: str) -> bytes:
        """Return the content of a trusted file; raises OSError."""
        with open(self.open(name, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is no file", name)
            if BY_DESCRIPTOR:
                self._demand(status, self.path / name)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; raises OSError if no file can be created.

        On a full disk, or for a file that Windows has in use, nothing is written.
        """
        temporary = f"tmp{os.getpid()}-{os.urandom(8).hex()}"
        file = open(self.open(temporary, _NEW), "wb")  # noqa: SIM115
        with contextlib.suppress(OSError):
            with file:
                file.write(content)
            (old, folder), (new, _) = self._at(temporary), self._at(name)
            os.replace(old, new, src_dir_fd=folder, dst_dir_fd=folder)
            return
        self.remove(temporary)

    def remove(self, name: str) -> None:
        """Remove a file, if that is possible."""
        with contextlib.suppress(OSError):
            path, folder = self._at(name)
            os.unlink(path, dir_fd=folder)

    def is_file(self, file: int, name: str) -> bool:
        """Return whether an open file is the one that has a name now."""
        try:
            path, folder = self._at(name)
            return os.path.samestat(os.fstat(file), os.stat(path, dir_fd=folder))
        except OSError:
            return False

    def names(self) -> list[str]:
        """Return the names of all files; raises OSError."""
        folder = self._opened()
        return os.listdir(self.path if folder is None else folder)

    def is_usable(self) -> bool:
        """Return whether kernels can be stored here, or at least loaded."""
        try:
            self._opened()
            # A filled folder on a read-only disk still serves; an empty one is useless.
            return os.access(self.path, os.W_OK) or bool(self.names())
        except OSError:
            return False

    def touch(self) -> None:
        """Update the time of the folder, so that it is not pruned."""
        with contextlib.suppress(OSError):
            folder = self._opened()
            os.utime(self.path if folder is None else folder)
