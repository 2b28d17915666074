"""Where kernels are kept on Windows and macOS, in processes that believe to be there.

What is missing on a system is taken away; what only it has stands in for that. The machine code is
this system's: that it is right on another, only a machine of that kind can show.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bvh.runtime.cache.kernel_folders import cache_roots
from tests.children import answer, fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stands in for other systems")

# The standard library and dependencies are imported before, as they are of this system.
COMMON = """
import json, os, shutil, subprocess, sys, tempfile, types, numba, numpy as np
"""
WINDOWS = """
import errno, fcntl
def locking(file, mode, count):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
sys.modules |= {"fcntl": None, "resource": None, "msvcrt": types.ModuleType("msvcrt")}
sys.modules["msvcrt"].__dict__.update(LK_NBLCK=2, locking=locking)
for name in (
    "getuid", "geteuid", "fork", "register_at_fork", "sched_getaffinity", "O_NOFOLLOW",
    "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY",
):
    delattr(os, name)
os.supports_dir_fd = set()
sys.platform = "win32"
"""
MACOS = """
for name in ("sched_getaffinity", "sched_setaffinity"):
    delattr(os, name)
sys.platform = "darwin"
"""
ASK = """
from bvh.geometry.planes import ray_plane
from bvh.runtime import threads
from bvh.runtime.cache import plain_files
from bvh.runtime.compiler import kernel_cache
from bvh.runtime.cache.kernel_folders import KernelFolder
hit = ray_plane([0.2, 0.2, 1.0], [0.0, 0.0, -1.0], [0.0, 0.0, 1.0], 0.0)
folder = kernel_cache.cache_folder()
lock = os.O_RDWR | os.O_CREAT
first, second = (folder.open("some.lock", lock) for _ in range(2))
taken = [plain_files.lock_file(file) for file in (first, second)]
os.close(first)
taken.append(plain_files.lock_file(second))
os.close(second)
folder.remove("some.lock")
print(json.dumps({
    "t": float(hit.t), "folder": str(folder.path), "taken": taken, "files": folder.names(),
    **vars(kernel_cache.tally),
}))
"""

WITHOUT = {"BVH_CACHE_DIR": None, "BVH_KERNELS": None, "XDG_CACHE_HOME": None}


def asked(system: str, **settings: Any) -> dict[str, Any]:
    """Ask a ray on a system, and for the folder of kernels, twice; return the second answer."""
    script = COMMON + system + ASK
    first, second = (answer(fork(script, **WITHOUT | settings)) for _ in range(2))
    assert first["t"] == second["t"] and (first["loaded"], second["compiled"]) == (0, 0)
    assert first["compiled"] == second["loaded"] == 2
    assert second["taken"] == [True, False, True]
    return second


def test_windows(tmp_path: Path) -> None:
    """Neither descriptors of folders, nor owners, nor fcntl."""
    found = asked(WINDOWS, LOCALAPPDATA=tmp_path, USERNAME="somebody")
    assert Path(found["folder"]).parent == tmp_path / "raybvh"
    kinds = sorted({name.partition(".")[0].partition("-")[0] for name in found["files"]})
    assert kinds == ["bvh", "helpers", "sources"]


def test_windows_without_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary folder, by the user's name."""
    for name, value in {"LOCALAPPDATA": "", "USERNAME": "somebody", "TMPDIR": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delattr(os, "getuid")
    assert cache_roots("") == [tmp_path / "raybvh-somebody"]


@pytest.mark.long
def test_macos(tmp_path: Path) -> None:
    """The user's caches are in another place; there is no affinity."""
    found = asked(MACOS, HOME=tmp_path)
    assert Path(found["folder"]).parent == tmp_path / "Library" / "Caches" / "raybvh"
