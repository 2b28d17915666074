"""Large arrays: where they begin, what forks share, and what is given back."""

from __future__ import annotations

import os

import numpy as np
import pytest

from bvh.runtime.memory import LARGE, aligned, reused
from bvh.runtime.threads import copied


@pytest.mark.parametrize("size", [0, 1, LARGE // 8 - 9, LARGE // 8, LARGE // 4])
def test_arrays_begin_on_a_cache_line(size: int) -> None:
    """Of any size; they can be written, and used again."""
    array = aligned(size, np.float64)
    assert (array.shape, array.dtype, array.flags.writeable) == ((size,), np.float64, True)
    assert array.ctypes.data % 64 == 0 or size == 0
    array[:] = 1.0
    for again in (reused(array.reshape(1, -1), size // 2, np.int16), reused(array, size + 1, "f8")):
        assert again.ctypes.data % 64 == 0 or again.size == 0
        again[:] = 2
    assert again.shape == (size + 1,)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="sizes of Linux")
def test_memory_is_given_back() -> None:
    """What is not used again, and all when an array ends."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    array = aligned(4 * LARGE, np.uint8)
    array[:] = 1
    assert resident() - before > 3 * LARGE
    array = reused(array, LARGE // 8, np.float64)
    assert resident() - before < 2 * LARGE
    assert (array.view(np.uint8) == 1).all()
    del array
    assert resident() - before < LARGE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_does_not_share_them() -> None:
    """Lines that the child writes."""
    array = aligned(LARGE, np.uint8)
    array[:] = 1
    child = os.fork()
    if child == 0:
        array[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1).all()


def test_no_memory() -> None:
    """More than any system has."""
    with pytest.raises(MemoryError):
        aligned(1 << 60, np.uint8)


@pytest.mark.parametrize("threads", [1, 2])
def test_copies_of_broadcast_rows(threads: int) -> None:
    """Of any strides, types and lengths of rows."""
    rows = np.arange(24.0).reshape(4, 6)
    views = [
        np.broadcast_to(rows[:, None, :3], (4, 5, 3)), np.broadcast_to(rows[0, ::2], (7, 3)),
        rows[:, ::-1], rows.T, rows[:, :0], rows[:0], rows[0], rows.astype(">f8"),
        np.broadcast_to(rows[:, None], (4, 50, 6)).astype(np.float32), rows.repeat(4, axis=1),
    ]  # fmt: skip
    for view in views:
        copy = copied(view, threads)
        assert copy.flags.c_contiguous and copy.dtype == np.float64 and copy.flags.owndata
        np.testing.assert_array_equal(copy, view)
        assert copy.shape == view.shape
