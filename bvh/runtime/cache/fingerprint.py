"""The fingerprint of compiled kernels: a hash of all that their machine code depends on."""

from __future__ import annotations

import hashlib
import importlib.machinery
import platform
import sys
from functools import lru_cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config

import bvh
from bvh.runtime.compiler.code_generator import host_features, target
from bvh.runtime.compiler.cpu_levels import NATIVE, natural_width

PACKAGE = Path(bvh.__path__[0])

# Files and folders of the package in which there is no kernel, nor anything that a kernel's module
# imports. All other files are hashed: a constant of any of them may be part of machine code.
WITHOUT_KERNELS = (
    "__init__.py", "__main__.py", "apps", "compat", "distributed", "examples", "pictures",
)  # fmt: skip


@lru_cache(maxsize=2)
def kernel_sources(package: Path) -> tuple[Path, ...]:
    """Return all source files of a package that can hold kernels, sorted."""
    files: list[Path] = []
    for entry in package.glob("*"):
        if entry.name not in WITHOUT_KERNELS:
            files += entry.rglob("*.py") if entry.is_dir() else [entry]
    return tuple(sorted(file for file in files if file.suffix == ".py"))


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Return a hash of the kernels' sources, of versions and settings, and of the level of CPUs."""
    digest = hashlib.sha256()
    for path in kernel_sources(PACKAGE):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    versions = numba.__version__, llvmlite.__version__, np.__version__.split(".")[0]
    # Implementation, version and build of Python; the system's kind, machine and C library.
    kind = importlib.machinery.EXTENSION_SUFFIXES[0], sys.platform, platform.machine()
    cpu = target()
    cpus = [cpu.level]
    if cpu.level == NATIVE:
        cpus += [cpu.cpu, *sorted(name for name, present in host_features().items() if present)]
    # SVML is a library that vectorized mathematics may call, where it is installed.
    names = ("BOUNDSCHECK", "DEBUGINFO", "OPT", "USING_SVML")
    settings = [f"{name}={getattr(config, name, '')}" for name in names]
    settings.append(f"width={natural_width(host_features())}")
    for part in (*versions, *kind, *cpus, *settings):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:20]
