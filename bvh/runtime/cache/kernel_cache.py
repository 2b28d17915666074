"""The disk cache of compiled kernels, with the interface of Numba's caches.

Numba's own cache looks only at the file of the function that it stores, so a kernel would go stale
when a helper in another file changes. Here the cache folder is named by the fingerprint of the
kernels (`fingerprint`), which all machines of one level of CPUs share. Several processes may
fill a folder at once: each compiled kernel is one file, and what one process compiles the others
wait for. Before anything is compiled, folders that somebody else has filled are searched: those
that ``BVH_KERNELS`` names, and the package ``raybvh_kernels``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from bvh.runtime import forks
from bvh.runtime.cache.fingerprint import PACKAGE, fingerprint, kernel_sources
from bvh.runtime.cache.kernel_files import BVHWarning, KernelFiles, refuse
from bvh.runtime.cache.kernel_folders import KernelFolder, Untrusted
from bvh.runtime.compiler.code_generator import kernel_context, target
from bvh.runtime.compiler.compile_notice import CompileNotice
from bvh.runtime.starting_folder import absolute

__all__ = ["BVHWarning", "fingerprint"]

# Numba's inside is untyped.
types: Any = numba.types
FunctionCache: Any = caching.FunctionCache

STALE_AFTER_DAYS = 30

# Imported for what it does at a fork.
assert forks

notice = CompileNotice()


class Tally:
    """Number of kernels that this process has compiled, and loaded."""

    compiled = 0
    loaded = 0


tally = Tally()


@lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """Return the folder of this version's compiled kernels, or None if no folder can be used.

    It is the first that its owner alone can write to, of: ``$BVH_CACHE_DIR``, the user's cache
    folder, a private folder in the system's temporary folder. ``BVH_CACHE_DIR=off`` keeps kernels
    in memory only. So does a package without its sources, as in frozen programs, because the
    fingerprint of its next version would be the same.
    """
    wanted = os.environ.get("BVH_CACHE_DIR", "")
    if wanted.lower() == "off" or not kernel_sources(PACKAGE):
        return None
    found: Path | None = None
    for root in _cache_roots(wanted):
        folder = _folder(root / fingerprint())
        with contextlib.suppress(OSError):
            folder.make()
            if folder.is_usable():
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
    """Return `cache_directory` as a `KernelFolder`, or None."""
    path = cache_directory()
    return None if path is None else _folder(path)


def _folder(path: Path) -> KernelFolder:
    # In a folder that everyone can write to, a link may be anyone's.
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
    paths = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    relative = [absolute(path) for path in paths if path and not os.path.isabs(path)]
    usable = (path for path in relative if os.access(path, os.W_OK))
    folder = next(usable, None) or absolute(tempfile.gettempdir())
    return folder / f"raybvh-{user}"


@lru_cache(maxsize=1)
def kernel_shelves() -> tuple[KernelFolder, ...]:
    """Return the folders that are searched, but not written to, before a kernel is compiled.

    They are those in ``$BVH_KERNELS``, which must belong to the user or root and be writable by
    nobody else, and the folder of the package ``raybvh_kernels``, trusted as any package that can
    be imported. ``BVH_KERNELS=off`` searches none. Folders that are missing, or hold no kernels of
    this version, are skipped.
    """
    wanted = os.environ.get("BVH_KERNELS", "")
    if wanted.lower() == "off" or not kernel_sources(PACKAGE):
        return ()
    shelves = [
        KernelFolder(absolute(root) / fingerprint()) for root in wanted.split(os.pathsep) if root
    ]
    with contextlib.suppress(ImportError, ValueError):
        # Not what is in the working directory: that may be anybody's by now.
        paths = [path for path in sys.path if os.path.isabs(path)]
        package = importlib.machinery.PathFinder.find_spec("raybvh_kernels", paths)
        for root in (package and package.submodule_search_locations) or ():
            shelves.append(KernelFolder(Path(root) / fingerprint(), checked=False))
    return tuple(filter(_has_files, shelves))


def _has_files(shelf: KernelFolder) -> bool:
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
        # Only folders that are named by a fingerprint.
        if folder == current or not re.fullmatch("[0-9a-f]{20}", folder.name):
            continue
        # Another process may be pruning, too, or the disk be read-only.
        with contextlib.suppress(OSError):
            files = list(folder.iterdir())
            if max(f.stat().st_mtime for f in [folder, *files]) < oldest:
                for file in files:
                    file.unlink(missing_ok=True)
                folder.rmdir()
                removed.append(folder)
    return removed


class _Locator:
    """Where Numba's cache keeps kernels, whatever the state of the source tree."""

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
    """Numba's function cache on `KernelFiles`; where the disk fails, nothing is saved."""

    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._function = py_func.__name__.strip("_")
        base = f"{py_func.__module__}.{self._impl.filename_base}"
        self._cache_file = KernelFiles(cache_folder(), base, kernel_shelves())
        # Of each compilation under way, innermost last: the key that it has locked, or None.
        self._claimed: list[object] = []

    def _index_key(self, sig: Any, codegen: Any) -> object:
        # The CPU is part of the folder's name.
        kind, _, function = super()._index_key(sig, codegen)
        return kind, function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # The dispatcher passes Numba's context, not that of kernels.
        target_context = kernel_context()
        # A user's function is identified by its address, which differs in each process.
        kept = self._enabled and not _has_function(sig)
        found = super().load_overload(sig, target_context) if kept else None
        if found is None:
            self._claimed.append(None)
            notice.begin(self._line(kept))
            if kept:
                # Compile it, unless another process is doing so or has just done so.
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
            if not _has_function(sig):
                self._save_overload(sig, data)
        except OSError:
            self.disable()
        finally:
            self._ended()

    def _line(self, kept: bool) -> str:
        """Return the text of the notice."""
        what = f"bvh: compiling {self._function} for {target().level}, up to half a minute"
        if kept and cache_folder() is not None:
            return f"{what}, this once; `bvh warmup` compiles all kernels ahead"
        return f"{what}, in each process that needs it"

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiler so that it unlocks the kernel if it fails or is interrupted."""

        def attempt(*arguments: Any) -> Any:
            # Searching all of Numba for garbage takes a tenth of the time.
            collecting = gc.isenabled()
            gc.disable()
            try:
                return compiling(*arguments)
            except BaseException:
                self._ended()
                raise
            finally:
                if collecting:
                    gc.enable()

        return attempt

    def _ended(self) -> None:
        """End the innermost compilation and unlock its kernel."""
        key = self._claimed.pop()
        notice.end()
        if key is not None:
            self._cache_file.release(key)


def _has_function(kinds: Any) -> bool:
    """Return whether argument types contain a compiled function, also inside tuples."""
    return any(
        isinstance(kind, types.Dispatcher)
        or (isinstance(kind, types.BaseTuple) and _has_function(kind))
        for kind in kinds
    )


class LateCache:
    """A `KernelCache` that is made when its function is first compiled or loaded.

    To make it takes the fingerprint and a search for folders, which an import need not wait for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def real(self) -> Any:
        """The cache itself."""
        return KernelCache(self._function)

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiler as `KernelCache.attempted` does."""

        def attempt(*arguments: Any) -> Any:
            return self.real.attempted(compiling)(*arguments)

        return attempt

    def __getattr__(self, name: str) -> Any:
        if name in ("real", "_function"):
            raise AttributeError(name)
        return getattr(self.real, name)
