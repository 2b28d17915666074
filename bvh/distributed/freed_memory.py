"""Freed memory that a worker keeps for its next arrays, instead of returning it at once."""

import ctypes
import os

# Parameters of glibc's mallopt, and the largest block that may come from memory that is kept.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, LARGEST = -1, -3, 1 << 25


def keep_freed_memory(size: int) -> bool:
    """Have a process that Dask's nanny started keep so many bytes that are freed.

    The nanny sets MALLOC_TRIM_THRESHOLD_ to 64 kB, with which each array of some size is memory
    that the operating system has to clear first: a third of the time of casting rays. Return
    whether that was changed: not without glibc, nor in a process without this variable, where
    glibc adapts to what is asked for.
    """
    if size <= 0 or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    kept = mallopt(M_TRIM_THRESHOLD, min(size, 2**31 - 1))
    return bool(kept and mallopt(M_MMAP_THRESHOLD, min(size, LARGEST)))
