"""Large arrays: memory that the system has back as soon as an array ends, or has done its work.

What is freed otherwise may stay with the process: an allocator keeps blocks of up to tens of
megabytes for the next ones, and a build frees more than the tree that it leaves.
"""

import contextlib
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes from which an array is large. The pages of a new map are cleared, those of memory that is
# used again are not: for smaller arrays that takes too large a part of a build.
LARGE = 1 << 23
_CAN_MAP = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")


def new_bytes(size: int) -> NDArray[np.uint8]:
    """Return an array of bytes; a large one has a map of its own, and begins on a page."""
    if size < LARGE or not _CAN_MAP:
        return np.empty(size, np.uint8)
    try:
        # A forked child does not share it.
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError(f"no memory for {size} bytes") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # As numpy asks for large arrays; some systems refuse.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def discard(array: NDArray[Any]) -> None:
    """Give back the memory of an array from here whose numbers are not needed any more."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    memory = base.obj if isinstance(base, memoryview) else base
    if isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED)
