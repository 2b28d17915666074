"""Safety checks of a saved tree's arrays, because kernels check nothing.

Kernels follow child codes, rows, ids and vertex indices wherever they lead; their stacks have
capacity for trees of limited depth; and the exact tests need finite primitives and leaf copies from
which the float32 filter never accepts a wrong hit. `check_tree` checks all of that, and the frame
and bounds, which follow from the primitives. It is linear in their size, takes at most a byte for
each node, row and primitive, and runs on threads. Whether boxes contain what is below them, on
which answers depend but safety does not, is checked by `stats.check`.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, finite, lower_of, upper_of, vector
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import warms
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, peek
from bvh.runtime.threads import share
from bvh.tree import wide_nodes
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import build
from bvh.tree.frame import FrameView, local_frame
from bvh.tree.primitives import Custom, Primitives, Triangles, count_of, world_bounds
from bvh.tree.shapes import shape_of
from bvh.tree.triangle_groups import GROUP_SIZE, first_id, pack_triangles

Marks = NDArray[np.uint8]
Corners = NDArray[np.float64]

# Levels below the root, with leaves: on level k a stack has up to k * (WIDTH - 1) + WIDTH entries.
DEEPEST = wide_nodes.STACK // WIDTH - 2

# Primitives, and triangle groups, that a thread takes at a time: scratch that stays in caches.
CHUNK, GROUP_CHUNK = 1 << 11, 256

# Results of `_check_nodes`.
SOUND, ORPHAN, GAP, BOX, CHILD, PARENTS, DEEP, ROWS, SHARED, LOST, PERMUTATION = range(11)
FLAWS = {
    ORPHAN: "node {} has no parent",
    GAP: "node {} has an unused lane before a used one",
    BOX: "node {} has a box that is none",
    CHILD: "node {} has a child that is out of range or comes before it",
    PARENTS: "node {} has a child that has another parent",
    DEEP: "node {} lies deeper than any tree has to be",
    ROWS: "node {} has a leaf that is out of range",
    SHARED: "node {} has a leaf that shares a row of primitives with another",
    LOST: "row {} of primitives is in no leaf",
    PERMUTATION: "node {} has a visiting order that leaves out a child",
}


@entry
def _check_nodes(blocks, limit, deepest, level, owned):
    """Return the first flaw that makes nodes unsafe to traverse, and the node or row that has it.

    The flaw is a key of FLAWS; sound nodes give (SOUND, 0). `blocks` are the nodes, `limit` bounds
    the coordinates of boxes, and `deepest` is the first level that is too deep. `level` and `owned`
    are zeros for each node and each row of primitives; they are set to the level of each node but
    the root, and to 1 for each row in a leaf.
    """
    nodes = wide_nodes.node_count(blocks)
    low, high = np.float32(INF), np.float32(-INF)
    for node in range(nodes):
        at = wide_nodes.node_at(node)
        if node > 0 and level[node] == 0:
            return ORPHAN, node
        # False from the first unused lane on.
        all_used = True
        for c in range(WIDTH):
            code = wide_nodes.child_code(blocks, at + c)
            unused, valid = code == 0, True
            for axis in range(3):
                a = wide_nodes.child_lower(blocks, at + c, axis)
                b = wide_nodes.child_upper(blocks, at + c, axis)
                unused = unused and a == low and b == high
                # False for a NaN, too.
                valid = valid and -limit <= a <= b <= limit
            # The code 0 and the empty box (inf, -inf) mark an unused lane.
            if unused:
                all_used = False
                continue
            if not all_used:
                return GAP, node
            if not valid:
                return BOX, node
            # A code from 0 up is a child node, a negative one a leaf.
            if code >= 0:
                if code <= node or code >= nodes:
                    return CHILD, node
                if level[code] != 0:
                    return PARENTS, node
                level[code] = level[node] + 1
                # The leaves of the child are one level deeper.
                if level[code] >= deepest:
                    return DEEP, code
            else:
                first, count = wide_nodes.leaf_rows(code)
                if first + count > len(owned):
                    return ROWS, node
                for row in range(first, first + count):
                    if owned[row] != 0:
                        return SHARED, node
                    owned[row] = 1
        # For each octant of ray directions, the visiting order must be a permutation of the lanes.
        for octant in range(8):
            seen = 0
            for c in range(WIDTH):
                order = wide_nodes.child_order(blocks, at + c)
                seen |= 1 << (order >> wide_nodes.octant_shift(octant) & (WIDTH - 1))
            if seen != (1 << WIDTH) - 1:
                return PERMUTATION, node
    for row in range(len(owned)):
        if owned[row] == 0:
            return LOST, row
    return SOUND, 0


@entry
def _survey(points, faces, begin, end, valid, bounds):
    """Return the first face of begin..end - 1 with a vertex index out of range, or -1.

    Writes to `valid` whether each face is finite, and to `bounds` (6,) the lower and upper corner
    of the box of the finite faces.
    """
    low, high = (INF, INF, INF), (-INF, -INF, -INF)
    n = len(points)
    for i in range(begin, end):
        j, k, m = np.int64(faces[i, 0]), np.int64(faces[i, 1]), np.int64(faces[i, 2])
        if min(j, min(k, m)) < 0 or max(j, max(k, m)) >= n:
            return i
        a, b, c = vector(points, j), vector(points, k), vector(points, m)
        valid[i] = finite(a) and finite(b) and finite(c)
        if valid[i]:
            low = lower_of(low, lower_of(a, lower_of(b, c)))
            high = upper_of(high, upper_of(a, upper_of(b, c)))
    for axis in range(3):
        bounds[axis], bounds[axis + 3] = low[axis], high[axis]
    return -1


@entry
def _check_ids(rows, min_id, begin, end, valid):
    """Return the first wrong row of begin..end - 1, or -1; set `valid` of primitives in rows to 2.

    `rows` (n, lanes) are ids of primitives. `valid` is 0 for primitives that cannot be hit, else 1
    or 2. A row is wrong if it has an id out of range, or of a primitive that cannot be hit.
    `min_id` is -1 if the id -1 marks unused lanes, else 0.
    """
    for row in range(begin, end):
        for i in range(first_id(rows, row), (row + 1) * rows.shape[1]):
            prim = np.int64(peek(rows, i))
            if prim < min_id or prim >= len(valid):
                return row
            if prim >= 0:
                if valid[prim] == 0:
                    return row
                valid[prim] = 2
    return -1


def check_primitives(primitives: Primitives, threads: int) -> tuple[Marks, Corners]:
    """Return which primitives can be hit, 1 or 0 for each, and the box (2, 3) of these.

    Raises for primitives that kernels cannot read.
    """
    count = count_of(primitives)
    valid, bounds = np.zeros(count, np.uint8), np.empty((-(-count // CHUNK), 6))

    def work(begin: int, end: int) -> None:
        for start in range(begin, end, CHUNK):
            stop = min(start + CHUNK, end)
            if isinstance(primitives, Triangles):
                bad = _survey(*primitives, start, stop, valid, bounds[start // CHUNK])
                if bad >= 0:
                    raise ValueError(f"face {bad} has a vertex that is out of range")
            elif not isinstance(primitives, Custom):
                part = type(primitives)(primitives.points[start:stop])
                # The first wrong row, or -1, and the error with {} for its number.
                bad, flaw = shape_of(part).flaw(part.points)
                if bad >= 0:
                    raise ValueError(flaw.format(start + bad))
                with np.errstate(all="ignore"):
                    lower, upper, sound = world_bounds(part)
                valid[start:stop], box = sound, bounds[start // CHUNK]
                box[:3] = lower[sound].min(axis=0, initial=np.inf)
                box[3:] = upper[sound].max(axis=0, initial=-np.inf)

    share(count, CHUNK, work, threads)
    low = bounds[:, :3].min(axis=0, initial=np.inf)
    return valid, np.stack([low, bounds[:, 3:].max(axis=0, initial=-np.inf)])


def check_tree(arrays: TreeArrays, bounds: Corners, threads: int) -> None:
    """Raise unless kernels may traverse a tree, whose arrays have the right types and sizes.

    `bounds` (2, 3) is the tree's box as the file says. Triangle groups may be missing.
    """
    (blocks, rows), groups, primitives, frame, _ = arrays
    valid, extent = check_primitives(primitives, threads)
    # Of one box around all primitives, or of no box.
    corners = extent[:, None] if valid.any() else np.empty((2, 0, 3))
    expected_frame, expected_bounds = local_frame(*corners)
    if not np.array_equal(expected_bounds, bounds, equal_nan=True):
        raise ValueError("its bounds are not those of its primitives")
    # The other two rows of `frame` are the root's box, which `_check_root` checks.
    if not np.array_equal(expected_frame, frame[:2]):
        raise ValueError("its frame is not that of its primitives")
    # Boxes are rounded outward, but not beyond this limit.
    limit = np.float32(2.0 * FrameView(frame).bound)
    level, owned = np.zeros(arrays.nodes.size, np.int8), np.zeros(len(rows), np.uint8)
    flaw, where = _check_nodes(blocks, limit, np.int64(DEEPEST), level, owned)
    if flaw != SOUND:
        raise ValueError(FLAWS[flaw].format(where))
    _check_root(blocks, FrameView(frame).box, limit)
    min_id = np.int64(-1 if isinstance(primitives, Triangles) else 0)

    def work(begin: int, end: int) -> None:
        row = _check_ids(rows, min_id, begin, end, valid)
        if row >= 0:
            raise ValueError(f"row {row} of primitives has an id that is wrong")
        if len(groups) > 0:
            _check_groups(arrays, begin, end)

    share(len(rows), GROUP_CHUNK, work, threads)
    # Primitives in leaves are marked by 2, those that cannot be hit by 0.
    if (valid == 1).any():
        raise ValueError(f"primitive {int((valid == 1).argmax())} is in no leaf")


def _check_root(blocks: NDArray[np.float32], box: Corners, limit: np.float32) -> None:
    """Raise unless the root's `box` (2, 3), which clips rays, holds its children, up to `limit`."""
    if len(blocks):
        planes = wide_nodes.lanes_of(blocks[: wide_nodes.NODE_SIZE]).boxes[0]
        lower, upper = planes[:3].min(axis=1), planes[3:].max(axis=1)
        sound = (box[0] <= lower).all() and (upper <= box[1]).all()
    else:
        sound = not box.any()
    if not (sound and (np.abs(box) <= limit).all()):
        raise ValueError("the root's box does not hold its children")


def _check_groups(arrays: TreeArrays, begin: int, end: int) -> None:
    """Raise unless the groups begin..end - 1 are those packed from their triangles, bit for bit."""
    # Row k of `rows` has the triangles of group k, which is GROUP_SIZE numbers of `groups`.
    (_, rows), groups, primitives, frame, _ = arrays
    scratch = aligned(min(end - begin, GROUP_CHUNK) * GROUP_SIZE, groups.dtype)
    for start in range(begin, end, GROUP_CHUNK):
        count = min(GROUP_CHUNK, end - start)
        part = kernel_input(rows[start : start + count])
        pack_triangles(*primitives, part, frame, np.int64(0), np.int64(count), scratch)
        expected = scratch[: count * GROUP_SIZE].view(np.int32)
        stored = groups[start * GROUP_SIZE : (start + count) * GROUP_SIZE].view(np.int32)
        if not np.array_equal(expected, stored):
            raise ValueError("a leaf's copy of its triangles differs from them")


@warms("checks of saved trees")
def _warm() -> None:
    """Compile the checks of trees over triangles."""
    points, faces = np.eye(3), np.array([[0, 1, 2]], np.int32)
    triangles = Triangles(kernel_input(points), kernel_input(faces))
    check_tree(*build(triangles, "medium", threads=1, progress=None), threads=1)
