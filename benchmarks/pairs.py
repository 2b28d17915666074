"""Pairs of rays and leaf groups that meet, and the filter of `bvh.leaves` on them.

No tree is walked: a ray is paired with all groups of all leaves whose boxes it enters, those behind
its nearest hit left out. So a pair is what every traversal has to test, whatever its order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.arguments import kernel_input
from bvh.jit import entry, inlined
from bvh.leaves import GROUP_SIZE, NORMAL, SIZE, TINY, TOLERANCE, test_distance, test_edges, three
from bvh.numerics import INF, vector
from bvh.primitives import is_ray
from bvh.quality import lanes_of, rows_of
from bvh.simd import WIDTH, fma, load, mask_bits, peek, splat
from bvh.traversal.block import (
    DIRECTION,
    EDGE,
    END,
    ENTRY,
    ENTRY_REST,
    FAR,
    INVERSE,
    LOW,
    NEAR,
    ORIGIN,
    SLACK,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    local_interval,
    new_block,
    place_of_double,
)
from bvh.traversal.entrance import set_up_ray

# Numbers of a ray, in the order of a block's rows.
ROWS = 32


class Pairs(NamedTuple):
    """Rays as leaves see them, and the groups that each of them meets.

    Attributes
    ----------
    rows : ndarray of float32, shape (rays, ROWS)
        A block's rows of each ray (see `traversal.block`); END is that of the box.
    entries : ndarray of float64, shape (rays,)
        Where each ray enters the box.
    ends : ndarray of float32, shape (rays,)
        END once the nearest hit is known.
    rays, groups : ndarray of int64, shape (pairs,)
    """

    rows: NDArray[np.float32]
    entries: NDArray[np.float64]
    ends: NDArray[np.float32]
    rays: NDArray[np.int64]
    groups: NDArray[np.int64]


def pairs_of(
    tree: bvh.BVH, origins: NDArray[np.float64], directions: NDArray[np.float64], t_max: float
) -> Pairs:
    """Return the pairs of rays with a tree over triangles."""
    arrays, count = tree.arrays, len(origins)
    rows, entries = np.zeros((count, ROWS), np.float32), np.zeros(count)
    ends = np.full(count, -np.inf, np.float32)
    hits = tree.closest_hit(origins, directions, 0.0, t_max)
    rays = kernel_input(origins), kernel_input(directions)
    _prepare(new_block(), arrays.frame, *rays, t_max, hits.t, rows, entries, ends)
    view = lanes_of(arrays.nodes.blocks)
    boxes = np.ascontiguousarray(np.moveaxis(view.boxes, 1, 2)[view.leaf])
    leaves = boxes, *rows_of(view.codes[view.leaf])
    none = np.empty((0, 2), np.int64)
    pairs = np.empty((_meet(rows, ends, *leaves, none), 2), np.int64)
    _meet(rows, ends, *leaves, pairs)
    return Pairs(rows, entries, ends, *np.ascontiguousarray(pairs.T))


@entry
def _prepare(block, frame, origins, directions, t_max, t, rows, entries, ends):
    """Fill in the rows of all rays; one that misses the box has none."""
    for i in range(len(rows)):
        o, d = vector(origins, i), vector(directions, i)
        if not (is_ray(o, d, 0.0, t_max) and set_up_ray(block, frame, 0, o, d, 0.0, t_max)):
            continue
        for row in range(ROWS):
            rows[i, row] = block.lanes[row * WIDTH]
        doubles = block.doubles
        entries[i] = doubles[place_of_double(0, ENTRY)] + doubles[place_of_double(0, ENTRY_REST)]
        ends[i] = rows[i, END]
        if t[i] < INF:
            _, high = local_interval(block, 0, t[i])
            ends[i] = min(ends[i], high)


@entry
def _meet(rows, ends, boxes, first, count, pairs):
    """Return how many pairs there are; write them down where there is room."""
    found = 0
    for i in range(len(rows)):
        if ends[i] == -INF:
            continue
        for leaf in range(len(boxes)):
            start, stop = np.float64(rows[i, LOW]), np.float64(ends[i])
            for axis in range(3):
                inverse = np.float64(rows[i, INVERSE + axis])
                back = 3 if inverse < 0.0 else 0
                start = max(start, boxes[leaf, axis + back] * inverse + rows[i, NEAR + axis])
                stop = min(stop, boxes[leaf, axis + 3 - back] * inverse + rows[i, FAR + axis])
            if start <= stop:
                for group in range(first[leaf], first[leaf] + count[leaf]):
                    if found < len(pairs):
                        pairs[found, 0], pairs[found, 1] = i, group
                    found += 1
    return found


@inlined
def _spread(rows, at):
    return splat(peek(rows, at), WIDTH)


@inlined
def _spread_three(rows, at):
    return _spread(rows, at), _spread(rows, at + 1), _spread(rows, at + 2)


@inlined
def filtered(rows, ray, end, groups, group):
    """Return the lanes of a group that ray may hit up to `end`, and those it surely hits, as bits.

    What `traversal.leaf_tests` does with `bvh.leaves`, apart from keeping the best.
    """
    at, row = group * GROUP_SIZE, ray * ROWS
    n = three(groups, at + NORMAL * WIDTH)
    maybe, passes, c, den = test_edges(
        _spread_three(rows, row + ORIGIN),
        _spread_three(rows, row + DIRECTION),
        three(groups, at),
        three(groups, at + 3 * WIDTH),
        three(groups, at + 6 * WIDTH),
        n,
        _spread(rows, row + EDGE) * load(groups, at + TOLERANCE * WIDTH, WIDTH),
    )
    if mask_bits(maybe) == 0:
        return np.int64(0), np.int64(0)
    size = load(groups, at + SIZE * WIDTH, WIDTH)
    within, t, room = test_distance(
        c,
        den,
        _spread(rows, row + LOW),
        splat(end, WIDTH),
        n,
        fma(_spread(rows, row + T_ERROR), size, splat(TINY, WIDTH)),
    )
    bits = mask_bits(maybe & within)
    if bits == 0:
        return np.int64(0), np.int64(0)
    room = room + _spread(rows, row + SLACK)
    low, high = _spread(rows, row + SURE_LOW), _spread(rows, row + SURE_HIGH)
    return bits, bits & mask_bits(passes & (t - room >= low) & (t + room <= high))
