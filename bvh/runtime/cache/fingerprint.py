"""Fingerprints of compiled kernels: hashes of everything that their machine code depends on.

The fingerprint is a hash of the sources' syntax. Folders of kernels also store the exact
fingerprint, a hash of the sources' bytes, which is computed faster (see `kernel_sources`).
"""

import contextlib
import gc
import importlib.machinery
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bvh.runtime.cache.kernel_folders import KernelFolder, cache_roots, version_folder
from bvh.runtime.cache.kernel_sources import by_bytes, by_syntax, kernel_sources
from bvh.runtime.compiler.cpu_levels import (
    NATIVE,
    chosen_target,
    known_of_target,
    natural_width,
    parsed,
)
from bvh.runtime.compiler.deferred import activate

# Names of folders of kernels.
VERSION = re.compile("[0-9a-f]{20}")


def exact_fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' bytes, and of everything else `fingerprint` depends on."""
    return by_bytes(sources, _surroundings())


def fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' syntax, of versions and settings, and of the level of CPUs."""
    return by_syntax(sources, _surroundings())


def _surroundings() -> tuple[str, ...]:
    """Return all but the sources that machine code depends on: versions, settings, the target."""
    activate()
    import llvmlite
    import numba
    from numba.core import config

    from bvh.runtime.compiler.code_generator import target

    versions = numba.__version__, llvmlite.__version__, np.__version__.split(".")[0]
    # Implementation, version and build of Python; the system's kind, machine and C library.
    kind = importlib.machinery.EXTENSION_SUFFIXES[0], sys.platform, platform.machine()
    cpu = target()
    cpus = [cpu.level]
    if cpu.level == NATIVE:
        features = parsed(cpu.features)
        cpus += [cpu.cpu, *sorted(filter(features.get, features))]
    # SVML is a library that vectorized mathematics may call, where it is installed.
    names = ("BOUNDSCHECK", "DEBUGINFO", "OPT", "USING_SVML")
    settings = [f"{name}={getattr(config, name, '')}" for name in names]
    settings.append(f"width={natural_width(parsed(chosen_target().features))}")
    return *versions, *kind, *cpus, *settings


class KernelVersion(NamedTuple):
    """Fingerprints of the kernels."""

    exact: str  # `exact_fingerprint`; empty if the sources are unknown
    fingerprint: str
    noted: bool = False  # whether a folder of kernels has the note

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
    # A folder that has the note of these bytes is named by the fingerprint: nothing is parsed then.
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


def _noted(root: Path, note: str) -> list[str]:
    """Return the names of folders of `root` with this note, if folder and note are trusted."""
    names = []
    with contextlib.suppress(OSError):
        for name in filter(VERSION.fullmatch, os.listdir(root)):
            if os.path.lexists(root / name / note):
                folder = version_folder(root, name)
                try:
                    if folder.read(note) == name.encode():
                        names.append(name)
                finally:
                    folder.close()
    return names
