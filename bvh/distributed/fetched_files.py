"""Local copies of files that are fetched from elsewhere, under names that contain their digests.

A copy is kept until somebody removes it: BVH_PARTS_DIR is the folder for them. Each file is fetched
by one process of a machine, while others wait for it. What arrives is counted and hashed, and gets
its name only if it is the file; later it is checked for damage alone. So who can write to the
folder is trusted.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from bvh.io.container import PIECE
from bvh.runtime.cache.plain_files import lock_file, open_plain
from bvh.runtime.cache.starting_folder import absolute

# How often a process that waits for another one looks whether it is done.
POLL_SECONDS = 0.02

# Copies whose content was found to be damaged, and that could not be removed.
_rejected: set[Path] = set()


@dataclass(frozen=True)
class WantedFile:
    """A file to be fetched."""

    # Of the copy, with a digest in it.
    name: str
    # In bytes; no more are read.
    size: int
    # BLAKE2b of the content; None if it is not known.
    digest: str | None
    # What messages begin with.
    label: str
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    # Raises a ValueError unless a path is the file, as far as can be seen at once.
    check: Callable[[Path], None]

    def fetch(self, file: BinaryIO) -> None:
        """Write the content to a file; raise a ValueError if what arrives is something else."""
        found, digest = 0, blake2b(digest_size=len(self.digest or "00") // 2)
        with self.opened() as source:
            # One byte more than there should be tells that there are more.
            while piece := source.read(min(PIECE, self.size - found + 1)):
                found += len(piece)
                digest.update(piece)
                file.write(piece)
        if found != self.size:
            number = "more" if found > self.size else found
            raise ValueError(f"{self.label} has {number} bytes, the index says {self.size}")
        if self.digest not in (None, digest.hexdigest()):
            raise ValueError(f"{self.label} is not the file of the index")

    def is_good(self, path: Path) -> bool:
        """Return whether there is a copy that can be used."""
        try:
            self.check(path)
        except ValueError:
            return False
        return path not in _rejected


def fetched(wanted: WantedFile) -> Path:
    """Return the local copy of a file; fetch it unless it is there. ValueError if it is another."""
    path = cache_folder() / wanted.name
    if wanted.is_good(path):
        return path
    folder = _writable_folder()
    path = folder / wanted.name
    with _turn(folder / f".{wanted.name}") as temporary:
        # Another process may have fetched it while this one waited.
        if not wanted.is_good(path):
            with open(temporary, "ab", opener=open_plain) as file:
                file.truncate(0)
                wanted.fetch(file)
            wanted.check(temporary)
            try:
                os.replace(temporary, path)
            except PermissionError:
                # Windows replaces no file that is open: one that another process has fetched.
                if not wanted.is_good(path):
                    raise
            _rejected.discard(path)
    return path


def reject(paths: Iterable[Path]) -> None:
    """Have copies whose content is damaged fetched again when they are needed."""
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


@contextlib.contextmanager
def _turn(temporary: Path) -> Iterator[Path]:
    """Yield the name of a file to fetch to, which other processes wait for; remove it at last."""
    # What is locked is the file itself: if its process is killed, the next goes on with it. Where
    # the disk knows no locks, or the name is somebody's link, each process has a name of its own;
    # also on Windows, which lets nobody write to what is locked.
    file = _locked(temporary)
    if file is None:
        temporary = temporary.with_name(f".{secrets.token_hex(8)}{temporary.suffix}")
    try:
        yield temporary
    finally:
        # By now it may be the next one's.
        with contextlib.suppress(FileNotFoundError):
            if file is None or _is_at(temporary, file):
                temporary.unlink()
        if file is not None:
            os.close(file)


def _locked(path: Path) -> int | None:
    """Open and lock a file, waiting for other processes; None where that cannot be done."""
    while os.name != "nt":
        try:
            file = open_plain(path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return None
        is_held = False
        try:
            # Whoever had it before may have finished it, or given up, and a child of theirs may
            # still have it open, and so locked.
            while not lock_file(file) and _is_at(path, file):
                time.sleep(POLL_SECONDS)
            is_held = _is_at(path, file)
            if is_held:
                return file
        except FileNotFoundError:
            pass
        except OSError:
            # It holds nothing: where no file can be locked, none is fetched to under this name.
            path.unlink(missing_ok=True)
            return None
        finally:
            if not is_held:
                os.close(file)
    return None


def _is_at(path: Path, file: int) -> bool:
    """Return whether an open file is the one at a path; FileNotFoundError if there is none."""
    return os.path.samestat(os.fstat(file), os.lstat(path))


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
        # Not by a forked child.
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
