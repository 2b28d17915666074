"""Trusted folders of compiled kernels, and where they are.

A kernel is code that will run, so it is loaded only from a file and a folder that nobody but the
user or root can write to. A folder is opened once and used by its descriptor, so that it stays the
same if another one gets its name. Owner and mode are checked on what is open: those of the
folder and of its parent when they are opened, those of the folder and the file whenever a kernel is
loaded. Windows has neither descriptors of folders nor such modes; there a folder is used by its
absolute path.
"""

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bvh.runtime.cache.plain_files import NO_LINK, PLAIN, READ, absolute, open_plain

BY_DESCRIPTOR = hasattr(os, "getuid") and os.open in os.supports_dir_fd
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Untrusted(PermissionError):
    """A file or folder that another user could have written."""


class KernelFolder:
    """A folder of kernel files, opened when it is first needed."""

    def __init__(self, path: Path, link: bool = True) -> None:
        """Take the path of the folder; `link` is whether its parent may be a symbolic link."""
        self.path, self._link = Path(os.path.abspath(path)), link
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None  # device and inode

    def _opened(self) -> int | None:
        """Return a descriptor of the folder, None on systems without them; raises OSError."""
        if not BY_DESCRIPTOR:
            return None
        status: os.stat_result | None = None
        if self._descriptor is not None:
            # A process that becomes a daemon closes all files, and the number may be reused.
            with contextlib.suppress(OSError):
                status = os.fstat(self._descriptor)
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            with self._above() as above:
                name = self.path.name
                self._descriptor = os.open(name, FOLDER | PLAIN, dir_fd=above)
            status = os.fstat(self._descriptor)
            self._identity = status.st_dev, status.st_ino
        self._require_trusted(status, self.path)
        return self._descriptor

    def _require_trusted(self, status: os.stat_result, what: Path) -> None:
        """Raise `Untrusted` if others than the user and root own or can write to `what`, a path."""
        if status.st_uid not in (os.getuid(), 0):
            raise Untrusted(errno.EACCES, "belongs to another user", str(what))
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Untrusted(errno.EACCES, "can be written to by others", str(what))

    @contextlib.contextmanager
    def _above(self) -> Iterator[int]:
        """Yield a descriptor of the parent folder; raise `Untrusted` if others can change it."""
        root = self.path.parent
        # Without NO_LINK if the parent may be a link; the owner of the link is checked below.
        above = os.open(root, FOLDER | PLAIN & ~(NO_LINK if self._link else 0))
        try:
            self._require_trusted(os.fstat(above), root)
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
        # Without `parents`: the mode of `mkdir` applies to the last folder only.
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
        """Return the path of a file, and the descriptor that it is relative to; raises OSError.

        The descriptor is None, and the path absolute, on systems without descriptors of folders.
        """
        folder = self._opened()
        return (self.path / name if folder is None else name), folder

    def open(self, name: str, flags: int) -> int:
        """Open or create a file that is not a link; `flags` are those of `os.open`."""
        path, folder = self._at(name)
        return open_plain(path, flags, folder)

    def remove(self, name: str) -> None:
        """Remove a file if that is possible."""
        with contextlib.suppress(OSError):
            path, folder = self._at(name)
            os.unlink(path, dir_fd=folder)

    def names(self) -> list[str]:
        """Return the names of all files; raises OSError."""
        folder = self._opened()
        return os.listdir(self.path if folder is None else folder)

    def read(self, name: str) -> bytes:
        """Return the content of a trusted file; raises OSError."""
        with open(self.open(name, READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is no file", name)
            if BY_DESCRIPTOR:
                self._require_trusted(status, self.path / name)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; raises OSError if no file can be created."""
        # Later errors, such as of a full disk, or on Windows of a file in use, are ignored: then
        # nothing is written.
        temporary = f"tmp{os.getpid()}-{os.urandom(8).hex()}"
        file = open(self.open(temporary, _NEW), "wb")  # noqa: SIM115
        with contextlib.suppress(OSError):
            with file:
                file.write(content)
            (old, folder), (new, _) = self._at(temporary), self._at(name)
            os.replace(old, new, src_dir_fd=folder, dst_dir_fd=folder)
            return
        self.remove(temporary)

    def prepare(self) -> bool:
        """Make the folder; return whether kernels can be stored here, or at least loaded."""
        try:
            self.make()
            folder = self._opened()
            # The time of modification protects it from `prune_cache`.
            with contextlib.suppress(OSError):
                os.utime(self.path if folder is None else folder)
            # A filled folder on a read-only disk still serves; an empty one is useless.
            return os.access(self.path, os.W_OK) or bool(self.names())
        except OSError:
            return False
        finally:
            self.close()


def cache_roots(setting: str) -> list[Path]:
    """Return the folders where kernels may be stored, the first choice first.

    `setting` is the value of BVH_CACHE_DIR, or empty.
    """
    paths = [absolute(setting)] if setting else []
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # A ~ stays if the user has no home folder.
    if base and not base.startswith("~"):
        paths.append(absolute(base) / "raybvh")
    return [*paths, temporary_root()]


def version_folder(root: Path, name: str) -> KernelFolder:
    """Return the folder of a version of the kernels; `name` is their fingerprint."""
    # `temporary_root` must not be a link: everyone can make links in the system's temporary folder.
    return KernelFolder(root / name, link=root != temporary_root())


def temporary_root() -> Path:
    """Return the user's own folder in the system's temporary folder, which may not exist."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    # `tempfile` would resolve a relative setting by the current working directory.
    paths = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    relative = [absolute(path) for path in paths if path and not os.path.isabs(path)]
    usable = (path for path in relative if os.access(path, os.W_OK))
    try:
        folder = next(usable, None) or absolute(tempfile.gettempdir())
    except FileNotFoundError:
        # The system has none that can be written to, as in a container that is read-only.
        folder = Path(os.devnull)
    return folder / f"raybvh-{user}"
