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

from bvh.distributed.part_folder import CONTENT_DIGEST_SIZE, PartFile
from bvh.io.container import PIECE
from bvh.runtime.cache.plain_files import absolute, lock_file, open_plain

# Interval at which a waiting process tests whether another one is done.
POLL_SECONDS = 0.02


def fetched(file: PartFile, opened: Callable[[], AbstractContextManager[BinaryIO]]) -> Path:
    """Return the path of the local copy of a file, which is fetched if there is none.

    ``opened()`` opens the remote file. Raises a ValueError unless it is the file of the index.
    """
    # Copies are named by their content, so other versions of a part do not replace them.
    name = file.digest + Path(file.name).suffix
    path = cache_folder() / name
    if _is_good(path, file):
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
            while not lock_file(lock) and not _is_good(path, file):
                time.sleep(POLL_SECONDS)
            temporary = folder / f".part-{name}"
        if not _is_good(path, file):
            # Left by a process that was killed.
            temporary.unlink(missing_ok=True)
            stack.callback(temporary.unlink, missing_ok=True)
            with open(temporary, "xb", opener=open_plain) as copy:
                try:
                    with opened() as source:
                        _copy(source, copy, file)
                except FileNotFoundError:
                    raise ValueError(f"{file.label} is missing") from None
            file.check(temporary)
            try:
                os.replace(temporary, path)
            except PermissionError:
                # Windows does not replace an open file, which another process has fetched.
                if not _is_good(path, file):
                    raise
    return path


def _copy(source: BinaryIO, copy: BinaryIO, file: PartFile) -> None:
    """Write what is read from `source` to `copy`; raise if it is not `file`."""
    size_read, content = 0, blake2b(digest_size=CONTENT_DIGEST_SIZE)
    # Up to one byte more than expected is read, to detect a longer file.
    while piece := source.read(min(PIECE, file.size - size_read + 1)):
        size_read += len(piece)
        content.update(piece)
        copy.write(piece)
    if size_read != file.size:
        number = "more" if size_read > file.size else size_read
        raise ValueError(f"{file.label} has {number} bytes, the index says {file.size}")
    if content.hexdigest() != file.digest:
        raise ValueError(f"{file.label} is not the file of the index")


def _is_good(path: Path, file: PartFile) -> bool:
    """Return whether there is a copy of a file at `path`, by its size and, of trees, its header."""
    try:
        file.check(path)
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
