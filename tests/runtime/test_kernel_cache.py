"""The cache of compiled kernels: what fails lets others go on, and nothing unknown is kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.errors import TypingError

from bvh.runtime.cache import kernel_files
from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.calls.entries import entry
from bvh.runtime.compiler import kernel_cache
from bvh.runtime.jit import llvm_operation, notice

cached = pytest.mark.skipif(kernel_cache.cache_directory() is None, reason="needs a cache")


@llvm_operation
def interrupted(typingctx: Any) -> Any:
    raise KeyboardInterrupt


@entry
def _fails(x):  # type: ignore[no-untyped-def]
    return x.no_such_attribute


@entry
def _is_interrupted(x):  # type: ignore[no-untyped-def]
    return interrupted()


@entry
def _calls_what_fails(x):  # type: ignore[no-untyped-def]
    return _fails(x)


@entry
def _asks(function, x):  # type: ignore[no-untyped-def]
    return function(x)


@numba.njit
def _double(x):  # type: ignore[no-untyped-def]
    return 2.0 * x


@pytest.mark.parametrize(
    "kernel, error",
    [(_fails, TypingError), (_calls_what_fails, TypingError), (_is_interrupted, KeyboardInterrupt)],
)
def test_what_fails_to_compile_ends_the_notice(kernel: Any, error: type[BaseException]) -> None:
    for _ in range(2):
        with pytest.raises(error):
            kernel(1.5)
        assert not notice.busy


@cached
def test_kernels_of_functions_are_not_kept() -> None:
    assert _asks(_double, 1.5) == 3.0
    folder = kernel_cache.cache_directory()
    assert folder is not None and not list(folder.glob(f"*{_asks.__name__}*"))


def test_without_sources_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen program has none: kernels of its next version would be taken for these."""
    monkeypatch.setenv("BVH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path / "frozen" / "bvh")
    assert kernel_cache.cache_folder.__wrapped__() is None
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="POSIX says where home is")
def test_a_folder_stays_where_it_was_when_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any working directory later on; and ~ is a home."""
    monkeypatch.setattr("bvh.runtime.cache.plain_files._starting_folder", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for wanted, root in (("kernels", tmp_path / "kernels"), ("~/k", tmp_path / "home" / "k")):
        monkeypatch.setenv("BVH_CACHE_DIR", wanted)
        folder = kernel_cache.cache_folder.__wrapped__().path
        assert folder == root / kernel_cache.fingerprint() and folder.is_dir()


def test_files_of_other_versions_count_as_absent(tmp_path: Path) -> None:
    """A class that is not there any more is no error."""
    folder = KernelFolder(tmp_path)
    store = kernel_files.KernelFiles(folder, "kernel")
    payload = b"cno.such.module\nName\n."
    folder.write(store._name("key"), hashlib.sha256(payload).digest() + payload)
    assert store.load("key") is None
    store.save("key", 1)
    assert store.load("key") == 1
