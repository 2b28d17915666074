"""Multipole moments of a surface for fast winding numbers.

The winding number of a surface at q is the sum of the solid angles of its faces over 4 pi. From far
away, those of faces that lie together are given by a few moments about their centre (Barill,
Dickson, Schmidt, Levin and Jacobson 2018, "Fast winding numbers for soups and clouds").

The moments belong to a tree of their own, of LANES children a node and LANES faces a leaf whatever
the vectors of the CPU, and are summed in its order: so the same surface has the same winding
numbers bit for bit on every CPU, and in whichever tree.

With the regular solid harmonics R_lm = r**l P_lm(cos theta) exp(i m phi) / (l + m)! and the
irregular ones I_lm = (l - m)! P_lm(cos theta) exp(i m phi) / r**(l + 1), both without (-1)**m,

    1 / |x - y| = sum over l and m of conj(R_lm(y)) I_lm(x)    where |y| < |x|.

A piece of surface at y with the area vector n, whose solid angle at x is minus the derivative of
that along n, has the multipoles M_lm = n . grad R_lm(y). Moving the centre away by s makes them the
sum over l' and m' of M_l'm' R_(l-l')(m-m')(s) (Dehnen 2014, "A fast multipole method for stellar
dynamics", appendix A). The first is l = 1: n itself.

The harmonic of order l and degree m is in slot l (l + 1) + m; that of degree -m is (-1)**m times
the conjugate.
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
from bvh.tree.build import prepare
from bvh.tree.builders import binned_sah
from bvh.tree.frame import into_frame, scale
from bvh.tree.nodes import is_leaf
from bvh.tree.primitives import Primitives, corners
from bvh.tree.wide_nodes import LEAF_BITS, MAX_LEAF_ROWS, leaf_code, leaf_rows

# The order of the expansion: its error falls with the distance to this power. A shift needs
# harmonics of lower orders only. A series has two numbers for each degree above 0 of each order.
ORDER = 5
SLOTS, LOWER_SLOTS, SERIES_SIZE = (ORDER + 1) ** 2, ORDER**2, ORDER * (ORDER + 2)

# An irregular harmonic in a direction (x, y, z) is (2 l - 1)!! times (x + i y)**m times a
# polynomial in z that begins with z**(l - m). The sign is (-1)**(l + 1): solid angles are minus the
# sum of their series, and the direction here is that of centre - point, not of point - centre.
FACTORS = kernel_input(np.array([0.0, 1.0, -3.0, 15.0, -105.0, 945.0]))

# A rule of six points on a triangle, exact for polynomials of degree 4 (Dunavant 1985, "High degree
# efficient symmetrical Gaussian quadrature rules for the triangle"): barycentrics, and weight.
_NEAR, _FAR, _HEAVY, _LIGHT = (
    0.44594849091596488632, 0.091576213509770743460, 0.22338158967801146570, 0.10995174365532186764
)  # fmt: skip
_ROWS = [
    (*np.roll([b, b, 1.0 - 2.0 * b], k), weight)
    for b, weight in ((_NEAR, _HEAVY), (_FAR, _LIGHT))
    for k in range(3)
]
RULE = kernel_input(np.array(_ROWS))

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


@inlined
def _mirror(re, im, order):
    """Set the harmonics of degree -m of an order: those of degree m, conjugated, times (-1)**m."""
    # `re` and `im` have the real and imaginary parts of all slots; that of degree 0 is `middle`.
    middle, factor = order * (order + 1), -1.0
    for m in range(1, order + 1):
        re[middle - m], im[middle - m] = factor * re[middle + m], -factor * im[middle + m]
        factor = -factor


@kernel
def regular(x, y, z, re, im):
    """Write the regular harmonics of orders below ORDER at (x, y, z) to `re` and `im`."""
    # (l**2 - m**2) R_lm = (2 l - 1) z R_(l-1)m - r**2 R_(l-2)m, and
    # 2 l R_ll = (x + i y) R_(l-1)(l-1); `at`, `below` and `under` are slots of l, l - 1 and l - 2.
    square = x * x + y * y + z * z
    re[0], im[0] = 1.0, 0.0
    for order in range(1, ORDER):
        at, below, under = order * (order + 1), order * (order - 1), (order - 1) * (order - 2)
        for m in range(order):
            a, b = (2.0 * order - 1.0) * z, 1.0 / (order * order - m * m)
            re[at + m], im[at + m] = a * re[below + m] * b, a * im[below + m] * b
            if m < order - 1:
                re[at + m] -= square * re[under + m] * b
                im[at + m] -= square * im[under + m] * b
        last, half = below + order - 1, 0.5 / order
        re[at + order] = (x * re[last] - y * im[last]) * half
        im[at + order] = (x * im[last] + y * re[last]) * half
        _mirror(re, im, order)


@kernel
def mean_regular(a, b, c, away, mean):
    """Write the means of regular harmonics over a triangle to `mean`; `away` is scratch."""
    mean[:] = 0.0
    for i in range(len(RULE)):
        p, q, r, weight = RULE[i, 0], RULE[i, 1], RULE[i, 2], RULE[i, 3]
        regular(
            p * a[0] + q * b[0] + r * c[0], p * a[1] + q * b[1] + r * c[1],
            p * a[2] + q * b[2] + r * c[2], away[0], away[1],
        )  # fmt: skip
        for part in range(2):
            for k in range(LOWER_SLOTS):
                mean[part, k] += weight * away[part, k]


@kernel
def add_shifted(part, top, away, total):
    """Add the multipoles of a part, of orders up to `top`, to those of `total`."""
    # `away` are the regular harmonics of the vector from the new centre to the part's. Negative
    # degrees of `total` are left to `complete`.
    for order in range(1, ORDER + 1):
        for m in range(order + 1):
            x, y = 0.0, 0.0
            for lower in range(1, min(order, top) + 1):
                rest = order - lower
                i, j = lower * (lower + 1), rest * (rest + 1) + m
                # The part's degree m' is k, in slot i + k. The shift's degree m - k, in slot j - k,
                # must be in -rest..rest.
                for k in range(max(-lower, m - rest), min(lower, m + rest) + 1):
                    a, b, c, d = part[0, i + k], part[1, i + k], away[0, j - k], away[1, j - k]
                    x += a * c - b * d
                    y += a * d + b * c
            total[0, order * (order + 1) + m] += x
            total[1, order * (order + 1) + m] += y


@inlined
def complete(total):
    """Compute the negative degrees of multipoles (2, SLOTS) from the positive ones, in place."""
    for order in range(1, ORDER + 1):
        _mirror(total[0], total[1], order)


@inlined
def set_first(part, n):
    """Set the multipoles of order 1 of a part with the area vector n, which are n . grad R_1m."""
    # Slot 2 is degree 0: z. Slot 3 is degree 1: (x + i y) / 2; slot 1 is degree -1.
    part[0, 2], part[1, 2] = n[2], 0.0
    part[0, 3], part[1, 3] = 0.5 * n[0], 0.5 * n[1]
    part[0, 1], part[1, 1] = -part[0, 3], part[1, 3]


@inlined
def write_series(total, rows, at, step):
    """Write multipoles to rows[at::step], as factors of polynomials that sum to a solid angle."""
    # Order by order, these are the real part of degree 0, then the real and the imaginary part of
    # degrees 1, 2 and so on, doubled because the negative degrees contribute the same.
    for order in range(1, ORDER + 1):
        for m in range(order + 1):
            factor = FACTORS[order] if m == 0 else 2.0 * FACTORS[order]
            rows[at] = factor * total[0, order * (order + 1) + m]
            at += step
            if m > 0:
                rows[at] = factor * total[1, order * (order + 1) + m]
                at += step


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
    """Collapse a binary tree to nodes of LANES children; write their codes, return their number."""
    # A node's child of the largest diagonal is replaced by its own two children until there are
    # LANES. `pending` is scratch: a stack of (binary node, number of its wide node).
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
    """Sum the faces of a leaf, order[first : first + count], to its `shape` and `poles`."""
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
        mean_regular(a, b, c, away[0], away[1])
        set_first(part, _area_vector(a, b, c))
        add_shifted(part, 1, away[1], poles)
    complete(poles)


@inlined
def _pack_leaf(triangles, frame, order, first, count, packed):
    """Write the corners of a leaf's faces to `packed` (see `WindingTerms.corners`)."""
    s = scale(frame)
    for k in range(count):
        at = CORNERS * first + k
        for v in corners(triangles, np.int64(order[first + k])):
            for axis in range(3):
                packed[at] = v[axis] * s
                at += count


@entry
def _sum_terms(triangles, frame, order, codes, sums, parts, away, terms, packed):
    """Fill in `terms` of all nodes, children first, and the corners of all leaves, `packed`."""
    # `sums`, zeros at first, get the sums of each node. `parts` and `away` are scratch: the sums of
    # a node's children, then of one face; and harmonics.
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
                regular(r[0], r[1], r[2], away[0, 0], away[0, 1])
                add_shifted(parts.poles[lane], ORDER, away[0], poles)
            _write(terms, node * TERMS_SIZE + lane, shape, parts.poles[lane])
        complete(poles)


@inlined
def _write(terms, at, shape, poles):
    """Write a child's centre, squared radius and multipoles to its lane of rows from `at` on."""
    for axis in range(3):
        terms[at + (CENTRE + axis) * LANES] = shape[MIDDLE + axis]
    r = MARGIN * shape[REACH]
    terms[at + RADIUS * LANES] = r * r if r >= 0.0 else -1.0
    write_series(poles, terms, at + SERIES * LANES, LANES)
