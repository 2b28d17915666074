"""Kernels linked ahead of time: the library in the package, if it has one for this CPU.

A wheel carries a library for each level of CPUs, and a manifest: for which entry and
which arguments each function is, and of which sources it was made. A package without them, or with
other sources, compiles its kernels. ``BVH_KERNELS=off`` makes any package do so, and
``BVH_KERNELS=linked`` raises an error where no library can be used.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bvh.runtime.cache.kernel_sources import PACKAGE, by_bytes, by_syntax, kernel_sources
from bvh.runtime.compiler.cpu_levels import chosen_target, natural_width

LIBRARIES = PACKAGE / "linked"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


class Specialisation(NamedTuple):
    """A kernel for arguments of one structure: a function of words (see `words`)."""

    structure: str  # see `words.structure_of`
    address: int
    results: tuple[str, ...]  # their structures
    in_tuple: bool  # whether they are returned in a tuple
    compiled: object = None  # owner of the machine code, if it is not linked


class Library(NamedTuple):
    """The library for this CPU, and what its manifest says of its functions."""

    code: ctypes.CDLL
    kernels: dict[str, Any]  # (symbol, results, in_tuple) by names of entries, then by structures
    methods: dict[str, str]  # symbols by the names of methods and their modules

    def address(self, symbol: str) -> int:
        """Return the address of a function of the library."""
        return ctypes.cast(getattr(self.code, symbol), ctypes.c_void_p).value or 0


def linked_kernel(entry: str, structure: str) -> Specialisation | None:
    """Return the linked kernel of the entry named `entry` for arguments of a structure, or None."""
    library = _library()
    if library is None or structure not in library.kernels.get(entry, ()):
        return None
    symbol, results, in_tuple = library.kernels[entry][structure]
    return Specialisation(structure, library.address(symbol), tuple(results), in_tuple)


def linked_method(function: Callable[..., Any]) -> int:
    """Return the address of the linked method made from a function; 0 if there is none."""
    library = _library()
    name = f"{function.__module__}.{method_name(function)}"
    if library is None or name not in library.methods:
        return 0
    return library.address(library.methods[name])


def method_name(function: Callable[..., Any]) -> str:
    """Return a method's name in manifests: its own, and the names of classes it closes over."""
    cells = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
    classes = (cell.__name__ for cell in cells if isinstance(cell, type))
    return "_".join((function.__name__, *classes))


@lru_cache(maxsize=1)
def _library() -> Library | None:
    """Return the library; None if there is none, or BVH_KERNELS is off."""
    setting = os.environ.get("BVH_KERNELS", "").lower()
    if setting not in ("", "off", "linked"):
        raise ValueError(f"BVH_KERNELS must be off or linked, got {setting!r}")
    if setting == "off":
        return None
    cpu = chosen_target()
    try:
        manifest = json.loads((LIBRARIES / f"{cpu.level}.json").read_bytes())
        if manifest["width"] != (width := natural_width(cpu)):
            raise OSError(f"the library is for BVH_WIDTH={manifest['width']}, not {width}")
        if not _is_made_of_sources(manifest):
            raise OSError("the library was made of other sources")
        code = ctypes.CDLL(str(LIBRARIES / f"{cpu.level}{SUFFIX}"))
    except OSError as error:
        if setting == "linked":
            raise ValueError(f"BVH_KERNELS=linked: {error}") from None
        return None
    return Library(code, manifest["kernels"], manifest["methods"])


def _is_made_of_sources(manifest: dict[str, Any]) -> bool:
    """Return whether a library was made of the sources of this package."""
    names = manifest["sources"]
    if not (PACKAGE / names[0]).exists():
        # A frozen program has no sources; all files of its package are of one version.
        return bool(manifest["version"] == sys.modules["bvh"].__version__)
    sources = kernel_sources(PACKAGE, names)
    # Edits of comments change the bytes, but not the syntax, which takes longer to hash.
    same = by_bytes(sources) == manifest["bytes"] or by_syntax(sources) == manifest["syntax"]
    return bool(sources) and same
