"""Files of compiled kernels and of lowered helpers."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import time
from typing import Any

from bvh.runtime.cache.kernel_folders import KernelFolder

# Seconds after which a folder is read again for new helpers.
POLL_SECONDS = 0.05

# Prefix of names of files of helpers, and the number of new helpers that are written to one file.
HELPERS, HELPERS_PER_FILE = "helpers.", 40


def dumps(data: object) -> bytes:
    """Return data pickled by Numba's pickler, which takes functions that Python's cannot."""
    from numba.core import serialize

    return bytes(serialize.dumps(data))


class KernelFiles:
    """One file for each compiled signature of a function: a digest, then pickled machine code."""

    def __init__(self, folder: KernelFolder | None, base: str) -> None:
        """Use a folder, if any; `base`, the function's name, begins the names of files."""
        self._folder, self._base = folder, base

    def _name(self, key: object) -> str:
        """Return the file name for a key: the name of the function, and a hash of the key."""
        return f"{self._base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}"

    def load(self, key: object) -> Any:
        """Return the content that `save` stored under `key`; None if it is absent or damaged."""
        return None if self._folder is None else _loaded(self._folder, self._name(key))

    def save(self, key: object, data: object) -> None:
        """Store `data` under `key` atomically; raises OSError if nothing can be stored."""
        if self._folder is not None:
            _store(self._folder, self._name(key), data)
            helpers.store()


class HelperFiles:
    """Records of lowered helpers (see `compiler.stored_helpers`), by key, in files of many each.

    Files that other processes have written meanwhile are read, too.
    """

    def __init__(self) -> None:
        self._records: dict[str, Any] = {}  # of files that were read, by the helper's key
        self._new: dict[str, Any] = {}  # to be stored
        self._names: set[str] = set()  # of files that were read
        self._folder: KernelFolder | None = None
        self._read_at = 0.0  # when the folder was last read

    def use_folder(self, folder: KernelFolder | None) -> None:
        """Find and store records in a folder from now on; None for no folder."""
        self._folder, self._read_at = folder, 0.0

    def find(self, key: str) -> Any:
        """Return the record of a helper from a file of the folder, or None."""
        if key not in self._records and time.monotonic() > self._read_at + POLL_SECONDS:
            self._read()
            self._read_at = time.monotonic()
        return self._records.get(key)

    def _read(self) -> None:
        """Read the files that have been added to the folder since the last call."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                names = {name for name in self._folder.names() if name.startswith(HELPERS)}
                for name in names - self._names:
                    self._records |= _loaded(self._folder, name) or {}
                self._names |= names

    def add(self, key: str, record: object) -> None:
        """Add a record; store all new ones once they fill a file, for other processes."""
        self._new[key] = record
        if len(self._new) >= HELPERS_PER_FILE:
            self.store()

    def store(self) -> None:
        """Write the new records to a file; forget them if that is impossible."""
        if self._new and self._folder is not None:
            with contextlib.suppress(OSError):
                _store(self._folder, HELPERS + next(iter(self._new)), self._new)
        self._new = {}


helpers = HelperFiles()


def _store(folder: KernelFolder, name: str, data: object) -> None:
    """Write a file: the SHA-256 digest of the pickled data (32 bytes), then the pickled data."""
    payload = dumps(data)
    folder.write(name, hashlib.sha256(payload).digest() + payload)


def _loaded(folder: KernelFolder, name: str) -> Any:
    """Load a file; None if it is absent, damaged, untrusted, or of other versions."""
    try:
        blob = folder.read(name)
    except OSError:
        return None
    digest, payload = blob[:32], blob[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    try:
        return pickle.loads(payload)
    except Exception:  # of any kind: its classes may be those of another version
        return None
