"""Locks between processes that would compile the same kernel."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bvh import kernel_locks
from bvh.kernel_locks import KernelLocks


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    """The second gets it when the first gives it up; no file is left."""
    first, second, path = KernelLocks(), KernelLocks(), tmp_path / "kernel.lock"
    assert first.take(path) and first.take(path)
    taken: list[bool] = []
    waiter = threading.Thread(target=lambda: taken.append(second.take(path)))
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    first.give_up(path)
    waiter.join(20)
    assert taken == [True]
    first.give_up(path)
    assert path.exists()
    second.give_up(path)
    assert not list(tmp_path.iterdir())


def test_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits too long goes on without."""
    monkeypatch.setattr(kernel_locks, "PATIENCE_SECONDS", 0.1)
    first, second, path = KernelLocks(), KernelLocks(), tmp_path / "kernel.lock"
    assert first.take(path)
    assert not second.take(path)
    second.give_up(path)
    assert path.exists()
    first.give_up(path)


def test_without_a_folder(tmp_path: Path) -> None:
    """Where no file can be made, there is no lock and no error."""
    assert not KernelLocks().take(tmp_path / "nowhere" / "kernel.lock")
