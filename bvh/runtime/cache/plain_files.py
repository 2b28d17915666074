"""Files opened by their own names, never through a link; locks; the starting folder.

Whoever can write to a folder can plant a link in it, under the name of a file that is about to be
written. So a folder is opened once and used by its descriptor, and what is written to is a file
that has no other name. Windows has no descriptors of folders; there a folder is used by its path.
"""

import errno
import os
import stat
import sys
from pathlib import Path

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | NO_LINK
# Opening a pipe or a device must neither block nor have effects.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
# Errors that mean "locked by another"; all others mean that the disk has no locks.
LOCKED = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)

# The working directory at the import of the package, to which relative settings refer: the process
# may change its own, and another user could have put kernels into the new one.
try:
    _starting_folder = os.getcwd()
except FileNotFoundError:
    # The folder has been removed: settings then refer to the root.
    _starting_folder = os.path.abspath(os.sep)

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        """Lock an open file by its first byte; raise OSError at once if it is locked already."""
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        """Lock an open file; raise OSError at once if it is locked already."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def absolute(path: str) -> Path:
    """Return the absolute path of a setting: with ~ expanded, relative to the starting folder."""
    return Path(os.path.normpath(os.path.join(_starting_folder, os.path.expanduser(path))))


def lock_file(file: int) -> bool:
    """Lock an open file; False if it is locked already. OSError if the disk has no locks."""
    try:
        _lock(file)
    except OSError as error:
        if error.errno not in LOCKED:
            raise
        return False
    return True


def open_plain(path: str | Path, flags: int, folder: int | None = None) -> int:
    """Open a file that is not a link; return its descriptor. Only the user can access a new file.

    `path` is relative to the folder with the descriptor `folder`, if given. Raises OSError for a
    link; with O_CREAT also for a file that is not a regular one, or has more than one name.
    """
    if not NO_LINK and os.path.islink(path):
        raise OSError(errno.ELOOP, "is a link", os.fspath(path))
    # The flags of READ matter for a file that exists already: it may be a pipe or a device.
    file = os.open(path, flags | PLAIN | (READ if flags & os.O_CREAT else 0), 0o600, dir_fd=folder)
    status = os.fstat(file)
    if flags & os.O_CREAT and not (stat.S_ISREG(status.st_mode) and status.st_nlink <= 1):
        os.close(file)
        raise OSError(errno.EINVAL, "is no file, or has another name", os.fspath(path))
    return file
