"""Folders of compiled kernels: a kernel is code that will run, so it must be ours."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bvh.runtime.cache.kernel_files import KernelFiles
from bvh.runtime.cache.kernel_folders import KernelFolder, Untrusted
from bvh.runtime.compiler import kernel_cache
from tests.children import answer, fork

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors and modes of POSIX")
root_only = pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="needs root")

ANOTHER = 12345

# A kernel that says so when it is loaded.
POISON = """
import hashlib, os, pickle
from pathlib import Path
class Poison:
    def __reduce__(self):
        return os.mkdir, ({mark!r},)
payload = pickle.dumps(Poison())
from bvh.runtime.compiler import kernel_cache
from bvh.runtime.cache.kernel_files import KernelFiles
folder = Path({folder!r}) / kernel_cache.fingerprint()
folder.mkdir(parents=True, mode=0o700)
poison = hashlib.sha256(payload).digest() + payload
name = KernelFiles._name
def poisoned(self, key):
    (folder / name(self, key)).write_bytes(poison)
    return name(self, key)
KernelFiles._name = poisoned
"""


@pytest.fixture
def folder(tmp_path: Path) -> KernelFolder:
    """Return a folder that is to be trusted, with a file in it."""
    (tmp_path / "root").mkdir(mode=0o700)
    made = KernelFolder(tmp_path / "root" / "kernels")
    made.make()
    made.write("kernel", b"code")
    return made


@pytest.mark.parametrize("setting", ["XDG_CACHE_HOME", "HOME"])
def test_a_relative_home_does_not_move(setting: str, tmp_path: Path) -> None:
    """Kernels in a folder that becomes the working directory are not loaded."""
    mark, before, later = tmp_path / "loaded", tmp_path / "before", tmp_path / "later"
    before.mkdir()
    below = "home" if setting == "XDG_CACHE_HOME" else "home/.cache"
    poison = POISON.format(mark=str(mark), folder=str(later / below / "raybvh"))
    script = f"""
import json, os, sys
os.chdir({str(before)!r})
import numpy as np
from bvh.tree.nodes import local_boxes
{poison}
os.chdir({str(later)!r})
local_boxes(np.zeros((1, 3)), np.ones((1, 3)), np.zeros((2, 3)))
folder = kernel_cache.cache_directory()
print(json.dumps({{"folder": str(folder), "kept": len(list(folder.glob("bvh.*")))}}))
"""
    settings: dict[str, Any] = {"BVH_CACHE_DIR": None, "XDG_CACHE_HOME": None, setting: "home"}
    result = answer(fork(script, **settings))
    assert not mark.exists()
    if sys.platform == "linux":
        assert result["folder"].startswith(str(before / below / "raybvh"))
    assert os.path.isabs(result["folder"]) and result["kept"] == 2


def test_a_relative_temporary_folder_does_not_move(tmp_path: Path) -> None:
    (tmp_path / "before" / "scrap").mkdir(parents=True)
    (tmp_path / "later" / "scrap").mkdir(parents=True)
    script = f"""
import json, os
os.chdir({str(tmp_path / "before")!r})
import bvh
os.chdir({str(tmp_path / "later")!r})
from bvh.runtime.cache.kernel_folders import temporary_root
print(json.dumps({{"folder": str(temporary_root().parent)}}))
"""
    assert answer(fork(script, TMPDIR="scrap"))["folder"] == str(tmp_path / "before" / "scrap")


def test_what_is_open_counts_not_its_name(folder: KernelFolder) -> None:
    """Somebody who can rename what is above puts another folder in its place."""
    assert folder.read("kernel") == b"code"
    folder.path.rename(folder.path.with_name("away"))
    folder.path.mkdir()
    (folder.path / "kernel").write_bytes(b"other")
    assert folder.read("kernel") == b"code"
    folder.write("second", b"more")
    assert not (folder.path / "second").exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_to(mode: int, folder: KernelFolder) -> None:
    """It counts as absent, in a folder that only we can write to, too."""
    store = KernelFiles(folder, "base")
    store.save("key", 1)
    [path] = [path for path in folder.path.iterdir() if path.name != "kernel"]
    path.chmod(mode)
    assert store.load("key") is None
    path.chmod(0o600)
    assert store.load("key") == 1


def test_a_folder_that_is_opened_to_others(folder: KernelFolder) -> None:
    """Also after it was opened: it is looked at each time."""
    assert folder.read("kernel") == b"code"
    folder.path.chmod(0o777)
    with pytest.raises(Untrusted, match="can be written to by others"):
        folder.read("kernel")
    folder.path.chmod(0o700)
    assert folder.read("kernel") == b"code"


@root_only
@pytest.mark.parametrize("what", ["root", "folder", "file"])
def test_what_belongs_to_another_user(what: str, folder: KernelFolder) -> None:
    place = {"root": folder.path.parent, "folder": folder.path, "file": folder.path / "kernel"}
    os.chown(place[what], ANOTHER, -1)
    folder.close()
    with pytest.raises(Untrusted, match="belongs to another user"):
        folder.read("kernel")


def test_files_that_are_none(folder: KernelFolder, tmp_path: Path) -> None:
    """A link leads elsewhere; nobody may ever write to a pipe."""
    (folder.path / "link").symlink_to(folder.path / "kernel")
    os.mkfifo(folder.path / "pipe")
    (folder.path / "below").mkdir()
    for name in ("link", "pipe", "below", "absent"):
        with pytest.raises(OSError):
            folder.read(name)


def test_links_to_folders(folder: KernelFolder, tmp_path: Path) -> None:
    """One's own may lead to another disk; where all may write, none is followed."""
    link = tmp_path / "link"
    link.symlink_to(folder.path.parent)
    assert KernelFolder(link / "kernels").read("kernel") == b"code"
    with pytest.raises(OSError):
        KernelFolder(link / "kernels", link=False).read("kernel")
    (folder.path.parent / "second").symlink_to(folder.path)
    with pytest.raises(OSError):
        KernelFolder(folder.path.with_name("second")).read("kernel")


@root_only
def test_the_link_of_another_user(folder: KernelFolder, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.path.parent)
    os.chown(link, ANOTHER, -1, follow_symlinks=False)
    with pytest.raises(Untrusted, match="another user's link"):
        KernelFolder(link / "kernels").read("kernel")


def test_no_link_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody could have made it."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "file").touch()
    monkeypatch.delenv("BVH_CACHE_DIR", raising=False)
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "below"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    link = tmp_path / "temporary" / f"raybvh-{os.getuid()}"
    link.symlink_to(tmp_path / "ours")
    assert kernel_cache.cache_folder.__wrapped__() is None
    assert not list((tmp_path / "ours").iterdir())
    link.unlink()
    assert kernel_cache.cache_folder.__wrapped__().path == link / kernel_cache.fingerprint()


def test_a_process_that_closes_all_files(folder: KernelFolder, tmp_path: Path) -> None:
    """A daemon does; the number of the descriptor is soon another folder's."""
    assert folder.read("kernel") == b"code"
    number = folder._descriptor
    assert number is not None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kernel").write_bytes(b"other")
    other = os.open(tmp_path / "other", os.O_RDONLY)
    try:
        os.dup2(other, number)
        assert folder.read("kernel") == b"code"
        assert os.fstat(number).st_ino == (tmp_path / "other").stat().st_ino
    finally:
        os.close(other)
        os.close(number)
