"""Local copies of fetched files, under names that contain their digests.

Copies are in the folder BVH_PARTS_DIR until somebody removes them. Each file is fetched by one
process of a machine, which locks a hidden file while others wait. A copy gets its name only if its
size and digest are right; later it is only checked for damage. So those who can write to the folder
are trusted.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from bvh.io.container import PIECE
from bvh.runtime.cache.plain_files import absolute, lock_file, open_plain

# Interval at which a waiting process tests whether another one is done.
POLL_SECONDS = 0.02


def fetched(
    name: str, size: int, digest: str, label: str,
    opened: Callable[[], AbstractContextManager[BinaryIO]], check: Callable[[Path], None],
) -> Path:  # fmt: skip
    """Return the path of the local copy `name` of a file, which is fetched if there is none.

    ``opened()`` opens the remote file, and ``check(path)`` raises a ValueError unless there is a
    file of the right size and header. A ValueError that begins with `label` is raised unless the
    content has `size` bytes and the `digest`, a BLAKE2b in hexadecimal digits.
    """
    path = cache_folder() / name
    if _is_good(path, check):
        return path
    folder = _writable_folder()
    path = folder / name
    with contextlib.ExitStack() as stack:
        temporary = folder / f".{secrets.token_hex(8)}-{name}"
        # Without locks, or where the name is a link, each process writes to a name of its own.
        with contextlib.suppress(OSError):
            lock = open_plain(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, lock)
            # Wait for another process. The copy is tested, too, as a child of a process that has
            # finished may still hold the lock.
            while not lock_file(lock) and not _is_good(path, check):
                time.sleep(POLL_SECONDS)
            temporary = folder / f".part-{name}"
        if not _is_good(path, check):
            # Left by a process that was killed.
            temporary.unlink(missing_ok=True)
            stack.callback(temporary.unlink, missing_ok=True)
            with open(temporary, "xb", opener=open_plain) as file, opened() as source:
                _copy(source, file, size, digest, label)
            check(temporary)
            try:
                os.replace(temporary, path)
            except PermissionError:
                # Windows does not replace an open file, which another process has fetched.
                if not _is_good(path, check):
                    raise
    return path


def _copy(source: BinaryIO, file: BinaryIO, size: int, digest: str, label: str) -> None:
    """Copy `source` to `file`; raise, naming `label`, if its size or digest differs."""
    # Two hexadecimal digits of the digest are a byte.
    size_read, content = 0, blake2b(digest_size=len(digest) // 2)
    # Up to one byte more than expected is read, to detect a longer file.
    while piece := source.read(min(PIECE, size - size_read + 1)):
        size_read += len(piece)
        content.update(piece)
        file.write(piece)
    if size_read != size:
        number = "more" if size_read > size else size_read
        raise ValueError(f"{label} has {number} bytes, the index says {size}")
    if content.hexdigest() != digest:
        raise ValueError(f"{label} is not the file of the index")


def _is_good(path: Path, check: Callable[[Path], None]) -> bool:
    """Return whether `path` passes `check`, which a missing file does not."""
    try:
        check(path)
    except ValueError:
        return False
    return True


def cache_folder() -> Path:
    """Return the folder for copies: BVH_PARTS_DIR, or one in the user's cache."""
    given = os.environ.get("BVH_PARTS_DIR")
    if given:
        return absolute(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return absolute(home) / "bvh" / "parts"


def _writable_folder() -> Path:
    """Return the folder for copies; if it cannot be written to, raise or use a temporary folder."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} is read-only")
    except OSError as error:
        # A folder that the user has named is not replaced.
        if os.environ.get("BVH_PARTS_DIR"):
            message = f"BVH_PARTS_DIR={folder} must be a folder that can be written to"
            raise OSError(message) from error
        return temporary_folder(os.getpid())
    return folder


@lru_cache(maxsize=1)
def temporary_folder(process: int) -> Path:
    """Return a temporary folder, made once for the process id and removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="bvh-parts-"))

    def remove() -> None:
        # A forked child must not remove the folder of its parent.
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
