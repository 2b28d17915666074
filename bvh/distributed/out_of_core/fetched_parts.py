"""Files of parts as a process opens them: those of a local folder, and copies of those at URLs.

A copy has the checksum as its name, and is kept until somebody removes it: `BVH_PARTS_DIR` is the
folder for them. Each file is fetched by one process of a machine, while others wait for it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from bvh.distributed.out_of_core.part_folder import (
    Index,
    PartRecord,
    check_file,
    checked_files,
    file_digest,
    file_system,
    ids_name,
    is_url,
    tree_name,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Copies that were found to be damaged, and could not be removed.
_rejected: set[Path] = set()


def local_files(place: str, index: Index, number: int) -> tuple[Path, Path]:
    """Return the checked local files of a part: its tree's and its ids'; fetched for a URL.

    Raises
    ------
    ValueError
        If one is missing, cut off, or another file; the message names the part.
    """
    if not is_url(place):
        return checked_files(Path(place), index, number)
    part, label = index.parts[number], f"{place}: part {number}"
    names = tree_name(number), ids_name(number)
    tree, ids = (_fetched(place, name, part, f"{label} ({name})") for name in names)
    return tree, ids


def reject(place: str, paths: tuple[Path, Path]) -> bool:
    """Have files whose content is damaged fetched again; return whether they are copies."""
    if not is_url(place):
        return False
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            _rejected.add(path)
    return True


def cache_folder() -> Path:
    """Return the folder for fetched parts: BVH_PARTS_DIR, or one in the user's cache."""
    given = os.environ.get("BVH_PARTS_DIR")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "bvh" / "parts"


def _fetched(place: str, name: str, part: PartRecord, label: str) -> Path:
    """Return the local copy of a part's file; fetch it unless it is there already."""
    ending = Path(name).suffix
    copy = (part.tree_header if ending == ".bvh" else part.ids_digest) + ending
    path = cache_folder() / copy
    if _is_good(path, part):
        return path
    folder = _writable_folder()
    path = folder / copy
    with _turn(folder / f".{copy}") as temporary:
        # Another process may have fetched it while this one waited.
        if not _is_good(path, part):
            files, root = file_system(place)
            try:
                files.get_file(f"{root}/{name}", str(temporary))
            except FileNotFoundError:
                raise ValueError(f"{label} is missing") from None
            check_file(temporary, part, label)
            if ending == ".npy" and file_digest(temporary) != part.ids_digest:
                raise ValueError(f"{label} is damaged: its checksum is wrong")
            os.replace(temporary, path)
            _rejected.discard(path)
    return path


def _is_good(path: Path, part: PartRecord) -> bool:
    """Return whether there is a copy, with the size and header of the index."""
    try:
        check_file(path, part, "")
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
        raise OSError(
            f"BVH_PARTS_DIR={folder} must be a folder that can be written to"
        ) from problem
    return _temporary_folder(os.getpid())


@lru_cache(maxsize=1)
def _temporary_folder(process: int) -> Path:
    """Make a folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="bvh-parts-"))

    def remove() -> None:
        # Not by a forked child.
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
