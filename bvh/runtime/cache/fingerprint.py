"""Fingerprints of compiled kernels: hashes of everything that their machine code depends on.

The fingerprint is a hash of the sources' syntax. Folders of kernels also store the exact
fingerprint, a hash of the sources' bytes, which is computed faster (see `kernel_sources`).
"""

import importlib.machinery
import platform
import sys
from collections.abc import Mapping

import numpy as np

from bvh.runtime.cache.kernel_sources import by_bytes, by_syntax
from bvh.runtime.compiler.cpu_levels import NATIVE, chosen_target, natural_width, parsed
from bvh.runtime.compiler.deferred import activate


def exact_fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' bytes, and of everything else `fingerprint` depends on."""
    return by_bytes(sources, _surroundings())


def fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' syntax, of versions and settings, and of the level of CPUs."""
    return by_syntax(sources, _surroundings())


def _surroundings() -> tuple[str, ...]:
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
