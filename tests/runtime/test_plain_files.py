"""Files and folders that are opened without following links."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.cache.plain_files import lock_file, open_plain

NEW = os.O_RDWR | os.O_CREAT


@pytest.mark.parametrize("make", [os.symlink, os.link, getattr(os, "mkfifo", None)])
def test_what_is_written_to_has_no_other_name(make: Any, tmp_path: Path) -> None:
    """A pipe is not waited for."""
    (tmp_path / "precious").write_text("precious")
    if make is None:
        pytest.skip("needs pipes")
    paths = (
        (tmp_path / "name",)
        if "fifo" in make.__name__
        else (tmp_path / "precious", tmp_path / "name")
    )
    make(*paths)
    with pytest.raises(OSError):
        open_plain(tmp_path / "name", NEW)
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    os.symlink(tmp_path / "real", tmp_path / "link")
    folder = KernelFolder(tmp_path / "link")
    with pytest.raises(OSError):
        folder.names()
    folder.remove("file")
    assert KernelFolder(tmp_path / "real").names() == ["file"]


def test_a_folder_that_gets_another_name(tmp_path: Path) -> None:
    """It is the one that was opened, whatever has its name now."""
    (tmp_path / "one").mkdir()
    folder = KernelFolder(tmp_path / "one")
    assert folder.names() == []
    (tmp_path / "one").rename(tmp_path / "two")
    (tmp_path / "one").mkdir()
    os.close(folder.open("file", NEW))
    assert os.listdir(tmp_path / "two") == ["file"] and not os.listdir(tmp_path / "one")
    folder.close()


def test_locks(tmp_path: Path) -> None:
    first, second = (open_plain(tmp_path / "file", NEW) for _ in range(2))
    assert lock_file(first) and not lock_file(second)
    os.close(first)
    assert lock_file(second)
    os.close(second)
