"""Multipole moments of a surface for fast winding numbers.

The winding number of a surface at q is the sum of the solid angles of its faces over 4 pi. From far
away, those of faces that lie together are given by a few moments about their centre: see
`multipoles`, and Barill, Dickson, Schmidt, Levin and Jacobson 2018, "Fast winding numbers for soups
and clouds".

The moments belong to a tree of their own, of LANES children a node and LANES faces a leaf whatever
the vectors of the CPU, and are summed in its order: so the same surface has the same winding
numbers bit for bit on every CPU, and in whichever tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.vectors import cross, dot, minus, scaled
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.memory import aligned
from bvh.runtime.simd import sqrt
from bvh.tree import multipoles
from bvh.tree.build import prepare
from bvh.tree.builders import binned_sah
from bvh.tree.frame import into_frame, scale
from bvh.tree.multipoles import LOWER_SLOTS, ORDER, SERIES_SIZE, SLOTS
from bvh.tree.nodes import is_leaf
from bvh.tree.primitives import Primitives, corners
from bvh.tree.wide_nodes import LEAF_BITS, MAX_LEAF_ROWS, leaf_code, leaf_rows

LANES = MAX_LEAF_ROWS

# Rows of a node's terms, each with a lane for each child: the child's centre, the square of its
# radius (-1 where there is no child), and its multipoles.
CENTRE, RADIUS, SERIES = 0, 3, 4
TERMS_SIZE = (SERIES + SERIES_SIZE) * LANES
# Rows of a leaf's corners.
CORNERS = 9

# A node while it is summed: area, centre, radius (-1 for no child), and its faces, begin..end.
AREA, MIDDLE, REACH, BEGIN, END = 0, 1, 4, 5, 6
SHAPE_SIZE = 7
# Radii are stored longer than they are, which keeps errors with the default accuracy below 0.001.
MARGIN = 1.05


class WindingTerms(NamedTuple):
    """The tree of a surface for its winding numbers."""

    # LANES for each node: the number of the child, 0 for none, or the code of a leaf (see
    # `wide_nodes`), whose rows are faces.
    codes: NDArray[np.int64]
    terms: NDArray[np.float32]  # TERMS_SIZE for each node, in the local frame
    # For each leaf, a row for each of the nine coordinates of corners, with a number for each of
    # its faces, times the frame's scale. LANES numbers can be read from the beginning of any row.
    corners: NDArray[np.float64]
    frame: NDArray[np.float64]  # (2, 3): see `frame.local_frame`


class Sums(NamedTuple):
    """Nodes while they are summed."""

    shapes: NDArray[np.float64]  # (n, SHAPE_SIZE): see the columns above
    poles: NDArray[np.float64]  # (n, 2, SLOTS): real and imaginary parts of multipoles


def winding_terms(triangles: Primitives, threads: int = 1) -> WindingTerms:
    """Build the tree of a surface of triangles, and sum its terms from the leaves up."""
    records, _, frame, _, boxes = prepare(triangles, threads)
    binary = binned_sah.build(records, boxes, threads=threads, group_bits=LEAF_BITS, max_leaf=LANES)
    frame = kernel_input(frame)
    capacity, nodes = len(binary.links) // 2 + 1, 0
    codes = np.empty(capacity * LANES, np.int64)
    if len(binary.links):
        pending = np.empty((capacity, 2), np.int64)
        nodes = _widen(binary.bounds, binary.links, pending, codes)
    codes = kernel_input(codes[: nodes * LANES].copy())
    terms = aligned(nodes * TERMS_SIZE, np.float32)
    packed = aligned(CORNERS * len(binary.order) + LANES, np.float64)
    packed[-LANES:] = 0.0
    # Scratch: see `_sum_terms`.
    sums, parts = _new_sums(nodes), _new_sums(LANES + 1)
    away = np.zeros((2, 2, LOWER_SLOTS))
    _sum_terms(triangles, frame, binary.order, codes, sums, parts, away, terms, packed)
    return WindingTerms(codes, kernel_input(terms), kernel_input(packed), frame)


def _new_sums(count: int) -> Sums:
    """Return `Sums` of zeros for `count` nodes."""
    return Sums(np.zeros((count, SHAPE_SIZE)), np.zeros((count, 2, SLOTS)))


@inlined
def _squared_diagonal(bounds, i):
    """Return the square of the diagonal of box i of `bounds`."""
    x = np.float64(bounds[i, 3]) - bounds[i, 0]
    y = np.float64(bounds[i, 4]) - bounds[i, 1]
    z = np.float64(bounds[i, 5]) - bounds[i, 2]
    return x * x + y * y + z * z


@entry
def _widen(bounds, links, pending, codes):
    """Collapse a binary tree to nodes of LANES children; write their codes, return their number.

    A node's child of the largest diagonal is replaced by its own two children, until there are
    LANES. Children have higher numbers than parents. `codes` has LANES numbers for each node: 0 for
    no child, a node, or the code of a leaf. `pending` is scratch: a stack of (binary node, number
    of its wide node).
    """
    pending[0, 0], pending[0, 1] = 0, 0
    waiting, nodes = 1, 1
    while waiting > 0:
        waiting -= 1
        at, n = pending[waiting, 1] * LANES, 1
        # Lanes hold numbers of binary nodes, until the n children are found.
        codes[at] = pending[waiting, 0]
        while n < LANES:
            best, largest = -1, -1.0
            for lane in range(n):
                child = codes[at + lane]
                if not is_leaf(links, child) and _squared_diagonal(bounds, child) > largest:
                    best, largest = lane, _squared_diagonal(bounds, child)
            if best < 0:
                break
            left = np.int64(links[codes[at + best], 0])
            codes[at + best], codes[at + n] = left, left + 1
            n += 1
        for lane in range(LANES):
            child = codes[at + lane]
            if lane >= n:
                codes[at + lane] = 0
            elif is_leaf(links, child):
                codes[at + lane] = leaf_code(np.int64(links[child, 0]), links[child, 1])
            else:
                codes[at + lane] = nodes
                pending[waiting, 0], pending[waiting, 1] = child, nodes
                waiting += 1
                nodes += 1
    return nodes


@inlined
def _local_corners(triangles, frame, face):
    """Return the three vertices of a face in the local frame."""
    a, b, c = corners(triangles, np.int64(face))
    return into_frame(frame, a), into_frame(frame, b), into_frame(frame, c)


_centre = inlined(lambda shape: (shape[MIDDLE], shape[MIDDLE + 1], shape[MIDDLE + 2]))


@inlined
def _weigh(total, area, centre):
    """Add a part's area, and its area times its centre, to columns AREA and MIDDLE of `total`."""
    total[AREA] += area
    for axis in range(3):
        total[MIDDLE + axis] += area * centre[axis]


@inlined
def _set_centre(total, centre):
    """Divide column MIDDLE of `total`, a sum of areas times centres, by the sum of areas, AREA."""
    # If the area is 0, `centre` becomes the middle instead.
    for axis in range(3):
        total[MIDDLE + axis] = (
            total[MIDDLE + axis] / total[AREA] if total[AREA] > 0.0 else centre[axis]
        )


_area_vector = inlined(lambda a, b, c: scaled(cross(minus(b, a), minus(c, a)), 0.5))


@kernel
def _radius(triangles, frame, order, shape):
    """Return the largest distance from a node's centre of the vertices of its faces."""
    # The columns BEGIN and END of `shape` tell which items of `order`, face ids, are its faces.
    far, centre = 0.0, _centre(shape)
    for i in range(np.int64(shape[BEGIN]), np.int64(shape[END])):
        for v in _local_corners(triangles, frame, order[i]):
            r = minus(v, centre)
            far = max(far, dot(r, r))
    return sqrt(far)


@inlined
def _sum_leaf(triangles, frame, order, first, count, shape, poles, part, away):
    """Sum the faces of a leaf, order[first : first + count], to its `shape` and multipoles `poles`.

    `part` and `away` are scratch: the multipoles of a face, and harmonics.
    """
    centre = (0.0, 0.0, 0.0)
    for k in range(count):
        a, b, c = _local_corners(triangles, frame, order[first + k])
        centre = (
            (a[0] + b[0] + c[0]) / 3.0, (a[1] + b[1] + c[1]) / 3.0, (a[2] + b[2] + c[2]) / 3.0
        )  # fmt: skip
        n = _area_vector(a, b, c)
        _weigh(shape, sqrt(dot(n, n)), centre)
    _set_centre(shape, centre)
    centre = _centre(shape)
    shape[BEGIN], shape[END] = first, first + count
    shape[REACH] = _radius(triangles, frame, order, shape)
    for k in range(count):
        a, b, c = _local_corners(triangles, frame, order[first + k])
        # The multipoles of a face are those of its area vector, averaged over its points.
        a, b, c = minus(a, centre), minus(b, centre), minus(c, centre)
        multipoles.mean_regular(a, b, c, away[0], away[1])
        multipoles.set_first(part, _area_vector(a, b, c))
        multipoles.add_shifted(part, 1, away[1], poles)
    multipoles.complete(poles)


@inlined
def _pack_leaf(triangles, frame, order, first, count, packed):
    """Write the corners of the faces of a leaf, order[first : first + count], to `packed`.

    They are nine rows, one for each coordinate of v0, v1 and v2, with `count` numbers each. These
    are multiplied by the frame's scale, but not moved to its centre, which would round them.
    """
    s = scale(frame)
    for k in range(count):
        at = CORNERS * first + k
        for v in corners(triangles, np.int64(order[first + k])):
            for axis in range(3):
                packed[at] = v[axis] * s
                at += count


@entry
def _sum_terms(triangles, frame, order, codes, sums, parts, away, terms, packed):
    """Fill in `terms` of all nodes, children first, and the corners of all leaves, `packed`.

    `order` are the ids of faces, leaf by leaf, and `codes` the children of each node: > 0 for a
    node, < 0 for a leaf, 0 for none. `sums`, zeros at first, get the sums of each node. `parts`
    is scratch: LANES rows for the sums of a node's children, and a last one for a face. `away` is
    scratch for harmonics.
    """
    for node in range(len(sums.shapes) - 1, -1, -1):
        total, poles = sums.shapes[node], sums.poles[node]
        total[BEGIN] = len(order)  # no child begins later
        for lane in range(LANES):
            shape, part, code = parts.shapes[lane], parts.poles[lane], codes[node * LANES + lane]
            # Copied by loops: for slices, Numba would compile an error message about shapes.
            for i in range(SHAPE_SIZE):
                shape[i] = sums.shapes[code, i] if code > 0 else 0.0
            for i in range(2):
                for k in range(SLOTS):
                    part[i, k] = sums.poles[code, i, k] if code > 0 else 0.0
            if code < 0:
                first, count = leaf_rows(code)
                one = parts.poles[LANES]
                _sum_leaf(triangles, frame, order, first, count, shape, part, one, away)
                _pack_leaf(triangles, frame, order, first, count, packed)
            elif code == 0:
                shape[REACH] = -1.0
                continue
            _weigh(total, shape[AREA], _centre(shape))
            total[BEGIN] = min(total[BEGIN], shape[BEGIN])
            total[END] = max(total[END], shape[END])
        _set_centre(total, _centre(parts.shapes[0]))
        total[REACH] = _radius(triangles, frame, order, total)
        for lane in range(LANES):
            shape = parts.shapes[lane]
            if shape[REACH] >= 0.0:
                r = minus(_centre(shape), _centre(total))
                multipoles.regular(r[0], r[1], r[2], away[0, 0], away[0, 1])
                multipoles.add_shifted(parts.poles[lane], ORDER, away[0], poles)
            _write(terms, node * TERMS_SIZE + lane, shape, parts.poles[lane])
        multipoles.complete(poles)


@inlined
def _write(terms, at, shape, poles):
    """Write the terms of a child to its lane of rows from terms[at] on.

    They are the centre, the squared radius, and the multipoles; `shape` and `poles` are its sums.
    """
    for axis in range(3):
        terms[at + (CENTRE + axis) * LANES] = shape[MIDDLE + axis]
    r = MARGIN * shape[REACH]
    terms[at + RADIUS * LANES] = r * r if r >= 0.0 else -1.0
    multipoles.write_series(poles, terms, at + SERIES * LANES, LANES)
