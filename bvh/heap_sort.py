"""Heap sort: in memory that is given, as kernels must not allocate any that may be missing."""

from __future__ import annotations

from bvh.jit import kernel


@kernel
def sort_places(values, count, places):
    """Fill in the places of values in ascending order, by a heap; of equal ones, in any."""
    for k in range(count):
        places[k] = k
    for step in range(count // 2 - 1 + count):
        # First make a heap, from its end on; then take the largest off it, again and again.
        root, end = count // 2 - 1 - step, count
        if root < 0:
            end, root = count + root, 0
            places[0], places[end] = places[end], places[0]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[places[child]] < values[places[child + 1]]:
                child += 1
            if not values[places[root]] < values[places[child]]:
                break
            places[root], places[child] = places[child], places[root]
            root = child
