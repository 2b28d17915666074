"""Heap sort of indices in caller-provided memory: kernels must not allocate, which can fail."""

from __future__ import annotations

from bvh.runtime.jit import kernel


@kernel
def sort_indices(values, count, indices):
    """Fill in the indices that sort values in ascending order; equal ones are in any order."""
    for k in range(count):
        indices[k] = k
    for step in range(count // 2 - 1 + count):
        # First build a heap, from its end on; then take the largest off it, again and again.
        root, end = count // 2 - 1 - step, count
        if root < 0:
            end, root = count + root, 0
            indices[0], indices[end] = indices[end], indices[0]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[indices[child]] < values[indices[child + 1]]:
                child += 1
            if not values[indices[root]] < values[indices[child]]:
                break
            indices[root], indices[child] = indices[child], indices[root]
            root = child
