"""Files of compiled kernels: where they are looked for, and where they are kept."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
from numba.core import serialize

from bvh.kernel_folders import KernelFolder, Untrusted
from bvh.kernel_locks import KernelLocks

dumps: Callable[[object], bytes] = serialize.dumps

_locks = KernelLocks()
_refused: list[Untrusted] = []


class BVHWarning(UserWarning):
    """Something worth knowing that is not an error."""


def refuse(error: Untrusted) -> None:
    """Say that kernels are not loaded, once in a process."""
    if not _refused:
        warnings.warn(
            f"kernels are not loaded from {error.filename}, which {error.strerror}: only its owner "
            "may be able to write to it, and must be you or root",
            BVHWarning,
            stacklevel=2,
        )
    _refused.append(error)


class KernelFiles:
    """One file per compiled signature: a digest, then the pickled machine code.

    Takes the place of Numba's index file, whose numbering two processes can tear apart. What is not
    in our own folder may be on one of the shelves, which are only read.
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
        """Wait for whoever is about to store something under `key`; then it is up to us."""
        if self._folder is not None:
            _locks.take(self._folder, self._name(key) + ".lock")

    def give_up(self, key: object) -> None:
        """Let others store under `key`."""
        if self._folder is not None:
            _locks.give_up(self._folder, self._name(key) + ".lock")

    def load(self, key: object) -> Any:
        """Return what `save` stored under `key`, or None when it is absent or damaged."""
        name = self._name(key)
        if self._folder is not None:
            found = _loaded(self._folder, name)
            if found is not None:
                return found
        for shelf in self._shelves:
            found = _loaded(shelf, name, tell=True)
            if found is not None:
                return found
        return None

    def save(self, key: object, data: object) -> None:
        """Store `data` under `key` in one atomic step; raises OSError where nothing can be."""
        if self._folder is not None:
            payload = dumps(data)
            self._folder.write(self._name(key), hashlib.sha256(payload).digest() + payload)

    def flush(self) -> None:
        """Remove all that was stored, whatever its key."""
        if self._folder is not None:
            for name in self._folder.names():
                if name.startswith(f"{self._base}."):
                    self._folder.remove(name)


def _loaded(folder: KernelFolder, name: str, tell: bool = False) -> Any:
    """Return what a file holds, None if it is absent, damaged, untrusted, or of other versions."""
    try:
        blob = folder.read(name)
    except Untrusted as error:
        if tell:
            refuse(error)
        return None
    except OSError:
        return None
    digest, payload = blob[:32], blob[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    try:
        return pickle.loads(payload)
    except Exception:  # of whatever kind: its classes may be those of another version
        return None
