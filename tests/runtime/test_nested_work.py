"""Work that is shared among threads and shares work in turn, on the same threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from bvh.runtime import threads
from bvh.runtime.threads import share, watch


def in_time(work: object, *arguments: object) -> None:
    """Call a function in a thread of its own; fail if it does not end."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive(), "it waits for ever"


def test_workers_wait_for_no_workers() -> None:
    """Each of the pool's threads runs what it shares itself, as all others may be waiting."""
    # Another test may have made it larger: all of them are taken.
    taken = max(threads._pool_size, 1) + 1
    found: list[list[int]] = []
    together = threading.Barrier(taken)

    def work(start: int, _: int) -> None:
        together.wait(60.0)
        calls = [lambda k=k: 10 * start + k for k in range(3)]
        found.append(watch(calls, 1, np.zeros(1, np.int32), lambda: None))

    in_time(share, taken, 1, work, taken)
    assert sorted(found) == [[10 * k, 10 * k + 1, 10 * k + 2] for k in range(taken)]


def test_errors_of_workers_are_raised() -> None:
    """They stop what was shared, and arrive where the work began."""
    cancel = np.zeros(1, np.int32)

    def fail() -> None:
        raise ValueError("of a worker")

    def inner() -> None:
        watch([fail, fail], 2, cancel)

    with pytest.raises(ValueError, match="of a worker"):
        watch([inner], 1, np.zeros(1, np.int32))
    assert cancel[0] == 1


def test_the_system_allows_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calling thread does all the work then, as in a container with a limit of threads."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads._Helper, "start", refuse)
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(threads, "_pool_size", 0)
    done: list[int] = []
    share(5, 1, lambda start, _: done.append(start), 4)
    assert done == [0, 1, 2, 3, 4]
    calls = [lambda k=k: k for k in range(3)]
    assert watch(calls, 4, np.zeros(1, np.int32)) == [0, 1, 2]
