"""Refits and rebuilds on a device: triangles, boxes and nodes of a tree whose vertices have moved.

A rebuild sorts triangles along a Morton curve, joins neighbours where their codes differ least
(Apetrei 2014, "Fast and simple agglomerative LBVH construction") and makes leaves of what has few.
Boxes are fitted upward from leaves, by whichever thread comes second to a node. They are rounded
outward, and triangles have the sizes of `tree.triangle_groups`, so answers remain exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exact import floats
from bvh.devices.exact.floats import INF, ONE, OPTIONS, ZERO, f4, f8, i8
from bvh.devices.exchange import seen_as
from bvh.devices.layout import Part, Target
from bvh.devices.stages.moved import face_of
from bvh.runtime.arguments import ALL_BITS
from bvh.tree.frame import local_frame
from bvh.tree.primitives import Triangles

wp.set_module_options(OPTIONS)

# Triangles of a leaf, at most; faces that a thread of `measure` takes.
LEAF, STRIDE = 4, 64
# The code of what is no triangle, sorted behind all others, which are below 2**60. Gaps of codes,
# from 2**32 on, are above those of rows (see `_gap`).
NO_CODE, ABOVE_ROWS = i8(2**62), i8(2**32)
# What rounding to float32 may lose of a plane, and more; and of sizes (see `triangle_groups`).
OUTWARD, LEAST_OUTWARD = f8(2.0**-22), f8(2.0**-100)
UP, SIZE_LEAST = f8(1.0 + 2.0**-20), f8(2.0**-100)
HALF, SHARE, SIZE_SHARE = f8(0.5), f8(2.0**-22), f8(24.0)
# Cells of Morton codes: 2**20 along each axis.
GRID, LAST_CELL = f8(2.0**19), i8(2**20 - 1)
NO_NODE = -1


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
""")
def fence():
    """Let other threads see what was written before they see what is written after."""


@wp.func
def _box_of(target: Target, prim: int):
    """Return (valid, lower, upper) of a face; it is valid if all its vertices are finite."""
    a, b, c = face_of(target, prim)
    valid = wp.isfinite(a) and wp.isfinite(b) and wp.isfinite(c)
    return valid, wp.min(a, wp.min(b, c)), wp.max(a, wp.max(b, c))


@wp.kernel
def measure(
    target: Target, in_leaf: wp.array(dtype=wp.int32), box: wp.array2d(dtype=wp.float64),
    counts: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Find the box of all valid faces in leaves, (2, 3): lower and upper.

    `counts` are the number of these faces, and of valid faces that are in no leaf.
    """
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    count, others = int(0), int(0)
    for k in range(STRIDE):
        i = wp.tid() * STRIDE + k
        if i < target.faces.shape[0]:
            valid, low, high = _box_of(target, i)
            if valid and in_leaf[i] != 0:
                lower, upper = wp.min(lower, low), wp.max(upper, high)
                count += 1
            elif valid:
                others += 1
    for axis in range(3):
        wp.atomic_min(box, 0, axis, lower[axis])
        wp.atomic_max(box, 1, axis, upper[axis])
    wp.atomic_add(counts, 0, count)
    wp.atomic_add(counts, 1, others)


@wp.kernel
def write_codes(target: Target, members: wp.array(dtype=wp.int32), codes: wp.array(dtype=wp.int64)):
    """Write ids and Morton codes of `members`, the faces in leaves; both are sorted by code later.

    A code interleaves the bits of the grid cell of the middle of a face's box, 20 for each axis.
    """
    i = wp.tid()
    target.ids[i] = members[i]
    valid, low, high = _box_of(target, members[i])
    code = i8(0)
    s, centre = floats.power_of_two(target.top.exponent), target.top.centre
    middle = ((low - centre) * s + (high - centre) * s) * HALF
    for axis in range(3):
        cell = wp.min(wp.max(i8((middle[axis] + ONE) * GRID), i8(0)), LAST_CELL)
        for bit in range(20):
            code |= ((cell >> i8(bit)) & i8(1)) << i8(3 * bit + axis)
    codes[i] = wp.where(valid, code, NO_CODE)


@wp.func
def _row(v: wp.vec3d, w: wp.float32):
    """Return (v, w) in float32, one of the three vectors of a triangle in `Target.triangles`."""
    return wp.vec4(f4(v[0]), f4(v[1]), f4(v[2]), w)


@wp.kernel
def write_triangles(target: Target, face_bits: wp.array(dtype=wp.int32), fresh: int):
    """Write triangles for the float32 filter (see `tree.triangle_groups`), and their bits.

    Marks (see `Target.triangles`) stay in a refit, with `fresh` 0. A rebuild has `fresh` triangles
    in leaves and marks the last of these; `join` marks the last ones of its leaves.
    """
    j = wp.tid()
    prim, tree, mark = target.ids[j], target.top, target.triangles[j, 2][3]
    v0, v1, v2 = face_of(target, prim)
    valid, _, _ = _box_of(target, prim)
    target.bits[j] = wp.where(valid, face_bits[wp.min(prim, face_bits.shape[0] - 1)], 0)
    if fresh > 0:
        mark = wp.where(j == fresh - 1, f4(-1.0), f4(1.0))
    s = floats.power_of_two(tree.exponent)
    # Halved before subtracting, so that no extent overflows; what is not valid is never met.
    p, a, b = wp.vec3d(), wp.vec3d(), wp.vec3d()
    if valid:
        p = (v0 - tree.centre) * s
        a = (v1 * HALF - v0 * HALF) * (s + s)
        b = (v2 * HALF - v0 * HALF) * (s + s)
    longest = wp.max(floats.largest(a), floats.largest(b))
    share = longest / (SIZE_SHARE * tree.bound) + SHARE
    size = floats.sum_of(wp.cross(a, b)) + floats.sum_of(floats.cross_size(a, b)) * share
    tolerance = (floats.sum_of(a) + floats.sum_of(b)) * (HALF * longest / tree.bound + ONE) * UP
    tolerance = wp.where(valid, tolerance + SIZE_LEAST, -ONE)
    target.triangles[j, 0] = _row(p, f4(tolerance))
    target.triangles[j, 1] = _row(a, f4(size * UP + SIZE_LEAST))
    target.triangles[j, 2] = _row(b, mark)


@wp.func
def _gap(codes: wp.array(dtype=wp.int64), i: int):
    """Return the gap of rows i and i + 1, larger the higher the first bit in which codes differ.

    Equal codes are told apart by the bits of their rows; such gaps are smaller than all others.
    """
    different = codes[i] ^ codes[i + 1]
    return wp.where(different != i8(0), different + ABOVE_ROWS, i8(i ^ (i + 1)))


@wp.kernel
def join(
    target: Target, count: int, codes: wp.array(dtype=wp.int64), met: wp.array(dtype=wp.int32),
    root_and_depth: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Join rows, sorted by code, into nodes, upward; write the root. Node k divides after row k.

    A thread starts at a row. A range left..right joins its neighbour across the smaller gap. `met`
    has the other end of the child that came first to a node, NO_NODE before; that thread stops.
    """
    left, right, node = wp.tid(), wp.tid(), int(0)
    while right - left < count - 1:
        # The range is the left child (side 0) of the node after it, or the right one of one before.
        side, parent = int(0), int(right)
        if right == count - 1 or (left > 0 and _gap(codes, left - 1) < _gap(codes, right)):
            side, parent = 1, left - 1
        is_leaf = right - left < LEAF
        target.children[parent][2 * side] = wp.where(is_leaf, left, node)
        target.children[parent][2 * side + 1] = wp.where(is_leaf, right - left + 1, 0)
        fence()
        other = wp.atomic_exch(met, parent, wp.where(side == 0, left, right))
        if other == NO_NODE:
            return
        left, right = wp.where(side == 0, left, other), wp.where(side == 0, other, right)
        node = parent
        if right - left < LEAF:
            # Its triangles are in one leaf, a child of a node above: this node is not used.
            target.children[node] = wp.vec4i(NO_NODE, 0, NO_NODE, 0)
        else:
            # The last triangles of leaves.
            if node - left < LEAF:
                target.triangles[node, 2][3] = f4(-1.0)
            if right - node - 1 < LEAF:
                target.triangles[right, 2][3] = f4(-1.0)
    root_and_depth[0] = node


@wp.kernel
def write_parents(target: Target, parents: wp.array(dtype=wp.int32)):
    """Write 2 * parent + side for each node but the root: side 0 is the left child, 1 the right."""
    node, side = wp.tid()
    children = target.children[node]
    if children[2 * side] >= 0 and children[2 * side + 1] == 0:
        parents[children[2 * side]] = 2 * node + side


@wp.kernel
def fit(
    target: Target, parents: wp.array(dtype=wp.int32), met: wp.array(dtype=wp.int32),
    levels: wp.array(dtype=wp.int32), boxes: wp.array3d(dtype=wp.float32),
    root_and_depth: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Write the boxes of leaves, upward those of nodes, and the depth of the tree.

    A thread starts at side 0 or 1 of each node, if that is a leaf, and goes on upward from a node
    only if it comes second there, by `met`, so that both boxes are known. `levels` is the height
    of each node so far; `boxes` are `Target.boxes` as (nodes, 3, 4) numbers.
    """
    node, side = wp.tid()
    first, count = target.children[node][2 * side], target.children[node][2 * side + 1]
    if count == 0:
        return
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    for j in range(first, first + count):
        valid, low, high = _box_of(target, target.ids[j])
        if valid:
            lower, upper = wp.min(lower, low), wp.max(upper, high)
    near, far = wp.vec3(wp.inf), wp.vec3(-wp.inf)
    if lower[0] < INF:
        s, centre = floats.power_of_two(target.top.exponent), target.top.centre
        for axis in range(3):
            x, y = (lower[axis] - centre[axis]) * s, (upper[axis] - centre[axis]) * s
            near[axis] = f4(x - wp.abs(x) * OUTWARD - LEAST_OUTWARD)
            far[axis] = f4(y + wp.abs(y) * OUTWARD + LEAST_OUTWARD)
    level = int(1)
    while node >= 0:
        for axis in range(3):
            boxes[node, axis, 2 * side] = near[axis]
            boxes[node, axis, 2 * side + 1] = far[axis]
        wp.atomic_max(levels, node, level)
        fence()
        if wp.atomic_add(met, node, 1) == 0:
            return
        # What another thread has written is read by atomic operations, past caches.
        for axis in range(3):
            low4 = wp.atomic_add(boxes, node, axis, 2 - 2 * side, f4(0.0))
            high4 = wp.atomic_add(boxes, node, axis, 3 - 2 * side, f4(0.0))
            near[axis] = wp.min(near[axis], low4)
            far[axis] = wp.max(far[axis], high4)
        level = wp.atomic_max(levels, node, 0) + 1
        parent = parents[node]
        node, side = wp.where(parent < 0, NO_NODE, parent // 2), parent % 2
    root_and_depth[1] = level - 1


@wp.kernel
def write_areas(target: Target, areas: wp.array(dtype=wp.float64)):
    """Write half the area of each child's box, times the number of triangles of a leaf or 1."""
    node, side = wp.tid()
    k, children = 2 * side, target.children[node]
    x, y, z = target.boxes[node, 0], target.boxes[node, 1], target.boxes[node, 2]
    a, b, c = f8(x[k + 1]) - f8(x[k]), f8(y[k + 1]) - f8(y[k]), f8(z[k + 1]) - f8(z[k])
    if children[k] >= 0 and a >= ZERO:
        areas[2 * node + side] = (a * b + b * c + c * a) * f8(wp.max(children[k + 1], 1))


class Members(NamedTuple):
    """The faces in the leaves of a tree, and the bits of all faces, as arrays on a device."""

    ids: Any
    in_leaf: Any  # for all faces: 1 if in a leaf, else 0
    face_bits: Any  # of each face, or one item for all

    @classmethod
    def of(cls, target: Any, face_bits: NDArray[np.uint32] | None) -> Members:
        """Return those of a tree on a device; `face_bits` (n,) are groups, None for all bits."""
        in_leaf = np.zeros(len(target.faces), np.int32)
        in_leaf[target.ids.numpy()] = 1
        bits = np.array([ALL_BITS], np.uint32) if face_bits is None else face_bits
        arrays = np.flatnonzero(in_leaf), in_leaf, bits.view(np.int32)
        return cls(*(wp.array(a, dtype=wp.int32, device=target.ids.device) for a in arrays))


class MovedTriangles(NamedTuple):
    """The source of hits on a tree whose vertices are on a device (see `answers.locations`)."""

    faces: NDArray[np.int32]
    vertices: Any

    def leaves_of(self, parts: None, ids: Any, rows: Any) -> Iterator[tuple[Any, ...]]:
        """Yield (triangles, None, rows, faces), as of a mesh of one part."""
        yield Triangles(self.vertices.numpy(), self.faces), None, rows, ids[rows]


def _copied(kind: Any, record: Any) -> Any:
    """Return a copy of a struct, which shares its arrays."""
    copy = kind()
    for name in kind.vars:
        setattr(copy, name, getattr(record, name))
    return copy


def moved(old: Any, members: Members, vertices: Any, anew: bool) -> tuple[Any, int] | None:
    """Return (target, count) of a tree with other vertices, refitted or, with `anew`, rebuilt.

    `count` is the number of valid faces in leaves. The old target is not changed. None if a valid
    face is in no leaf, so that the tree must be built on the CPU.
    """
    device, rows = vertices.device, len(members.ids if anew else old.ids)
    target, top = _copied(Target, old), _copied(Part, old.top)

    def full(value: int, count: int) -> Any:
        return wp.full(count, value, dtype=wp.int32, device=device)

    def launch(kernel: Any, dim: Any, *inputs: Any) -> None:
        wp.launch(kernel, dim, inputs=[target, *inputs], device=device)

    target.vertices = vertices
    corners = wp.array(np.repeat([[np.inf], [-np.inf]], 3, axis=1), dtype=f8, device=device)
    counts = full(0, 2)
    launch(measure, -(-len(target.faces) // STRIDE), members.in_leaf, corners, counts)
    (lower, upper), (count, others) = corners.numpy(), counts.numpy().tolist()
    if others:
        return None
    top.is_empty = int(count == 0)
    if count:
        (centre, (k, farthest, bound)), _ = local_frame(lower[None], upper[None])
        top.centre, top.exponent = wp.vec3d(*centre), int(k)
        top.farthest, top.bound = farthest, bound
        # In local coordinates, rounded outward as boxes are.
        box = np.ldexp(np.stack([lower, upper]) - centre, int(k))
        box += [[-1.0], [1.0]] * (np.abs(box) * OUTWARD.value + LEAST_OUTWARD.value)
        top.lower, top.upper = (wp.vec3d(*row) for row in box)
    target.top, nodes = top, len(old.children)
    target.bits = full(0, rows)
    target.triangles = wp.empty((rows, 3), dtype=wp.vec4, device=device)
    if anew:
        # The sort needs as much room again, in the second halves.
        codes = wp.empty(2 * rows, dtype=wp.int64, device=device)
        target.ids = full(0, 2 * rows)
        launch(write_codes, rows, members.ids, codes)
        wp.utils.radix_sort_pairs(codes, target.ids, rows)
        nodes = count - 1 if count > LEAF else 0
        target.children = wp.empty(nodes, dtype=wp.vec4i, device=device)
    else:
        wp.copy(target.triangles, old.triangles)
    target.boxes = wp.empty((nodes, 3), dtype=wp.vec4, device=device)
    launch(write_triangles, rows, members.face_bits, count if anew else 0)
    root_and_depth = full(0, 2)
    if nodes:
        if anew:
            launch(join, count, count, codes, full(NO_NODE, nodes), root_and_depth)
        parents, boxes = full(NO_NODE, nodes), seen_as(target.boxes, f4, nodes, 3, 4)
        launch(write_parents, (nodes, 2), parents)
        launch(fit, (nodes, 2), parents, full(0, nodes), full(0, nodes), boxes, root_and_depth)
    if anew:
        top.root, top.depth = root_and_depth.numpy().tolist()
        top.count, top.nodes = 0 if nodes else count, nodes
        target.top, target.depth = top, top.depth
    return target, count


def cost_of(target: Any) -> float:
    """Return the SAH cost of a tree on a device, whose nodes are binary; 0 if it is empty."""
    nodes = len(target.children)
    sides = np.maximum(np.subtract(target.top.upper, target.top.lower), 0.0)
    whole = float(sides @ np.roll(sides, 1))
    if not nodes or not whole:
        return float(not target.top.is_empty)
    areas = wp.zeros(2 * nodes, dtype=f8, device=target.children.device)
    wp.launch(write_areas, (nodes, 2), inputs=[target, areas], device=areas.device)
    return 1.0 + float(wp.utils.array_sum(areas)) / whole
