"""Distance of two trees for one plain transform: one call of the kernel, with little around it.

The kernel is that of batches, and so are the answers. It is called only after a batch has compiled
it.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from bvh.queries.answers.clearances import Clearances
from bvh.queries.answers.result_bases import filler
from bvh.queries.batches import distance_batches
from bvh.queries.batches.distance_batches import decide, table_of
from bvh.runtime.threads import Shelf
from bvh.traversal.overlaps.closest_pairs import DONE, UNDECIDED
from bvh.traversal.overlaps.distance_memory import HEIGHT, QUERY, addresses, new_search_memory
from bvh.traversal.overlaps.near_pairs import STEPS
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import count_of

AFFINE = [0.0, 0.0, 0.0, 1.0]
STILL = addresses(None, None, None)


class OneDistance:
    """One query, and what is written about it, as the kernel takes them: tables of addresses."""

    def __init__(self) -> None:
        self.kept, self.search = new_search_memory()
        matrix, self.limit, self.hint = np.zeros(16), np.zeros(1), np.zeros(1, np.int64)
        self.matrix, self.motions = matrix.reshape(4, 4), addresses(None, None, matrix)
        distance, self.position = np.zeros(1), np.zeros((2, 3))
        self.prim_id = np.zeros(2, np.int32)
        self.found = addresses(distance, self.position, self.prim_id)
        # Items of these are read and written sooner than those of arrays.
        self.state: Any = self.kept.state.data
        self.numbers: Any = self.limit.data
        self.code: Any = self.hint.data
        self.distance: Any = distance.data


SHELF, clearances_of = Shelf(OneDistance), filler(Clearances)


def closest_pair(
    arrays: TreeArrays, others: TreeArrays, transform: Any, limit: Any, hint: Any
) -> Clearances | None:
    """Return the distance of two trees over triangles; None where more must be done for it."""
    run = distance_batches.KERNEL
    code = _code(hint, arrays, others)
    if run is None or code is None or type(limit) is not float or not limit >= 0.0:
        return None
    if transform is not None:
        if type(transform) is not np.ndarray or transform.shape != (4, 4):
            return None
        if transform.dtype.char != "d":
            return None
        x, y, z, last = transform.tolist()
        if last != AFFINE or not isfinite(sum(x) + sum(y) + sum(z)):
            return None
    one = SHELF.take()
    motions = STILL
    if transform is not None:
        one.matrix[...] = transform
        motions = one.motions
    one.numbers[0], one.code[0] = limit, code
    one.state[QUERY], one.state[HEIGHT] = 0, -1
    own, other, status = table_of(arrays, 1), table_of(others, 1), -1
    while status != DONE:
        status = run(
            own[0], other[0], motions, one.limit, one.hint, one.search, 1, STEPS, one.found
        )
        if status == UNDECIDED:
            decide(one.kept)
    near = clearances_of((one.distance[0], one.position.copy(), one.prim_id.copy()))
    SHELF.give_back(one)
    return near


def _code(hint: Any, arrays: TreeArrays, others: TreeArrays) -> int | None:
    """Return a hint as the code of a pair, -1 for none; None where it must be looked at."""
    if hint is None:
        return -1
    pair = hint.prim_id if type(hint) is Clearances else hint
    if type(pair) is not np.ndarray or pair.shape != (2,) or pair.dtype.kind != "i":
        return None
    i, j = pair.tolist()
    if 0 <= i < count_of(arrays.primitives) and 0 <= j < count_of(others.primitives):
        return int(i << 32 | j)
    return -1 if i == j == -1 else None
