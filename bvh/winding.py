"""What a tree's nodes look like from far away: the terms of fast winding numbers.

The winding number of a surface at q is the sum of the solid angles of its faces over 4 pi. Seen
from far, the faces of a node are a few numbers: with area vectors a n about the centre c of their
areas, N = sum(a n), T = sum((x - c) (a n)^T) over their centroids x, and r = c - q,

    4 pi w = N . r / |r|**3 + trace(T) / |r|**3 - 3 r . T r / |r|**5 + ...,

whose next term is of the order (radius / |r|)**2 of the first (Barill, Dickson, Schmidt, Levin and
Jacobson 2018, "Fast winding numbers for soups and clouds").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input
from bvh.jit import entry, inlined
from bvh.nearest import cross, minus
from bvh.numerics import power_of_two
from bvh.primitives import corners
from bvh.simd import WIDTH, peek, peek_int
from bvh.wide_nodes import BLOCK_SIZE, CODES, LOWER, UPPER, leaf_rows

# Rows of a node's terms, a lane a child: centre, the square of the radius about it (-1 where there
# is no child), N, and the symmetric part of T: xx yy zz xy xz yz, the last three twice.
CENTRE, RADIUS, AREA, FIRST = 0, 3, 4, 7
TERMS = 13
TERMS_SIZE = TERMS * WIDTH

# A node while it is summed: area, centre, radius (-1 for nothing), N, T by rows.
SUM = 17


class WindingTerms(NamedTuple):
    """The terms of all nodes, in the local frame."""

    terms: NDArray[np.float32]
    owned: NDArray[np.int32]  # (rows, lanes): ids, each face once, -1 for none


def winding_terms(arrays: Any) -> WindingTerms:
    """Sum the terms of a tree over triangles, from the leaves up."""
    nodes = len(arrays.nodes.blocks) // BLOCK_SIZE
    terms = aligned(nodes * TERMS_SIZE, np.float32)
    # A tree of high quality holds some faces more than once.
    flat = arrays.nodes.ids.ravel()
    owned = np.full(len(flat), -1, np.int32)
    first = np.unique(flat, return_index=True)[1]
    owned[first] = flat[first]
    owned = owned.reshape(arrays.nodes.ids.shape)
    _sum_terms(arrays, owned, terms, np.zeros((nodes, SUM)), np.zeros((WIDTH, SUM)))
    return WindingTerms(kernel_input(terms), kernel_input(owned))


@inlined
def _local(frame, v):
    s = power_of_two(int(frame[1, 0]))
    return ((v[0] - frame[0, 0]) * s, (v[1] - frame[0, 1]) * s, (v[2] - frame[0, 2]) * s)


@inlined
def _add_to(total, part):
    """Add area, area times centre, and N."""
    total[0] += part[0]
    for axis in range(3):
        total[1 + axis] += part[0] * part[1 + axis]
        total[5 + axis] += part[5 + axis]


@inlined
def _set_centre(total, part):
    """Divide by the area; a surface without any is where its first part is."""
    for axis in range(3):
        total[1 + axis] = total[1 + axis] / total[0] if total[0] > 0.0 else part[1 + axis]


@inlined
def _shift_to(total, part):
    """Add T, and let the radius reach around the part."""
    x = part[1] - total[1]
    y = part[2] - total[2]
    z = part[3] - total[3]
    total[4] = max(total[4], np.sqrt(x * x + y * y + z * z) + part[4])
    for j in range(3):
        total[8 + j] += part[8 + j] + x * part[5 + j]
        total[11 + j] += part[11 + j] + y * part[5 + j]
        total[14 + j] += part[14 + j] + z * part[5 + j]


@inlined
def _face(arrays, prim, part):
    """Describe one face as a part."""
    a, b, c = corners(arrays.primitives, np.int64(prim))
    a, b, c = _local(arrays.frame, a), _local(arrays.frame, b), _local(arrays.frame, c)
    n = cross(minus(b, a), minus(c, a))
    part[0] = 0.5 * np.sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2])
    for axis in range(3):
        part[1 + axis] = (a[axis] + b[axis] + c[axis]) / 3.0
        part[5 + axis] = 0.5 * n[axis]
    for i in range(8, SUM):
        part[i] = 0.0
    part[4] = 0.0
    for v in (a, b, c):
        x, y, z = v[0] - part[1], v[1] - part[2], v[2] - part[3]
        part[4] = max(part[4], np.sqrt(x * x + y * y + z * z))


@entry
def _sum_terms(arrays, owned, terms, sums, parts):
    """Fill the terms of all nodes; children have higher numbers than their parents."""
    blocks, part = arrays.nodes.blocks, np.zeros(SUM)
    for node in range(len(sums) - 1, -1, -1):
        for lane in range(WIDTH):
            at = node * BLOCK_SIZE + lane
            total = parts[lane]
            total[:] = 0.0
            total[4] = -1.0
            if peek(blocks, at + LOWER * WIDTH) > peek(blocks, at + UPPER * WIDTH):
                continue
            code = np.int64(peek_int(blocks, at + CODES * WIDTH))
            if code >= 0:
                total[:] = sums[code]
                continue
            total[4] = 0.0
            first, rows = leaf_rows(code)
            for sweep in range(2):
                for row in range(first, first + rows):
                    for k in range(WIDTH):
                        if owned[row, k] < 0:
                            continue
                        _face(arrays, owned[row, k], part)
                        if sweep == 0:
                            _add_to(total, part)
                        else:
                            _shift_to(total, part)
                if sweep == 0:
                    _set_centre(total, part)
        whole = sums[node]
        for lane in range(WIDTH):
            if parts[lane, 4] >= 0.0:
                _add_to(whole, parts[lane])
        _set_centre(whole, parts[0])
        for lane in range(WIDTH):
            if parts[lane, 4] >= 0.0:
                _shift_to(whole, parts[lane])
            _write(terms, node * TERMS_SIZE + lane, parts[lane])


@inlined
def _write(terms, at, total):
    """Write what a child looks like from far away."""
    for axis in range(3):
        terms[at + (CENTRE + axis) * WIDTH] = total[1 + axis]
        terms[at + (AREA + axis) * WIDTH] = total[5 + axis]
        terms[at + (FIRST + axis) * WIDTH] = total[8 + 4 * axis]
    r = total[4] * (1.0 + 2.0**-20)
    terms[at + RADIUS * WIDTH] = r * r if r >= 0.0 else -1.0
    terms[at + (FIRST + 3) * WIDTH] = total[9] + total[11]
    terms[at + (FIRST + 4) * WIDTH] = total[10] + total[14]
    terms[at + (FIRST + 5) * WIDTH] = total[13] + total[15]
