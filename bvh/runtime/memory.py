"""Memory of arrays: aligned, mapped where it is large, reused; scratch of threads."""

import contextlib
import mmap
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scratch = TypeVar("Scratch")

# Size in bytes from which an array has a map of its own (see `new_bytes`). The system clears pages
# of a new map, but not memory that is used again: maps of smaller arrays would slow down builds.
# glibc maps arrays of this size or more in any case.
LARGE = 1 << 25
# The same for arrays of which a small part is used. In the heap they would leave much free memory
# at its end, which glibc gives back to the system after each build.
SPARSE = 1 << 23
_CAN_MAP = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")


def new_bytes(size: int, least: int = LARGE) -> NDArray[np.uint8]:
    """Return an uninitialised array of bytes; one of `least` bytes or more is mapped memory."""
    if size < least or not _CAN_MAP:
        return np.empty(size, np.uint8)
    try:
        # A forked child does not share it.
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError(f"no memory for {size} bytes") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Ask for huge pages, as numpy does for large arrays; some systems refuse.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def reused(array: NDArray[Any], count: int, dtype: Any) -> NDArray[Any]:
    """Return an array as `aligned` does, in the memory of `array` if it is mapped and large enough.

    The numbers of `array` are then lost, and pages that the new one does not need go back to the
    system.
    """
    size, base = count * np.dtype(dtype).itemsize, array
    while isinstance(base, np.ndarray):
        base = base.base  # type: ignore[assignment]
    memory = base.obj if isinstance(base, memoryview) else base
    can_free = isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")
    if size > array.nbytes or not can_free:
        return aligned(count, dtype)
    # The array begins less than 64 bytes after the map.
    end = -(-(size + 64) // mmap.PAGESIZE) * mmap.PAGESIZE
    if end < len(memory):
        with contextlib.suppress(OSError):  # some systems refuse, as for locked pages
            memory.madvise(mmap.MADV_DONTNEED, end, len(memory) - end)
    return array.reshape(-1).view(np.uint8)[:size].view(dtype)


def aligned(count: int, dtype: Any, least: int = LARGE) -> NDArray[Any]:
    """Return an uninitialised array of `count` numbers that begins on a cache line, of 64 bytes.

    One of `least` bytes or more is mapped memory.
    """
    size = count * np.dtype(dtype).itemsize
    raw = new_bytes(size + 64, least)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size].view(dtype)


class Shelf(Generic[Scratch]):
    """Pool of scratch memory; each piece is used by one thread at a time."""

    def __init__(self, make: Callable[[], Scratch]) -> None:
        self._make = make  # called for a new piece when none is free
        self._free: list[Scratch] = []

    def take(self) -> Scratch:
        """Return scratch memory for one thread, which may give it back for reuse."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give_back(self, scratch: Scratch) -> None:
        """Take back what `take` returned."""
        self._free.append(scratch)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """Yield scratch memory for one thread; after an exception it is not used again."""
        scratch = self.take()
        yield scratch
        self.give_back(scratch)

    def pieces(self) -> list[Scratch]:
        """Return all pieces that were given back, for use after the threads' work."""
        return self._free
