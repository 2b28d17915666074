"""Memory of a search for the closest pair of two trees, and tables of the addresses of its arrays.

Numba takes a quarter of a microsecond to unpack an array, so a query's forty arrays would take
longer than a search: kernels are given the addresses of their data instead, as arrays of int64.
Whoever calls a kernel keeps the arrays alive.

A pair of faces has a code, the first id times 2**32 plus the second; codes order pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, peek, pointer_to
from bvh.traversal.pairs.pair_frames import FLOATS, SIDE_SIZE, addresses, doubles_at
from bvh.traversal.pairs.pair_walk import PAIRS_STACK
from bvh.tree import rows as tree_rows
from bvh.tree.wide_nodes import MAX_LEAF_ROWS

# The most pairs of faces of two leaves.
MAX_KEYS = (MAX_LEAF_ROWS * WIDTH) ** 2
# Rows of lanes: of the boxes of a node's children, centres, three half axes, and two vectors of
# `near_pairs.in_frame`; and of a group of triangles (see `near_faces`).
BOX_ROWS, GROUP_ROWS = 18, 13
ROWS_SIZE = max(BOX_ROWS, GROUP_ROWS * (MAX_LEAF_ROWS + 1)) * WIDTH
# Capacity for candidates, pairs of faces that may be the closest, which are measured later.
CAPACITY = 512

# The state: the query's number; the stack's height (-1 before the query begins); the number of
# candidates; the code of the lowest pair that touches, or NO_PAIR; whether rational numbers have
# decided candidates; how many pairs of faces of two leaves are collected, but not yet tested; the
# code of the pair whose points are stored; whether lanes lowered the bound since the last test.
QUERY, HEIGHT, COUNT, CONTACT, DECIDED, LEFT, KEPT_PAIR, LOWERED, STATE_SIZE = range(9)
# Reals: the upper bound of the distance, and the scale of the pair's frame; the limit of distances;
# the distance of two vertices at which pairs of faces are nearest, NaN for none, and these two; the
# stored points; the errors of lower bounds in the pair's frame, of boxes and of faces.
BEST, SCALE, LIMIT, SHARED, VERTICES, POINTS = 0, 1, 2, 3, 4, 10
BOX_MARGIN, FACE_MARGIN, REALS = 16, 17, 18

# A candidate that is yet to be measured has this in place of an upper bound of its distance if
# only lanes have bounded it, and NaN if `closest_pairs` has tested it.
UNTESTED = -1.0
# Above all codes, as ids are below 2**30.
NO_PAIR = 2**62
LOW_BITS = 0xFFFFFFFF  # of a code or a name: those of the second face
MAX_ID = 2**31 - 1


class ClosestSearch(NamedTuple):
    """The state of a search, and its scratch; pointers inside kernels."""

    state: NDArray[np.int64]
    reals: NDArray[np.float64]
    sides: NDArray[np.float64]  # both, one after the other
    stack: NDArray[np.int64]
    floats: NDArray[np.float32]  # of the first side (see `pair_frames.set_floats`)
    floats2: NDArray[np.float32]
    rows: NDArray[np.float32]  # boxes or triangles of the second side, triangles of the first
    ends: NDArray[np.float64]  # where boxes or triangles end along the direction
    masks: NDArray[np.int64]  # lanes of the second leaf's groups that are near enough
    spare: NDArray[np.float64]  # one vector of keys
    keys: NDArray[np.float64]  # squared distances of the pairs to be pushed, or tested
    names: NDArray[np.int64]  # see `near_pairs.open_pair` and `near_faces.collect_faces`
    codes: NDArray[np.int64]  # candidates: pairs, and bounds of their distances
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    corners: NDArray[np.float64]  # (capacity, 6, 3), of those that are undecided


class SearchMemory(NamedTuple):
    """The arrays of a search, and their addresses."""

    search: ClosestSearch
    table: NDArray[np.int64]


class Closest(NamedTuple):
    """The pairs found; a query without one has inf, NaN and -1."""

    distance: NDArray[np.float64]
    position: NDArray[np.float64]  # (n, 2, 3)
    prim_id: NDArray[np.int32]  # (n, 2)


def new_search_memory() -> SearchMemory:
    """Return new arrays of a `ClosestSearch`, and the table of their addresses."""
    search = ClosestSearch(
        state=np.zeros(STATE_SIZE, np.int64), reals=np.zeros(REALS), sides=np.zeros(2 * SIDE_SIZE),
        stack=np.empty(PAIRS_STACK, np.int64), floats=np.zeros(FLOATS, np.float32),
        floats2=np.zeros(FLOATS, np.float32), rows=np.empty(ROWS_SIZE, np.float32),
        ends=np.empty(2 * MAX_LEAF_ROWS * WIDTH), masks=np.empty(MAX_LEAF_ROWS, np.int64),
        spare=np.empty(WIDTH), keys=np.empty(MAX_KEYS),
        names=np.empty(MAX_KEYS, np.int64), codes=np.empty(CAPACITY, np.int64),
        lows=np.empty(CAPACITY), highs=np.empty(CAPACITY), corners=np.empty((CAPACITY, 6, 3)),
    )  # fmt: skip
    return SearchMemory(search, addresses(*search))


def _reader_of(like):
    """Return a function of (table, i) that returns table[i] as a pointer to the type of `like`."""
    return inlined(lambda table, i: pointer_to(peek(table, i), like))


_singles, _ints, _longs = map(_reader_of, (tree_rows.F4, tree_rows.I4, tree_rows.I8))


@inlined
def search_at(table):
    """Return a `ClosestSearch` of pointers; `table` has an address for each field, in order."""
    return ClosestSearch(
        _longs(table, 0), doubles_at(table, 1), doubles_at(table, 2), _longs(table, 3),
        _singles(table, 4), _singles(table, 5), _singles(table, 6), doubles_at(table, 7),
        _longs(table, 8), doubles_at(table, 9), doubles_at(table, 10), _longs(table, 11),
        _longs(table, 12), doubles_at(table, 13), doubles_at(table, 14), doubles_at(table, 15),
    )  # fmt: skip


@inlined
def found_at(table):
    """Return a `Closest` of pointers; `table` has an address for each field, in order."""
    return Closest(doubles_at(table, 0), doubles_at(table, 1), _ints(table, 2))
