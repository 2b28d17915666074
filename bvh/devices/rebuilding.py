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

# Triangles of a leaf, at most; faces that a thread measures.
LEAF, STRIDE = wp.constant(4), wp.constant(64)
# Codes, below 2**60, come before what is no triangle; differences of codes before those of rows.
NO_CODE, ABOVE_ROWS = i8(2**62), i8(2**32)
# What rounding to float32 may lose of a plane, and more; and of sizes (see `triangle_groups`).
OUTWARD, LEAST_OUTWARD, UP, SIZE_LEAST = (
    f8(2.0**-22),
    f8(2.0**-100),
    f8(1.0 + 2.0**-20),
    f8(2.0**-100),
)
HALF, SHARE = f8(0.5), f8(2.0**-22)
# Cells of Morton codes: 2**20 along each axis.
GRID, LAST_CELL = f8(2.0**19), i8(2**20 - 1)
NO_NODE = wp.constant(-1)


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
""")
def fence():
    """Let other threads see what was written before they see what is written after."""


@wp.func
def _corners(target: Target, prim: int):
    """Return (finite, v0, v1, v2, lower, upper) of a face."""
    v0, v1, v2 = face_of(target, prim)
    lower, upper = wp.min(v0, wp.min(v1, v2)), wp.max(v0, wp.max(v1, v2))
    return wp.isfinite(v0) and wp.isfinite(v1) and wp.isfinite(v2), v0, v1, v2, lower, upper


@wp.kernel
def measure(
    target: Target, in_leaf: wp.array(dtype=wp.int32), box: wp.array2d(dtype=wp.float64),
    counts: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Find the box of all faces in leaves; count these, and valid ones that are in no leaf."""
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    count, others = int(0), int(0)
    for k in range(STRIDE):
        i = wp.tid() * STRIDE + k
        if i < target.faces.shape[0]:
            valid, _, _, _, low, high = _corners(target, i)
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
    """Write the ids of faces and their Morton codes, which interleave bits of their middles."""
    i = wp.tid()
    target.ids[i] = members[i]
    valid, _, _, _, low, high = _corners(target, members[i])
    code = i8(0)
    if valid:
        s = floats.power_of_two(target.top.exponent)
        for axis in range(3):
            c = target.top.centre[axis]
            x = ((low[axis] - c) * s + (high[axis] - c) * s) * HALF
            cell = wp.min(wp.max(i8((x + ONE) * GRID), i8(0)), LAST_CELL)
            for bit in range(20):
                code |= ((cell >> i8(bit)) & i8(1)) << i8(3 * bit + axis)
    codes[i] = wp.where(valid, code, NO_CODE)


@wp.kernel
def write_triangles(
    target: Target, face_bits: wp.array(dtype=wp.int32), triangles: wp.array3d(dtype=wp.float32),
    fresh: int,
):  # fmt: skip
    """Write triangles for the filter, and their bits; `fresh` ones, that many, are in one leaf."""
    j = wp.tid()
    prim, tree = target.ids[j], target.top
    valid, v0, v1, v2, _, _ = _corners(target, prim)
    target.bits[j] = wp.where(valid, face_bits[wp.min(prim, face_bits.shape[0] - 1)], 0)
    if fresh > 0:
        triangles[j, 2, 3] = wp.where(j == fresh - 1, f4(-1.0), f4(1.0))
    s = floats.power_of_two(tree.exponent)
    # Halved before subtracting, so that no extent overflows; what is not valid is never met.
    p, a, b = wp.vec3d(), wp.vec3d(), wp.vec3d()
    if valid:
        p = (v0 - tree.centre) * s
        a = (v1 * HALF - v0 * HALF) * (s + s)
        b = (v2 * HALF - v0 * HALF) * (s + s)
    n, products, longest = (
        wp.cross(a, b),
        floats.cross_size(a, b),
        wp.max(floats.largest(a), floats.largest(b)),
    )
    sums = floats.sum_of(a) + floats.sum_of(b)
    size = floats.sum_of(n) + floats.sum_of(products) * (longest / (f8(24.0) * tree.bound) + SHARE)
    tolerance = sums * (HALF * longest / tree.bound + ONE) * UP + SIZE_LEAST
    triangles[j, 0, 3] = f4(wp.where(valid, tolerance, -ONE))
    triangles[j, 1, 3] = f4(size * UP + SIZE_LEAST)
    for axis in range(3):
        triangles[j, 0, axis] = f4(p[axis])
        triangles[j, 1, axis] = f4(a[axis])
        triangles[j, 2, axis] = f4(b[axis])


@wp.func
def _gap(codes: wp.array(dtype=wp.int64), i: int):
    """Return by how much the codes of two neighbours differ, or their rows for equal codes."""
    different = codes[i] ^ codes[i + 1]
    return wp.where(different != i8(0), different + ABOVE_ROWS, i8(i ^ (i + 1)))


@wp.kernel
def join(
    count: int, codes: wp.array(dtype=wp.int64), met: wp.array(dtype=wp.int32),
    children: wp.array2d(dtype=wp.int32), triangles: wp.array3d(dtype=wp.float32),
    found: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Join rows into nodes, upward; node k divides rows after row k. Write the root."""
    left, right, node = wp.tid(), wp.tid(), int(0)
    while right - left < count - 1:
        side, parent = int(0), int(right)
        if right == count - 1 or (left > 0 and _gap(codes, left - 1) < _gap(codes, right)):
            side, parent = 1, left - 1
        is_leaf = right - left < LEAF
        children[parent, 2 * side] = wp.where(is_leaf, left, node)
        children[parent, 2 * side + 1] = wp.where(is_leaf, right - left + 1, 0)
        fence()
        other = wp.atomic_exch(met, parent, wp.where(side == 0, left, right))
        if other == NO_NODE:
            return
        left, right = wp.where(side == 0, left, other), wp.where(side == 0, other, right)
        node = parent
        if right - left < LEAF:
            # Its triangles are in one leaf.
            for k in range(4):
                children[node, k] = wp.where(k % 2 == 0, NO_NODE, 0)
        else:
            # The last triangles of leaves.
            if node - left < LEAF:
                triangles[node, 2, 3] = f4(-1.0)
            if right - node - 1 < LEAF:
                triangles[right, 2, 3] = f4(-1.0)
    found[0] = node


@wp.kernel
def write_parents(children: wp.array2d(dtype=wp.int32), parents: wp.array(dtype=wp.int32)):
    """Write the parent of each node, and on which of its sides it is."""
    node, side = wp.tid()
    child = children[node, 2 * side]
    if child >= 0 and children[node, 2 * side + 1] == 0:
        parents[child] = 2 * node + side


@wp.kernel
def fit(
    target: Target, children: wp.array2d(dtype=wp.int32), parents: wp.array(dtype=wp.int32),
    met: wp.array(dtype=wp.int32), levels: wp.array(dtype=wp.int32),
    boxes: wp.array3d(dtype=wp.float32), found: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Write the boxes of leaves, and upward those of nodes; write the levels of the tree."""
    node, side = wp.tid()
    first, count = children[node, 2 * side], children[node, 2 * side + 1]
    if count == 0:
        return
    s = floats.power_of_two(target.top.exponent)
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    for j in range(first, first + count):
        valid, _, _, _, low, high = _corners(target, target.ids[j])
        if valid:
            lower, upper = wp.min(lower, low), wp.max(upper, high)
    near, far = wp.vec3(wp.inf), wp.vec3(-wp.inf)
    if lower[0] < INF:
        for axis in range(3):
            x = (lower[axis] - target.top.centre[axis]) * s
            y = (upper[axis] - target.top.centre[axis]) * s
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
            near[axis] = wp.min(near[axis], low4)
            high4 = wp.atomic_add(boxes, node, axis, 3 - 2 * side, f4(0.0))
            far[axis] = wp.max(far[axis], high4)
        level = wp.atomic_max(levels, node, 0) + 1
        parent = parents[node]
        node, side = wp.where(parent < 0, NO_NODE, parent // 2), parent % 2
    found[1] = level - 1


@wp.kernel
def write_areas(
    children: wp.array2d(dtype=wp.int32), boxes: wp.array3d(dtype=wp.float32),
    areas: wp.array(dtype=wp.float64),
):  # fmt: skip
    """Write half the surface of each child's box, times the triangles in a leaf, or 1."""
    node, side = wp.tid()
    k, area = 2 * side, f8(0.0)
    x = f8(boxes[node, 0, k + 1]) - f8(boxes[node, 0, k])
    y = f8(boxes[node, 1, k + 1]) - f8(boxes[node, 1, k])
    z = f8(boxes[node, 2, k + 1]) - f8(boxes[node, 2, k])
    if children[node, k] >= 0 and x >= ZERO:
        area = (x * y + y * z + z * x) * f8(wp.max(children[node, k + 1], 1))
    areas[2 * node + side] = area


class Members(NamedTuple):
    """The faces in the leaves of a tree, and the bits of all faces, as arrays on a device."""

    ids: Any
    in_leaf: Any  # 1 for those, 0 for others
    face_bits: Any  # of each face, or one item for all

    @classmethod
    def of(cls, target: Any, face_bits: NDArray[np.uint32] | None) -> Members:
        """Return those of a tree on a device."""
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
    """Return a tree with other vertices, refitted or built anew, and how many faces it has.

    The old one is not changed. None if a valid face is in no leaf.
    """
    device, rows = vertices.device, len(members.ids if anew else old.ids)
    target, top = _copied(Target, old), _copied(Part, old.top)

    def empty(kind: Any, *shape: int) -> Any:
        return wp.empty(shape, dtype=kind, device=device)

    def full(value: int, *shape: int) -> Any:
        return wp.full(shape, value, dtype=wp.int32, device=device)

    def launch(kernel: Any, dim: Any, *inputs: Any) -> None:
        wp.launch(kernel, dim, inputs=[*inputs], device=device)

    target.vertices = vertices
    corners = wp.array(np.repeat([[np.inf], [-np.inf]], 3, axis=1), dtype=f8, device=device)
    counts, threads = full(0, 2), -(-len(target.faces) // STRIDE)
    launch(measure, threads, target, members.in_leaf, corners, counts)
    (lower, upper), (count, others) = corners.numpy(), counts.numpy().tolist()
    if others:
        return None
    top.is_empty = int(count == 0)
    if count:
        (centre, (k, farthest, bound)), _ = local_frame(lower[None], upper[None])
        top.centre, top.exponent, top.farthest, top.bound = (
            wp.vec3d(*centre),
            int(k),
            farthest,
            bound,
        )
        # In local coordinates, rounded outward as boxes are.
        box = np.ldexp(np.stack([lower, upper]) - centre, int(k))
        box += [[-1.0], [1.0]] * (np.abs(box) * 2.0**-22 + 2.0**-100)
        top.lower, top.upper = (wp.vec3d(*row) for row in box)
    target.top, nodes = top, len(old.children)
    children, triangles = seen_as(old.children, wp.int32, nodes, 4), empty(f4, rows, 3, 4)
    if anew:
        # The sort needs as much room again.
        codes, target.ids = empty(wp.int64, 2 * rows), empty(wp.int32, 2 * rows)
        launch(write_codes, rows, target, members.ids, codes)
        wp.utils.radix_sort_pairs(codes, target.ids, rows)
        nodes = count - 1 if count > int(LEAF) else 0
        children = empty(wp.int32, nodes, 4)
    else:
        wp.copy(triangles, seen_as(old.triangles, f4, rows, 3, 4))
    target.bits, fresh = empty(wp.int32, rows), count if anew else 0
    launch(write_triangles, rows, target, members.face_bits, triangles, fresh)
    found, boxes = full(0, 2), empty(f4, nodes, 3, 4)
    if anew and nodes:
        launch(join, count, count, codes, full(-1, nodes), children, triangles, found)
    if nodes:
        parents, met, levels = full(-1, nodes), full(0, nodes), full(0, nodes)
        launch(write_parents, (nodes, 2), children, parents)
        launch(fit, (nodes, 2), target, children, parents, met, levels, boxes, found)
    if anew:
        top.root, top.depth = found.numpy().tolist()
        top.count, top.nodes = 0 if nodes else count, nodes
        target.top, target.depth = top, top.depth
        target.children = seen_as(children, wp.vec4i, nodes)
    target.boxes = seen_as(boxes, wp.vec4, nodes, 3)
    target.triangles = seen_as(triangles, wp.vec4, rows, 3)
    return target, count


def cost_of(target: Any) -> float:
    """Return the SAH cost of a tree on a device, whose nodes are binary; 0 if it is empty."""
    nodes = len(target.children)
    sides = np.maximum(np.subtract(target.top.upper, target.top.lower), 0.0)
    whole = float(sides @ np.roll(sides, 1))
    if not nodes or not whole:
        return float(not target.top.is_empty)
    areas = wp.empty(2 * nodes, dtype=f8, device=target.children.device)
    children = seen_as(target.children, wp.int32, nodes, 4)
    boxes = seen_as(target.boxes, f4, nodes, 3, 4)
    wp.launch(write_areas, (nodes, 2), inputs=[children, boxes, areas], device=areas.device)
    return 1.0 + float(wp.utils.array_sum(areas)) / whole
