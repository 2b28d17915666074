"""The disk cache of compiled kernels, with the interface of Numba's caches.

Numba's own cache looks only at the file of the function that it stores, so a kernel would go stale
when a helper in another file changes. Here the cache folder is named by the fingerprint of the
kernels, a hash of all that their machine code depends on: the syntax of the sources, versions and
settings, and the level of CPUs. Folders also store the exact fingerprint, a hash of the sources'
bytes, which is computed faster. Several processes may fill a folder at the same time: each compiled
kernel is one file.
"""

import contextlib
import gc
import hashlib
import importlib.machinery
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from bvh.runtime.cache.head_start import wait_for
from bvh.runtime.cache.kernel_files import KernelFiles, dumps, helpers
from bvh.runtime.cache.kernel_folders import KernelFolder, cache_roots, version_folder
from bvh.runtime.cache.kernel_sources import PACKAGE, by_bytes, by_syntax, kernel_sources
from bvh.runtime.cache.plain_files import absolute
from bvh.runtime.caller_warnings import warn_caller
from bvh.runtime.compiler import cpu_levels
from bvh.runtime.compiler.compile_notice import notice
from bvh.runtime.compiler.deferred import activate, real_of
from bvh.runtime.compiler.lazy_modules import types

# Names of folders of kernels.
VERSION = re.compile("[0-9a-f]{20}")
STALE_AFTER_DAYS = 30

# Numbers of kernels that this process has compiled and loaded.
tally = SimpleNamespace(compiled=0, loaded=0)


def exact_fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' bytes, of versions and settings, and of the level of CPUs."""
    return by_bytes(sources, _surroundings())


def fingerprint_of(sources: Mapping[str, bytes]) -> str:
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
    if cpu.level == cpu_levels.NATIVE:
        features = cpu_levels.parsed(cpu.features)
        cpus += [cpu.cpu, *sorted(filter(features.get, features))]
    # SVML is a library that vectorized mathematics may call, where it is installed.
    names = ("BOUNDSCHECK", "DEBUGINFO", "OPT", "USING_SVML")
    settings = [f"{name}={getattr(config, name, '')}" for name in names]
    settings.append(f"width={cpu_levels.natural_width(cpu_levels.chosen_target())}")
    return *versions, *kind, *cpus, *settings


class KernelVersion(NamedTuple):
    """Fingerprints of the kernels."""

    exact: str  # `exact_fingerprint`; empty if the sources are unknown
    fingerprint: str
    noted: bool = False  # whether a folder of kernels has the note

    @property
    def note(self) -> str:
        """The name of the note, a file in a folder that is known to be for these sources."""
        return f"sources-{self.exact}"

    def remember(self, folder: KernelFolder) -> None:
        """Write the note into the folder, so that no other process parses the sources again."""
        if not self.noted:
            with contextlib.suppress(OSError):
                folder.write(self.note, self.fingerprint.encode())


@cpu_levels.cached_for_target
def version_of(package: Path) -> KernelVersion:
    """Return the version of a package's kernels."""
    # If a folder has the note of the sources, its name is the fingerprint: nothing is parsed then.
    sources = kernel_sources(package)
    if not sources:
        return KernelVersion("", fingerprint_of(sources))
    exact = KernelVersion(exact_fingerprint(sources), "")
    setting = os.environ.get("BVH_CACHE_DIR", "")
    for root in () if setting.lower() == "off" else cache_roots(setting):
        for name in _noted(root, exact.note):
            return exact._replace(fingerprint=name, noted=True)
    with no_collection():
        return exact._replace(fingerprint=fingerprint_of(sources))


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


def _noted(root: Path, note: str) -> Iterator[str]:
    """Yield the names of folders in `root` that have the file `note`, if both are trusted."""
    # The content of the note must be the name of its folder.
    with contextlib.suppress(OSError):
        for name in filter(VERSION.fullmatch, os.listdir(root)):
            if os.path.lexists(root / name / note):
                folder = version_folder(root, name)
                with contextlib.closing(folder):
                    is_noted = folder.read(note) == name.encode()
                if is_noted:
                    yield name


def fingerprint() -> str:
    """Return the name of the folders of this version's kernels."""
    return version_of(PACKAGE).fingerprint


def cache_directory() -> Path | None:
    """Return the folder of this version's compiled kernels, or None if no folder can be used.

    It is the first of these folders that only its owner can write to: ``$BVH_CACHE_DIR``, the
    user's cache folder, a private folder in the system's temporary folder. Kernels are kept in
    memory only with ``BVH_CACHE_DIR=off``, if the package has no sources, as in frozen programs
    (then the next version would have the same fingerprint), or if it was edited after its import.
    """
    folder = cache_folder()
    return None if folder is None else folder.path


@cpu_levels.cached_for_target
def cache_folder() -> KernelFolder | None:
    """Return `cache_directory` as a `KernelFolder`, or None."""
    setting = os.environ.get("BVH_CACHE_DIR", "")
    if setting.lower() == "off" or not version_of(PACKAGE).exact:
        return None
    folders = (version_folder(root, fingerprint()) for root in cache_roots(setting))
    found = next((folder for folder in folders if folder.prepare()), None)
    if setting and (found is None or found.path.parent != absolute(setting)):
        warn_caller(
            f"BVH_CACHE_DIR={setting} cannot be used: it must be a folder that only its owner can "
            f"write to; kernels are stored in {found.path if found else 'memory only'}"
        )
    if found is not None:
        version_of(PACKAGE).remember(found)
    return found


def prune_cache() -> list[Path]:
    """Remove kernels of other versions that have not been used for 30 days; return their paths."""
    current = cache_directory()
    removed: list[Path] = []
    if current is None:
        return removed
    oldest = time.time() - STALE_AFTER_DAYS * 86400
    for folder in sorted(current.parent.iterdir()):
        if folder == current or not VERSION.fullmatch(folder.name):
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


class KernelCache:
    """The cache of one entry on `KernelFiles`; where the disk fails, nothing is saved."""

    cache_path = None

    def __init__(self, function: Any, kinds: Any, choose_compiler: Callable[[], object]) -> None:
        """Take the function, by whose name kernels are stored, and the types of its arguments.

        `kinds` are these types, or None if signatures have them (that of a function of words is an
        address). `choose_compiler` is `dispatchers.own_pipelines`.
        """
        self._function, self._kinds, self._choose_compiler = function, kinds, choose_compiler
        self._name = re.sub("[<>]", "", f"{function.__module__}.{function.__qualname__}")
        self._enabled = True

    def flush(self) -> None:
        """Do nothing: kernels are never compiled again."""

    def _files(self) -> KernelFiles:
        """Return the files of the function's kernels, in the folder of this version."""
        return KernelFiles(cache_folder(), self._name)

    def _key(self, signature: Any) -> object:
        """Return the key of a kernel among all of one function name and version, if it is stored.

        None for kernels of users' functions, which no other process knows by a name.
        """
        if not self._enabled or _has_function(self._kinds or signature):
            return None
        # Functions of one name, as of a factory, differ in instructions or enclosed values. For
        # deferred functions among these, the real ones count.
        closure = tuple(real_of(cell.cell_contents) for cell in self._function.__closure__ or ())
        parts = repr(instructions(self._function.__code__)).encode(), dumps(closure)
        return signature, self._kinds, tuple(hashlib.sha256(part).hexdigest() for part in parts)

    def _load(self, key: object) -> Any:
        """Return the kernel stored under a key as a result of Numba's compiler; None if absent."""
        from numba.core import compiler

        from bvh.runtime.compiler.code_generator import kernel_context

        if key is None:
            return None
        context = kernel_context()
        context.refresh()
        stored = self._files().load(key)
        return None if stored is None else compiler.CompileResult._rebuild(context, *stored)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a kernel from the cache; None, and begin a notice, if it must be compiled.

        `target_context` is Numba's, and unused: kernels have one of their own.
        """
        key = self._key(signature)
        found = self._load(key)
        if found is None and self._choose_compiler() is None:
            # The choice, made once in a process, is Numba's own compiler, which has another target
            # and so another folder: look there, too.
            found = self._load(key)
        if found is None:
            # The kernel will be compiled: find and store its helpers in the folder.
            helpers.use_folder(cache_folder())
            is_stored = key is not None and cache_folder() is not None
            notice.begin(self._line(is_stored))
            found = self._compiled_elsewhere(key) if is_stored else None
        if found is not None:
            tally.loaded += 1
        return found

    def _compiled_elsewhere(self, key: object) -> Any:
        """Wait if another process is compiling the function; return the kernel, or None.

        The notice has begun; it ends unless this process must compile the kernel.
        """
        try:
            found = self._load(key) if wait_for(self._name) else None
        except BaseException:
            notice.end()
            raise
        if found is not None:
            notice.end()
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store a kernel that has been compiled, and end the notice."""
        tally.compiled += 1
        try:
            key = self._key(signature)
            # A kernel with addresses among its constants is of no use to another process.
            if key is not None and not result.library.has_dynamic_globals:
                self._files().save(key, result._reduce())
        except OSError:
            self._enabled = False
        finally:
            notice.end()

    def _line(self, is_stored: bool) -> str:
        """Return the text of the notice; `is_stored` is whether the kernel will be stored."""
        from bvh.runtime.compiler.code_generator import target

        what = "stored for later; `bvh warmup` compiles all"
        what = what if is_stored else "in each process that needs it"
        return f"bvh: compiling for {target().level}, {what}"

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Return a compiler that ends the notice if `compiling` fails or is interrupted."""

        def attempt(*arguments: Any) -> Any:
            try:
                with no_collection():
                    return compiling(*arguments)
            except BaseException:
                notice.end()
                raise

        return attempt


def _has_function(kinds: Any) -> bool:
    """Return whether argument types contain a compiled function, also inside tuples."""
    nested = (_has_function(kind) for kind in kinds if isinstance(kind, types.BaseTuple))
    return any(isinstance(kind, types.Dispatcher) for kind in kinds) or any(nested)


def instructions(code: CodeType) -> tuple[object, ...]:
    """Return the meaning of a function: its instructions, names and constants, without texts."""
    constants = (
        instructions(value) if isinstance(value, CodeType) else value
        for value in code.co_consts
        if not isinstance(value, str)
    )
    return code.co_code, code.co_names, code.co_varnames, *constants
