"""Local copies of files that are fetched from elsewhere, under names that contain their checksums.

A copy is kept until somebody removes it: BVH_PARTS_DIR is the folder for them. Each file is fetched
by one process of a machine, while others wait for it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from bvh.runtime.starting_folder import absolute

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Copies whose content was found to be damaged, and that could not be removed.
_rejected: set[Path] = set()


def fetched(name: str, fetch: Callable[[str], object], check: Callable[[Path], None]) -> Path:
    """Return the local copy of a file; fetch it unless it is there already.

    Parameters
    ----------
    name : str
        Of the copy, with a checksum in it.
    fetch : callable
        Called with a path to write to.
    check : callable
        Raises a ValueError unless a path is the file, as far as can be seen at once.

    Raises
    ------
    ValueError
        If what is fetched is not the file.
    OSError
        If BVH_PARTS_DIR is no folder that can be written to.
    """
    path = cache_folder() / name
    if _is_good(path, check):
        return path
    folder = _writable_folder()
    path = folder / name
    with _turn(folder / f".{name}") as temporary:
        # Another process may have fetched it while this one waited.
        if not _is_good(path, check):
            fetch(str(temporary))
            check(temporary)
            _put(temporary, path, check)
    return path


def _put(temporary: Path, path: Path, check: Callable[[Path], None]) -> None:
    """Give a file that was fetched its name."""
    try:
        os.replace(temporary, path)
    except PermissionError:
        # Windows replaces no file that is open: one that another process has fetched meanwhile.
        if not _is_good(path, check):
            raise
    _rejected.discard(path)


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
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "bvh" / "parts"


def _is_good(path: Path, check: Callable[[Path], None]) -> bool:
    """Return whether there is a copy that can be used."""
    try:
        check(path)
    except ValueError:
        return False
    return path not in _rejected


@contextlib.contextmanager
def _turn(temporary: Path) -> Iterator[Path]:
    """Yield the name of a file to fetch to, which other processes wait for; remove it at the end.

    What is locked is the file itself: if its process is killed, the next goes on with it. Where the
    disk knows no locks, each process has a name of its own.
    """
    file = None
    while fcntl is not None:
        file = os.open(temporary, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever had it before may have finished it, or given up.
            if os.path.samestat(os.fstat(file), os.stat(temporary)):
                break
        except FileNotFoundError:
            pass
        except OSError:
            os.close(file)
            file = None
            break
        os.close(file)
    if file is None:
        temporary = temporary.with_name(f".{secrets.token_hex(8)}{temporary.suffix}")
    try:
        yield temporary
    finally:
        # By now it may be the next one's.
        with contextlib.suppress(FileNotFoundError):
            if file is None or os.path.samestat(os.fstat(file), os.stat(temporary)):
                temporary.unlink()
        if file is not None:
            os.close(file)


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
