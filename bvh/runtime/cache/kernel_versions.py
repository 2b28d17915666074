"""Which version of the kernels the package has, as folders of kernels remember it."""

import contextlib
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bvh.runtime.cache.fingerprint import exact_fingerprint, fingerprint
from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.cache.kernel_roots import Root, cache_roots
from bvh.runtime.cache.kernel_sources import kernel_sources
from bvh.runtime.compiler.cpu_levels import known_of_target

# Names of folders of kernels.
VERSION = re.compile("[0-9a-f]{20}")


class KernelVersion(NamedTuple):
    """Fingerprints of the kernels."""

    exact: str  # of the bytes of the sources; empty if they are unknown
    fingerprint: str
    noted: bool = False  # in a folder of kernels

    @property
    def note(self) -> str:
        """Return the name of a file that is in the folder of kernels of these sources."""
        return f"sources-{self.exact}"

    def remember(self, folder: KernelFolder) -> None:
        """Leave a note, so that no other process parses the sources again."""
        if not self.noted:
            with contextlib.suppress(OSError):
                folder.write(self.note, self.fingerprint.encode())


@known_of_target
def version_of(package: Path) -> KernelVersion:
    """Return the version of a package's kernels."""
    sources = kernel_sources(package)
    if not sources:
        return KernelVersion("", fingerprint(sources))
    exact = KernelVersion(exact_fingerprint(sources), "")
    wanted = os.environ.get("BVH_CACHE_DIR", "")
    for root in () if wanted.lower() == "off" else cache_roots(wanted):
        for name in _noted(root, exact.note):
            return exact._replace(fingerprint=name, noted=True)
    with no_collection():
        return exact._replace(fingerprint=fingerprint(sources))


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for garbage: with all of Numba to search, it takes a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _noted(root: Root, note: str) -> list[str]:
    """Return the names of the folders that have a note of themselves, if both are trusted."""
    names = []
    with contextlib.suppress(OSError):
        for name in filter(VERSION.fullmatch, os.listdir(root.path)):
            if os.path.lexists(root.path / name / note):
                folder = root.folder(name)
                try:
                    if folder.read(note) == name.encode():
                        names.append(name)
                finally:
                    folder.close()
    return names
