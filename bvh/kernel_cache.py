"""The disk cache of compiled kernels.

Numba's own cache looks only at the file of the function it stores, so a kernel would go stale when
a helper in another file changes. Here the cache folder is named by a hash of everything that a
kernel's machine code depends on: its sources, Numba, llvmlite, Python and the CPU. Where any of
them changes, a new folder is started, and several processes can fill one folder at once: each
compiled kernel is one file, written under a temporary name and moved into place, and what one
process compiles the others wait for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import caching, codegen, serialize
from numba.core import config as _config

from bvh.kernel_locks import KernelLocks
from bvh.kernel_sources import kernel_sources

# Numba's inside is untyped; what we use of it: its types, settings and the cache of a function.
types: Any = numba.types
config: Any = _config
FunctionCache: Any = caching.FunctionCache
get_host_cpu_features: Callable[[], str] = codegen.get_host_cpu_features
dumps: Callable[[object], bytes] = serialize.dumps

PACKAGE = Path(__file__).parent
STALE_AFTER_DAYS = 30

_locks = KernelLocks()


class BVHWarning(UserWarning):
    """Something worth knowing that is not an error."""


def host_features() -> dict[str, bool]:
    """The CPU features that kernels are compiled for, as Numba tells LLVM.

    They are the host's, less AVX with ``NUMBA_ENABLE_AVX=0``; ``NUMBA_CPU_FEATURES`` overrides
    them, and ``NUMBA_CPU_NAME=generic`` leaves none. Another ``NUMBA_CPU_NAME`` changes nothing.
    """
    told = config.CPU_FEATURES
    names = (get_host_cpu_features() if told is None else told).split(",")
    return {name.strip("+- "): name.strip().startswith("+") for name in names if name}


@lru_cache(maxsize=1)
def _sources(package: Path) -> list[Path]:
    return kernel_sources(package)


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Hash of all that compiled kernels depend on: sources, Numba, llvmlite, Python, CPU."""
    digest = hashlib.sha256()
    for path in _sources(PACKAGE):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    cpu = config.CPU_NAME or llvm.get_host_cpu_name()
    features = sorted(name for name, present in host_features().items() if present)
    names = ("BOUNDSCHECK", "DEBUGINFO", "OPT")
    settings = [f"{name}={getattr(config, name, '')}" for name in names]
    # Kernels of another width are other kernels.
    settings.append(f"BVH_WIDTH={os.environ.get('BVH_WIDTH', '')}")
    versions = numba.__version__, llvmlite.__version__, sys.version
    for part in (*versions, cpu, *features, *settings):
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
    folder: Path | None = None
    for root in _cache_roots(wanted):
        folder = root / fingerprint()
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            # One by one: the mode of `mkdir` is for the last folder only.
            root.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_private(folder) and _is_writable(folder):
                break
        except OSError:
            continue
    else:
        folder = None
    if wanted and (folder is None or folder.parent != _given(wanted)):
        warnings.warn(
            f"BVH_CACHE_DIR={wanted} cannot be used: it must be a folder that only its owner can "
            f"write to; kernels are kept in {folder or 'memory only'}",
            BVHWarning,
            stacklevel=2,
        )
    if folder is not None:
        _touch(folder)
    return folder


def _cache_roots(wanted: str) -> list[Path]:
    roots = [_given(wanted)] if wanted else []
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base and not base.startswith("~"):
        roots.append(Path(base) / "raybvh")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    roots.append(Path(tempfile.gettempdir()) / f"raybvh-{user}")
    return roots


def _given(wanted: str) -> Path:
    """Return the folder of a setting, wherever the process goes later."""
    return Path(os.path.abspath(os.path.expanduser(wanted)))


def _is_private(folder: Path) -> bool:
    """Refuse a folder that someone else could fill: a cached kernel is code that we will run."""
    if not hasattr(os, "getuid"):
        return True
    for path in (folder, folder.parent):
        status = path.stat()
        if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def _is_writable(folder: Path) -> bool:
    # A filled folder on a read-only disk still serves; an empty one is useless.
    return os.access(folder, os.W_OK) or any(folder.iterdir())


def _touch(folder: Path) -> None:
    """Note that a folder is in use; a read-only one is never pruned anyway."""
    with contextlib.suppress(OSError):
        os.utime(folder)


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


class KernelFiles:
    """One file per compiled signature: a digest, then the pickled machine code.

    Takes the place of Numba's index file, whose numbering two processes can tear apart.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder = folder
        self._base = base

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}"

    def claim(self, key: object) -> None:
        """Wait for whoever is about to store something under `key`; then it is up to us."""
        _locks.take(self._lock(key))

    def give_up(self, key: object) -> None:
        """Let others store under `key`."""
        _locks.give_up(self._lock(key))

    def _lock(self, key: object) -> Path:
        path = self._path(key)
        return path.with_name(path.name + ".lock")

    def load(self, key: object) -> Any:
        """Return what `save` stored under `key`, or None when it is absent or damaged."""
        try:
            blob = self._path(key).read_bytes()
            digest, payload = blob[:32], blob[32:]
            if hashlib.sha256(payload).digest() != digest:
                return None
            return pickle.loads(payload)
        except (OSError, pickle.UnpicklingError, EOFError):
            return None

    def save(self, key: object, data: object) -> None:
        """Store `data` under `key` in one atomic step."""
        payload = dumps(data)
        file = tempfile.NamedTemporaryFile(dir=self._folder, delete=False)  # noqa: SIM115
        # A full disk, or a file that Windows holds in use: keep nothing, and compile next time.
        with contextlib.suppress(OSError):
            with file:
                file.write(hashlib.sha256(payload).digest() + payload)
            os.replace(file.name, self._path(key))
            return
        with contextlib.suppress(OSError):
            os.unlink(file.name)

    def flush(self) -> None:
        for file in self._folder.glob(f"{self._base}.*"):
            file.unlink(missing_ok=True)


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
        folder = cache_directory()
        assert folder is not None
        base = f"{py_func.__module__}.{self._impl.filename_base}"
        self._cache_file = KernelFiles(folder, base)
        # Of each compilation under way, innermost last: the key that is ours meanwhile, if any.
        self._claimed: list[object] = []

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # A user's function is known by its place in memory, where the next process has another.
        kept = self._enabled and not _holds_function(sig)
        found = super().load_overload(sig, target_context) if kept else None
        if found is not None:
            return found
        self._claimed.append(None)
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
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if not _holds_function(sig):
                self._save_overload(sig, data)
        except OSError:
            self.disable()
        finally:
            self._ended()

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
        if key is not None:
            self._cache_file.give_up(key)


def _holds_function(kinds: Any) -> bool:
    """Tell whether there is a compiled function among argument types, or in a tuple of them."""
    return any(
        isinstance(kind, types.Dispatcher)
        or (isinstance(kind, types.BaseTuple) and _holds_function(kind))
        for kind in kinds
    )
