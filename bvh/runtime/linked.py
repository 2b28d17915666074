"""Kernels linked ahead of time: the library in the package, if it has one for this CPU.

A wheel carries a library for each level of CPUs, and beside it a manifest: for which entry and
which arguments each function is, and of which sources it was made. A package without them, or with
other sources, compiles its kernels. ``BVH_KERNELS=off`` makes any package do so, and
``BVH_KERNELS=linked`` raises an error where no library can be used.
"""

import ctypes
import json
import os
from functools import lru_cache
from typing import Any, NamedTuple

from bvh.runtime.cache.kernel_sources import (
    PACKAGE,
    by_bytes,
    by_syntax,
    has_sources,
    kernel_sources,
)
from bvh.runtime.compiler.cpu_levels import natural_width, parsed, wanted_target

LIBRARIES = PACKAGE / "linked"


class LinkedKernel(NamedTuple):
    """A function of words (see `words`)."""

    address: int
    results: tuple[str, ...]  # structures
    is_tuple: bool  # whether the results are one


def linked_kernel(entry: str, structure: str) -> LinkedKernel | None:
    """Return the linked function of an entry for arguments of a structure, or None."""
    found = _library()
    if found is None or structure not in found[1].get(entry, ()):
        return None
    library, kernels = found
    symbol, results, is_tuple = kernels[entry][structure]
    return LinkedKernel(_address(library, symbol), tuple(results), is_tuple)


def linked_method(name: str) -> int:
    """Return the address of a linked function that Python calls as it calls C; 0 without one."""
    found = _library()
    return 0 if found is None else _address(found[0], found[1]["methods"][name])


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _library() -> tuple[ctypes.CDLL, dict[str, Any]] | None:
    """Return the library and what its manifest says of its kernels."""
    wanted = os.environ.get("BVH_KERNELS", "").lower()
    if wanted == "off":
        return None
    found, reason = _fitting_library()
    if wanted == "linked" and found is None:
        raise ValueError(f"BVH_KERNELS=linked: {reason}")
    return found


def _fitting_library() -> tuple[tuple[ctypes.CDLL, dict[str, Any]] | None, str]:
    """Return the library and its kernels, or None and why there is none."""
    cpu = wanted_target()
    try:
        manifest = json.loads((LIBRARIES / f"{cpu.level}.json").read_bytes())
        if manifest["width"] != (width := natural_width(parsed(cpu.features))):
            return None, f"the library is for BVH_WIDTH={manifest['width']}, not {width}"
        if not _is_made_of_sources(manifest):
            return None, "the library was made of other sources"
        return (ctypes.CDLL(str(LIBRARIES / manifest["library"])), manifest["kernels"]), ""
    except OSError as error:
        return None, str(error)


def _is_made_of_sources(manifest: dict[str, Any]) -> bool:
    """Return whether a library was made of the sources of this package."""
    sources = kernel_sources(PACKAGE)
    if sources:
        # Edited comments change the bytes alone, and take longer to see.
        known: list[str] = manifest["sources"]
        return by_bytes(sources) == known[0] or by_syntax(sources) == known[1]
    from bvh import __version__

    # Without any, as in frozen programs, all of the package is of one version.
    return not has_sources(PACKAGE) and bool(manifest["version"] == __version__)
