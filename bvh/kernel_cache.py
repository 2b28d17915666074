"""The disk cache of compiled kernels.

Numba's own cache looks only at the file of the function it stores, so a kernel would go stale when
a helper in another file changes. Here the cache folder is named by a hash of everything that a
kernel's machine code depends on: its sources, Numba, llvmlite, Python, the platform, and the level
of CPUs that it is compiled for; so all machines of a level share it. Where any of them changes, a
new folder is started, and several processes can fill one folder at once: each compiled kernel is
one file, written under a temporary name and moved into place, and what one process compiles the
others wait for. Before anything is compiled, folders that somebody else has filled are looked into:
those that ``BVH_KERNELS`` names, and the package ``raybvh_kernels``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import caching
from numba.core import config as _config

from bvh import forks
from bvh.code_generator import host_features, kernel_context, target
from bvh.compile_notice import CompileNotice
from bvh.cpu_levels import NATIVE, natural_width
from bvh.kernel_files import BVHWarning, KernelFiles, refuse
from bvh.kernel_folders import KernelFolder, Untrusted
from bvh.kernel_sources import kernel_sources
from bvh.starting_folder import absolute

__all__ = ["BVHWarning"]

# Numba's inside is untyped; what we use of it: its types, settings and the cache of a function.
types: Any = numba.types
config: Any = _config
FunctionCache: Any = caching.FunctionCache

PACKAGE = Path(__file__).parent
STALE_AFTER_DAYS = 30

# Imported for what it does at a fork.
assert forks

notice = CompileNotice()


class Tally:
    """How many kernels this process has compiled, and how many it has loaded."""

    compiled = 0
    loaded = 0


tally = Tally()


@lru_cache(maxsize=1)
def _sources(package: Path) -> list[Path]:
    return kernel_sources(package)


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Hash of all that compiled kernels depend on, of this machine its platform and level only."""
    digest = hashlib.sha256()
    for path in _sources(PACKAGE):
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


@lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """Folder of this version's compiled kernels, or None when no folder can be used.

    The first that can be written, and by its owner alone, of: ``$BVH_CACHE_DIR``, the user's cache
    folder, a private folder in the system's temporary folder. ``BVH_CACHE_DIR=off`` keeps kernels
    in memory only; so does a package without its sources, as in frozen programs, because nothing
    would tell the kernels of its next version from those of this one.
    """
    wanted = os.environ.get("BVH_CACHE_DIR", "")
    if wanted.lower() == "off" or not _sources(PACKAGE):
        return None
    found: Path | None = None
    for root in _cache_roots(wanted):
        folder = _folder(root / fingerprint())
        with contextlib.suppress(OSError):
            folder.make()
            if folder.serves():
                found = folder.path
                folder.touch()
        folder.close()
        if found is not None:
            break
    if wanted and (found is None or found.parent != absolute(wanted)):
        warnings.warn(
            f"BVH_CACHE_DIR={wanted} cannot be used: it must be a folder that only its owner can "
            f"write to; kernels are kept in {found or 'memory only'}",
            BVHWarning,
            stacklevel=2,
        )
    return found


@lru_cache(maxsize=1)
def cache_folder() -> KernelFolder | None:
    """Return `cache_directory`, to be opened; None when there is none."""
    path = cache_directory()
    return None if path is None else _folder(path)


def _folder(path: Path) -> KernelFolder:
    # In a folder where all may write, a link may be anybody's.
    return KernelFolder(path, link=path.parent != _temporary_root())


def _cache_roots(wanted: str) -> list[Path]:
    roots = [absolute(wanted)] if wanted else []
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base and not base.startswith("~"):
        roots.append(absolute(base) / "raybvh")
    roots.append(_temporary_root())
    return roots


def _temporary_root() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    # `tempfile` would look for a relative one in the folder where the process is by now.
    told = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    places = [absolute(place) for place in told if place and not os.path.isabs(place)]
    usable = (place for place in places if os.access(place, os.W_OK))
    folder = next(usable, None) or absolute(tempfile.gettempdir())
    return folder / f"raybvh-{user}"


@lru_cache(maxsize=1)
def kernel_shelves() -> tuple[KernelFolder, ...]:
    """Folders filled by others in which kernels are looked for before they are compiled.

    Those in ``$BVH_KERNELS``, where only their owner may be able to write, you or root; and that of
    the package ``raybvh_kernels``, which is trusted as whatever can be imported is.
    ``BVH_KERNELS=off`` looks into none. A folder that is missing, or has no kernels of this
    version, is no error.
    """
    told = os.environ.get("BVH_KERNELS", "")
    if told.lower() == "off" or not _sources(PACKAGE):
        return ()
    found = [
        KernelFolder(absolute(root) / fingerprint()) for root in told.split(os.pathsep) if root
    ]
    with contextlib.suppress(ImportError, ValueError):
        # Not what is in the working directory: that may be anybody's by now.
        places = [place for place in sys.path if os.path.isabs(place)]
        package = importlib.machinery.PathFinder.find_spec("raybvh_kernels", places)
        for root in (package and package.submodule_search_locations) or ():
            found.append(KernelFolder(Path(root) / fingerprint(), checked=False))
    return tuple(filter(_is_there, found))


def _is_there(shelf: KernelFolder) -> bool:
    try:
        return bool(shelf.names())
    except Untrusted as error:
        refuse(error)
    except OSError:
        pass
    return False


def prune_cache() -> list[Path]:
    """Remove kernels of other versions that have not been used for 30 days; return their paths."""
    current = cache_directory()
    removed: list[Path] = []
    if current is None:
        return removed
    oldest = time.time() - STALE_AFTER_DAYS * 86400
    for folder in sorted(current.parent.iterdir()):
        # Touch nothing but what `fingerprint` has named.
        if folder == current or not re.fullmatch("[0-9a-f]{20}", folder.name):
            continue
        # Another process may be at it, too, or the disk read-only.
        with contextlib.suppress(OSError):
            files = list(folder.iterdir())
            if max(f.stat().st_mtime for f in [folder, *files]) < oldest:
                for file in files:
                    file.unlink(missing_ok=True)
                folder.rmdir()
                removed.append(folder)
    return removed


class _Locator:
    """Tells Numba's cache where kernels live, whatever the state of the source tree."""

    def __init__(self, py_func: Any) -> None:
        self._py_file = py_func.__code__.co_filename
        self._lineno = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return fingerprint()

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    def ensure_cache_path(self) -> None:
        """Do nothing: `cache_directory` has made the folder."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes: Any = (_Locator,)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's function cache on our folder and files; a disk that fails costs only the saving."""

    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._function = py_func.__name__.strip("_")
        base = f"{py_func.__module__}.{self._impl.filename_base}"
        self._cache_file = KernelFiles(cache_folder(), base, kernel_shelves())
        # Of each compilation under way, innermost last: the key that is ours meanwhile, if any.
        self._claimed: list[object] = []

    def _index_key(self, sig: Any, codegen: Any) -> object:
        # Not the CPU: that is in the name of the folder.
        kind, _, function = super()._index_key(sig, codegen)
        return kind, function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Ours, not Numba's, which the dispatcher hands over.
        target_context = kernel_context()
        # A user's function is known by its place in memory, where the next process has another.
        kept = self._enabled and not _holds_function(sig)
        found = super().load_overload(sig, target_context) if kept else None
        if found is None:
            self._claimed.append(None)
            notice.begin(self._line(kept))
            if kept:
                # We compile it, unless another process is at it or has just done so.
                self._claimed[-1] = key = self._index_key(sig, target_context.codegen())
                try:
                    self._cache_file.claim(key)
                    found = super().load_overload(sig, target_context)
                except BaseException:
                    self._ended()
                    raise
                if found is not None:
                    self._ended()
        if found is not None:
            tally.loaded += 1
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        tally.compiled += 1
        try:
            if not _holds_function(sig):
                self._save_overload(sig, data)
        except OSError:
            self.disable()
        finally:
            self._ended()

    def _line(self, kept: bool) -> str:
        """Return what is said to whoever waits."""
        what = f"bvh: compiling {self._function} for {target().level}, up to half a minute"
        if kept and cache_folder() is not None:
            return f"{what}, this once; `bvh warmup` compiles all kernels ahead"
        return f"{what}, in each process that needs it"

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Return what compiles, and lets other processes go on where it fails or is interrupted."""

        def attempt(*arguments: Any) -> Any:
            try:
                return compiling(*arguments)
            except BaseException:
                self._ended()
                raise

        return attempt

    def _ended(self) -> None:
        """Let others have what was claimed for the compilation that ends."""
        key = self._claimed.pop()
        notice.end()
        if key is not None:
            self._cache_file.give_up(key)


def _holds_function(kinds: Any) -> bool:
    """Tell whether there is a compiled function among argument types, or in a tuple of them."""
    return any(
        isinstance(kind, types.Dispatcher)
        or (isinstance(kind, types.BaseTuple) and _holds_function(kind))
        for kind in kinds
    )
