"""Files of compiled kernels and lowered helpers, and locks on kernels between processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
from numba.core import serialize

from bvh.runtime.cache.kernel_folders import KernelFolder, Untrusted
from bvh.runtime.cache.plain_files import lock_file

dumps: Callable[[object], bytes] = serialize.dumps

# The longest wait for another process; no kernel takes that long. Then it is compiled twice.
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.05

# Prefix of files of helpers, before the name of an entry.
HELPERS = "helpers."

_refused: list[Untrusted] = []


class BVHWarning(UserWarning):
    """Warning of this package.

    Examples
    --------
    >>> import bvh, warnings
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", bvh.BVHWarning)
    ...     tree.contains([0.2, 0.2, 0.2])
    False
    """


def refuse(error: Untrusted) -> None:
    """Warn that kernels are not loaded, once in a process."""
    if not _refused:
        warnings.warn(
            f"kernels are not loaded from {error.filename}, which {error.strerror}: only its owner "
            "may be able to write to it, and must be you or root",
            BVHWarning,
            stacklevel=2,
        )
    _refused.append(error)


class KernelLocks:
    """The locks that this process has; each is a file that is removed when it is released.

    The system releases the locks of a process that ends. Only time depends on locks: where a disk
    has none, or the wait is too long, a kernel is compiled twice.
    """

    def __init__(self) -> None:
        self._files: dict[Path, int] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def take(self, folder: KernelFolder, name: str) -> bool:
        """Wait for a lock; return False if another process may still have it."""
        until = time.monotonic() + PATIENCE_SECONDS
        while folder.path / name not in self._files:
            try:
                file = _locked_file(folder, name)
            except OSError:
                return False
            if file is not None:
                self._files[folder.path / name] = file
            elif time.monotonic() > until:
                return False
            else:
                time.sleep(POLL_SECONDS)
        return True

    def release(self, folder: KernelFolder, name: str) -> None:
        """Release a lock, if this process has it."""
        file = self._files.pop(folder.path / name, None)
        if file is not None:
            # Windows removes no file that is open: there it stays, to be locked again.
            folder.remove(name)
            os.close(file)

    def _forget(self) -> None:
        """Close the locks in a forked child: they are the parent's."""
        while self._files:
            os.close(self._files.popitem()[1])


def _locked_file(folder: KernelFolder, name: str) -> int | None:
    """Open and lock a file; None if another process has locked it, OSError if none can be."""
    file = folder.open(name, os.O_RDWR | os.O_CREAT)
    locked: int | None = None
    try:
        # The previous owner may have removed the file: a lock on it would exclude nobody.
        if lock_file(file) and folder.is_file(file, name):
            locked = file
    finally:
        if locked is None:
            os.close(file)
    return locked


_locks = KernelLocks()


class KernelFiles:
    """One file for each compiled signature of a function: a digest, then pickled machine code.

    It replaces Numba's index file, which two processes can corrupt. What is not in `folder` may be
    in one of the `shelves`, which are only read.
    """

    def __init__(
        self, folder: KernelFolder | None, base: str, shelves: Sequence[KernelFolder] = ()
    ) -> None:
        self._folder = folder
        self._base = base
        self._shelves = shelves

    def _name(self, key: object) -> str:
        return f"{self._base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}"

    def claim(self, key: object) -> None:
        """Lock `key`, waiting for another process that compiles it."""
        if self._folder is not None:
            _locks.take(self._folder, self._name(key) + ".lock")

    def release(self, key: object) -> None:
        """Unlock `key`."""
        if self._folder is not None:
            _locks.release(self._folder, self._name(key) + ".lock")

    def load(self, key: object) -> Any:
        """Return what `save` stored under `key`; None if it is absent or damaged."""
        for folder in (self._folder, *self._shelves):
            found = folder and _loaded(folder, self._name(key), warn=folder is not self._folder)
            if found is not None:
                return found
        return None

    def save(self, key: object, data: object) -> None:
        """Store `data` under `key` atomically; raises OSError if nothing can be stored."""
        if self._folder is not None:
            _store(self._folder, self._name(key), data)
            helpers.store(self._folder, self._name(key))


class HelperFiles:
    """Records of lowered helpers by key, in a file beside each entry that they were lowered for.

    Typing and lowering take most of a compilation, and entries share most helpers: those of one
    process are only linked by the next.
    """

    def __init__(self) -> None:
        self._records: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._read: set[str] = set()

    def read(self, *folders: KernelFolder | None) -> None:
        """Read the files that have not been read yet."""
        for folder in filter(None, folders):
            with contextlib.suppress(OSError):
                for name in folder.names():
                    if name.startswith(HELPERS) and name not in self._read:
                        self._read.add(name)
                        self._records |= _loaded(folder, name) or {}

    def find(self, key: str) -> Any:
        """Return the record of a helper, or None."""
        return self._records.get(key)

    def add(self, key: str, record: object) -> None:
        """Add a record, to be stored with the next entry."""
        self._new[key] = record

    def store(self, folder: KernelFolder, entry: str) -> None:
        """Store what has been added beside an entry; raises OSError if nothing can be stored."""
        if self._new:
            _store(folder, HELPERS + entry, self._new)
        self._new = {}


helpers = HelperFiles()


def _store(folder: KernelFolder, name: str, data: object) -> None:
    payload = dumps(data)
    folder.write(name, hashlib.sha256(payload).digest() + payload)


def _loaded(folder: KernelFolder, name: str, warn: bool = False) -> Any:
    """Load a file; None if it is absent, damaged, untrusted, or of other versions."""
    try:
        blob = folder.read(name)
    except Untrusted as error:
        if warn:
            refuse(error)
        return None
    except OSError:
        return None
    digest, payload = blob[:32], blob[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    try:
        return pickle.loads(payload)
    except Exception:  # of any kind: its classes may be those of another version
        return None
