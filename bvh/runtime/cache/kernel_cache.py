"""The disk cache of compiled kernels, with the interface of Numba's caches.

Numba's own cache looks only at the file of the function that it stores, so a kernel would go stale
when a helper in another file changes. Here the cache folder is named by the fingerprint of the
kernels (`fingerprint`), which all machines of one level of CPUs share. Several processes may
fill a folder at the same time: each compiled kernel is one file, and other processes wait for the
kernel that one is compiling.
"""

import contextlib
import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

from bvh.runtime.cache.fingerprint import VERSION, no_collection, version_of
from bvh.runtime.cache.kernel_files import KernelFiles, dumps, helpers
from bvh.runtime.cache.kernel_folders import KernelFolder, cache_roots, version_folder
from bvh.runtime.cache.kernel_sources import PACKAGE
from bvh.runtime.cache.starting_folder import absolute
from bvh.runtime.caller_warnings import BVHWarning
from bvh.runtime.compiler.compile_notice import notice
from bvh.runtime.compiler.cpu_levels import known_of_target
from bvh.runtime.compiler.deferred import real_of
from bvh.runtime.compiler.lazy_modules import types

__all__ = ["fingerprint", "notice"]

STALE_AFTER_DAYS = 30

# Numbers of kernels that this process has compiled and loaded.
tally = SimpleNamespace(compiled=0, loaded=0)


def fingerprint() -> str:
    """Return the name of the folders of this version's kernels."""
    return version_of(PACKAGE).fingerprint


def cache_directory() -> Path | None:
    """Return the folder of this version's compiled kernels, or None if no folder can be used.

    It is the first that its owner alone can write to, of: ``$BVH_CACHE_DIR``, the user's cache
    folder, a private folder in the system's temporary folder. ``BVH_CACHE_DIR=off`` keeps kernels
    in memory only. So does a package without its sources, as in frozen programs, because the
    fingerprint of its next version would be the same; and one that was edited after its import.
    """
    folder = cache_folder()
    return None if folder is None else folder.path


@known_of_target
def cache_folder() -> KernelFolder | None:
    """Return `cache_directory` as a `KernelFolder`, or None."""
    wanted = os.environ.get("BVH_CACHE_DIR", "")
    if wanted.lower() == "off" or not version_of(PACKAGE).exact:
        return None
    folders = (version_folder(root, fingerprint()) for root in cache_roots(wanted))
    found = next((folder for folder in folders if folder.prepare()), None)
    if wanted and (found is None or found.path.parent != absolute(wanted)):
        warnings.warn(
            f"BVH_CACHE_DIR={wanted} cannot be used: it must be a folder that only its owner can "
            f"write to; kernels are kept in {found.path if found else 'memory only'}",
            BVHWarning,
            stacklevel=2,
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
    """The cache of one entry on `KernelFiles`; where the disk fails, nothing is saved.

    The fingerprint and the folders are found when the function is first compiled or loaded: an
    import need not wait for them.
    """

    def __init__(self, function: Callable[..., Any], kinds: Any = None) -> None:
        # `kinds` are the types of the arguments, if the signature does not tell them (that of a
        # function of words is an address).
        self._function, self._kinds = function, kinds
        self._enabled = True
        # Of each compilation under way, innermost last: the key that it has locked, or None.
        self._claimed: list[object] = []

    cache_path = None

    def flush(self) -> None:
        """Do nothing: kernels are never compiled again."""

    @property
    def _files(self) -> KernelFiles:
        function: Any = self._function
        name = re.sub("[<>]", "", f"{function.__module__}.{function.__qualname__}")
        return KernelFiles(cache_folder(), name)

    def _key(self, signature: Any) -> object:
        """Return the key of a compiled function among those of one name and fingerprint."""
        function: Any = self._function
        closure = tuple(real_of(cell.cell_contents) for cell in function.__closure__ or ())
        parts = repr(instructions(function.__code__)).encode(), dumps(closure)
        return signature, self._kinds, tuple(hashlib.sha256(part).hexdigest() for part in parts)

    def _load(self, key: object) -> Any:
        """Return the kernel stored under a key, as Numba's compiler would; None if it is absent."""
        from numba.core import compiler

        from bvh.runtime.compiler.code_generator import kernel_context

        context = kernel_context()
        context.refresh()
        stored = self._files.load(key)
        return None if stored is None else compiler.CompileResult._rebuild(context, *stored)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        # Kernels of users' functions are not cached: no other process knows these by a name.
        kept = self._enabled and not _has_function(self._kinds or signature)
        key = self._key(signature) if kept else None
        found = self._load(key) if kept else None
        if found is None:
            from bvh.runtime.compiler.pipelines import own_pipelines

            # This decides the compiler. If it is Numba's own, the target and the folder are others.
            own_pipelines()
            self._claimed.append(key)
            notice.begin(self._line(kept))
            try:
                if kept:
                    # Compile it, unless another process is doing so or has just done so.
                    self._files.claim(key)
                    found = self._load(key)
                if found is None:
                    helpers.search(cache_folder())
            except BaseException:
                self._ended()
                raise
            if found is not None:
                self._ended()
        if found is not None:
            tally.loaded += 1
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        tally.compiled += 1
        try:
            kept = self._enabled and not _has_function(self._kinds or signature)
            # A kernel with addresses among its constants is of no use to another process.
            if kept and not result.library.has_dynamic_globals:
                self._files.save(self._key(signature), result._reduce())
        except OSError:
            self._enabled = False
        finally:
            self._ended()

    def _line(self, kept: bool) -> str:
        """Return the text of the notice; `kept` is whether the kernel is cached."""
        from bvh.runtime.compiler.code_generator import target

        # Short enough for a terminal, which would break it inside of the level.
        what = f"bvh: compiling for {target().level}"
        if kept and cache_folder() is not None:
            return f"{what}, kept for later; `bvh warmup` compiles all"
        return f"{what}, in each process that needs it"

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiler so that it unlocks the kernel if it fails or is interrupted."""

        def attempt(*arguments: Any) -> Any:
            try:
                with no_collection():
                    return compiling(*arguments)
            except BaseException:
                self._ended()
                raise

        return attempt

    def _ended(self) -> None:
        """End the innermost compilation and unlock its kernel."""
        key = self._claimed.pop()
        notice.end()
        if key is not None:
            self._files.release(key)


def _has_function(kinds: Any) -> bool:
    """Return whether argument types contain a compiled function, also inside tuples."""
    return any(
        isinstance(kind, types.Dispatcher)
        or (isinstance(kind, types.BaseTuple) and _has_function(kind))
        for kind in kinds
    )


def instructions(code: CodeType) -> tuple[object, ...]:
    """Return what a function does: its instructions, names and constants, without texts."""
    constants = (
        instructions(value) if isinstance(value, CodeType) else value
        for value in code.co_consts
        if not isinstance(value, str)
    )
    return code.co_code, code.co_names, code.co_varnames, *constants
