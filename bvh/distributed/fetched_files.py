"""Local copies of fetched files, under names that contain their digests.

Copies are in the folder BVH_PARTS_DIR until somebody removes them. Each file is fetched by one
process of a machine, which locks a hidden file while others wait. Its bytes are counted and hashed,
and it gets its name only if both are right; later it is checked for damage alone. So those who can
write to the folder are trusted.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from bvh.io.container import PIECE
from bvh.runtime.cache.plain_files import lock_file, open_plain
from bvh.runtime.cache.starting_folder import absolute

# Interval at which a waiting process tests whether another one is done.
POLL_SECONDS = 0.02

# Damaged copies that could not be removed.
_rejected: set[Path] = set()


@dataclass(frozen=True)
class WantedFile:
    """A file to be fetched."""

    # Name of the copy: the digest, and an ending.
    name: str
    # Number of bytes; at most one more is read.
    size: int
    # BLAKE2b of the content.
    digest: str
    # Beginning of error messages.
    label: str
    # Opens the file to read.
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    # Raises a ValueError unless a path is the file, by its size and header.
    check: Callable[[Path], None]

    def fetch(self, file: BinaryIO) -> None:
        """Write the content to `file`; raise a ValueError if its size or digest is not right."""
        found, digest = 0, blake2b(digest_size=len(self.digest) // 2)
        with self.opened() as source:
            # One byte more than expected detects a longer file.
            while piece := source.read(min(PIECE, self.size - found + 1)):
                found += len(piece)
                digest.update(piece)
                file.write(piece)
        if found != self.size:
            number = "more" if found > self.size else found
            raise ValueError(f"{self.label} has {number} bytes, the index says {self.size}")
        if digest.hexdigest() != self.digest:
            raise ValueError(f"{self.label} is not the file of the index")

    def is_good(self, path: Path) -> bool:
        """Return whether there is a good copy at `path`, which was not rejected."""
        try:
            self.check(path)
        except ValueError:
            return False
        return path not in _rejected


def fetched(wanted: WantedFile) -> Path:
    """Return the local copy of a file, fetched unless there is one; ValueError if it differs."""
    path = cache_folder() / wanted.name
    if wanted.is_good(path):
        return path
    folder = _writable_folder()
    # The folder may be a temporary one now.
    path = folder / wanted.name
    with contextlib.ExitStack() as stack:
        temporary = folder / f".{secrets.token_hex(8)}-{wanted.name}"
        # Without locks, or where the name is a link, each process writes to a name of its own.
        with contextlib.suppress(OSError):
            lock = open_plain(folder / f".{wanted.name}.lock", os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, lock)
            # A child of a process that has finished may still hold the lock.
            while not lock_file(lock) and not wanted.is_good(path):
                time.sleep(POLL_SECONDS)
            temporary = folder / f".part-{wanted.name}"
        if not wanted.is_good(path):
            # Of a process that was killed.
            temporary.unlink(missing_ok=True)
            stack.callback(temporary.unlink, missing_ok=True)
            with open(temporary, "xb", opener=open_plain) as file:
                wanted.fetch(file)
            wanted.check(temporary)
            try:
                os.replace(temporary, path)
            except PermissionError:
                # Windows does not replace an open file, which another process has fetched.
                if not wanted.is_good(path):
                    raise
            _rejected.discard(path)
    return path


def reject(paths: Iterable[Path]) -> None:
    """Remove damaged copies, to be fetched again when they are needed."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            _rejected.add(path)


def cache_folder() -> Path:
    """Return the folder for copies: BVH_PARTS_DIR, or one in the user's cache."""
    given = os.environ.get("BVH_PARTS_DIR")
    if given:
        return absolute(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return absolute(home) / "bvh" / "parts"


def _writable_folder() -> Path:
    """Return the folder of copies; without one that can be written to, a temporary folder."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK):
            return folder
        problem: OSError | None = None
    except OSError as error:
        problem = error
    if os.environ.get("BVH_PARTS_DIR"):
        message = f"BVH_PARTS_DIR={folder} must be a folder that can be written to"
        raise OSError(message) from problem
    return temporary_folder(os.getpid())


@lru_cache(maxsize=1)
def temporary_folder(process: int) -> Path:
    """Make a folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="bvh-parts-"))

    def remove() -> None:
        # A forked child must not remove the folder of its parent.
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
