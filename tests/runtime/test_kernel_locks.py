"""Locks between processes that would compile the same kernel."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from bvh.runtime.cache import kernel_files, plain_files
from bvh.runtime.cache.kernel_files import KernelLocks
from bvh.runtime.cache.kernel_folders import KernelFolder

NAME = "kernel.lock"


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    """The second gets it when the first gives it up; no file is left."""
    first, second, folder = KernelLocks(), KernelLocks(), KernelFolder(tmp_path)
    path = tmp_path / NAME
    assert first.take(folder, NAME) and first.take(folder, NAME)
    taken: list[bool] = []
    waiter = threading.Thread(target=lambda: taken.append(second.take(folder, NAME)))
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    first.release(folder, NAME)
    waiter.join(20)
    assert taken == [True]
    first.release(folder, NAME)
    assert path.exists()
    second.release(folder, NAME)
    assert not list(tmp_path.iterdir())


def test_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has waited too long goes on without the lock."""
    monkeypatch.setattr(kernel_files, "PATIENCE_SECONDS", 0.1)
    first, second, folder = KernelLocks(), KernelLocks(), KernelFolder(tmp_path)
    path = tmp_path / NAME
    assert first.take(folder, NAME)
    assert not second.take(folder, NAME)
    second.release(folder, NAME)
    assert path.exists()
    first.release(folder, NAME)


def test_without_a_folder(tmp_path: Path) -> None:
    """Where no file can be made, there is no lock and no error."""
    assert not KernelLocks().take(KernelFolder(tmp_path / "nowhere"), NAME)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody to wait for: network disks may know no locks at all."""

    def refuse(file: int) -> None:
        raise OSError(number, os.strerror(number))

    waits: list[float] = []
    monkeypatch.setattr(plain_files, "_lock", refuse)
    monkeypatch.setattr(kernel_files, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr("time.sleep", waits.append)
    assert not KernelLocks().take(KernelFolder(tmp_path), NAME) and not waits


def test_patience_ends_where_files_change_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may number its files anew whenever it is asked."""
    monkeypatch.setattr(kernel_files, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(KernelFolder, "is_file", lambda folder, file, name: False)
    assert not KernelLocks().take(KernelFolder(tmp_path), NAME)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    """The lock is its parent's: the child gives nothing up, and does not keep it for ever."""
    first, second, folder = KernelLocks(), KernelLocks(), KernelFolder(tmp_path)
    path = tmp_path / NAME
    assert first.take(folder, NAME)
    go_on, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        first.release(folder, NAME)
        os.write(told[1], b"1" if path.exists() else b"0")
        os.read(go_on[0], 1)
        os._exit(0)
    try:
        assert os.read(told[0], 1) == b"1"
        # As a process does that is killed: nobody unlocks, nobody removes the file.
        os.close(first._files.pop(path))
        assert second.take(folder, NAME)
        second.release(folder, NAME)
    finally:
        os.write(go_on[1], b"1")
        os.waitpid(child, 0)
        for end in (*go_on, *told):
            os.close(end)
