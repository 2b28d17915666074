"""Build of a tree: from primitives to records in a local frame, to nodes, to its arrays."""

from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.arguments import Quality, check_option, kernel_input, owned, thread_count
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, warms
from bvh.runtime.memory import LARGE, aligned, reused
from bvh.runtime.simd import WIDTH
from bvh.runtime.threads import Progress, share
from bvh.tree.arrays import TreeArrays, frozen, frozen_primitives
from bvh.tree.binary_nodes import binary_nodes
from bvh.tree.builders import binned_sah, sbvh
from bvh.tree.builders import records as record
from bvh.tree.builders.subtrees import SMALLEST_TASK, chunk_size
from bvh.tree.collapse import widen
from bvh.tree.face_bits import NO_BITS
from bvh.tree.frame import local_frame, scale
from bvh.tree.nodes import Nodes, local_boxes
from bvh.tree.primitives import Primitives, Triangles, count_of, world_bounds
from bvh.tree.triangle_groups import GROUP_SIZE, pack_triangles
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, WideNodes

QUALITIES = get_args(Quality)
# Trees over fewer primitives are built by one thread, unless of quality "high": more take longer.
FEWEST_SHARED = 1 << 16
# Triangles that a thread takes at a time for records.
CHUNK = 16384
# How many triangles further on vertices are prefetched.
AHEAD = 24
# Triangle groups that a thread packs at a time.
PACK_CHUNK = 2048


class Prepared(NamedTuple):
    """Input of a builder, and the local frame that it is in."""

    records: NDArray[np.float32]  # one for each primitive that can be hit, then unused rows
    used: int  # primitives that can be hit
    frame: NDArray[np.float64]  # (2, 3): see `local_frame`
    bounds: NDArray[np.float64]  # (2, 3): corners of all primitives that can be hit; else NaN
    boxes: NDArray[np.float32] | None  # records (2, 8): the box of all, and of doubled centres


@inlined
def _box_of_triangle(triangles, i):
    """Return (lower, upper, is_valid) of triangle i: corners of its box, four lanes of doubles."""
    # The triangle is valid if all of its vertices are finite.
    # Prefetch the vertices of a triangle further on.
    later = 3 * min(i + AHEAD, len(triangles.faces) - 1)
    for k in range(3):
        vertex = np.int64(simd.peek(triangles.faces, later + k))
        simd.prefetch_address(simd.address(triangles.points, 3 * vertex))
    a = record.corner(triangles.points, np.int64(triangles.faces[i, 0]))
    b = record.corner(triangles.points, np.int64(triangles.faces[i, 1]))
    c = record.corner(triangles.points, np.int64(triangles.faces[i, 2]))
    # 0 times infinity or NaN is NaN, which is not 0; so is the sum of any number and NaN.
    is_valid = simd.mask_bits(a * 0.0 + b * 0.0 + c * 0.0 == 0.0) == 15
    return simd.lesser(a, simd.lesser(b, c)), simd.greater(a, simd.greater(b, c)), is_valid


@entry
def _bound_points(points, begin, end, bounds):
    """Write the bounds of the finite points in begin..end to `bounds`, (6,)."""
    low, high = simd.splat(INF, 4), simd.splat(-INF, 4)
    for i in range(begin, end):
        point = record.corner(points, i)
        if simd.mask_bits(point * 0.0 == 0.0) == 15:
            low, high = simd.lesser(low, point), simd.greater(high, point)
    _store_bounds(bounds, low, high)


@inlined
def _store_bounds(bounds, low, high):
    """Write two corners, four lanes of which the last is unused, to `bounds` (6,)."""
    for axis in range(3):
        bounds[axis] = simd.lane(low, np.int32(axis))
        bounds[axis + 3] = simd.lane(high, np.int32(axis))


@inlined
def _local_record(low, high, prim, middle, s):
    """Return the record of primitive `prim`, whose box has the world corners `low` and `high`.

    Corners are taken relative to `middle`, the frame's centre, and times its scale s. All are four
    lanes of doubles, the last of which is unused.
    """
    # Rounded outward to float32, as by `nodes.local_box`.
    low = simd.convert((low - middle) * s, np.float32(0.0))
    high = simd.convert((high - middle) * s, np.float32(0.0))
    return record.outward(record.box_record(low, high, prim))


@entry
def _record_triangles(triangles, begin, end, frame, records, row, boxes, bounds):
    """Write the records of the valid triangles in begin..end to rows from `row` on of `records`.

    Writes the box of these records to row 0 of `boxes`, the box of their doubled centres to row 1,
    and the bounds (6,) of these triangles in the world to `bounds`. Returns how many are valid.
    """
    middle, s = record.corner(frame, 0), scale(frame)
    lowest, highest = simd.splat(INF, 4), simd.splat(-INF, 4)
    box, centres, first = record.empty_box(), record.empty_box(), row
    for i in range(begin, end):
        low, high, is_valid = _box_of_triangle(triangles, i)
        if is_valid:
            lowest, highest = simd.lesser(lowest, low), simd.greater(highest, high)
            r = _local_record(low, high, i, middle, s)
            record.store(records, row, r)
            row += 1
            box = record.join(box, r)
            centres = record.join(centres, record.centre(r))
    record.store(boxes, 0, box)
    record.store(boxes, 1, centres)
    _store_bounds(bounds, lowest, highest)
    return row - first


@entry
def record_boxes(boxes, ids, frame, records):
    """Write the records of boxes[ids], in the local frame `frame`, to `records`."""
    # `boxes` (n, 6) are lower and upper corners in the world.
    middle, s = record.corner(frame, 0), scale(frame)
    for i in range(len(ids)):
        # A box is two rows of three numbers.
        row = 2 * np.int64(ids[i])
        low, high = record.corner(boxes, row), record.corner(boxes, row + 1)
        record.store(records, i, _local_record(low, high, ids[i], middle, s))


def prepare(primitives: Primitives, threads: int = 1, spare: float = 0.0) -> Prepared:
    """Find the local frame of primitives, and the records of those that can be hit."""
    # The records have room for pieces of triangles: `spare` times the number of records used.
    if isinstance(primitives, Triangles):
        return _prepare_triangles(primitives, threads, spare)
    lower, upper, valid = world_bounds(primitives)
    # int64: NumPy converts other indices in a buffer, and ignores a failure to allocate it.
    rows = np.flatnonzero(valid)
    frame, bounds = local_frame(lower[rows], upper[rows])
    # Two halves, between which a builder moves records.
    records = np.empty((2 * len(rows), record.WIDTH), np.float32)
    boxes, ids = np.hstack([lower, upper]), rows.astype(np.int32)
    record_boxes(kernel_input(boxes), kernel_input(ids), kernel_input(frame), records)
    return Prepared(records, len(rows), frame, bounds, None)


def _prepare_triangles(triangles: Triangles, threads: int, spare: float) -> Prepared:
    """Prepare triangles: find the local frame by their points, then write their records."""
    triangles = Triangles(*(kernel_input(array) for array in triangles))
    points, count = triangles.points, len(triangles.faces)
    size = chunk_size(CHUNK, threads)
    chunks = max(-(-count // size), 1)
    point_boxes = np.empty((max(-(-len(points) // size), 1), 6))
    boxes, valid = np.full((chunks, 6), np.nan), np.zeros(chunks, np.int64)
    joined = np.zeros((chunks, 2, record.WIDTH), np.float32)

    def survey(begin: int, end: int) -> None:
        _bound_points(points, begin, end, point_boxes[begin // size])

    def write(begin: int, end: int) -> None:
        i = begin // size
        valid[i] = _record_triangles(
            triangles, begin, end, frame, records, first[i], joined[i], boxes[i]
        )

    share(len(points), size, survey, threads)
    found = point_boxes if len(points) else point_boxes[:0]
    found = found[found[:, 0] <= found[:, 3]]  # without chunks that have no finite point
    frame, bounds = local_frame(found[:, :3], found[:, 3:])
    frame = kernel_input(frame)
    # Two halves, between which a builder moves records; each has room for `spare` * used more.
    records, first = _new_records(count, spare), np.arange(chunks) * size
    share(count, size, write, threads)
    used, low, high = int(valid.sum()), boxes[:, :3].min(axis=0), boxes[:, 3:].max(axis=0)
    # If some triangles are not valid, or there are other points further out, write records again.
    if used < count or (bounds[0] != low).any() or (bounds[1] != high).any():
        frame, bounds = local_frame(boxes[valid > 0, :3], boxes[valid > 0, 3:])
        frame = kernel_input(frame)
        # Each chunk writes from the row `first` on, after the valid triangles of those before.
        records, first = _new_records(used, spare), np.cumsum(valid) - valid
        share(count, size, write, threads)
    # Records hold lower corners negated, so the maximum over the chunks joins their boxes.
    return Prepared(records, used, frame, bounds, joined.max(axis=0))


def _new_records(used: int, spare: float) -> NDArray[np.float32]:
    """Return memory for two halves of `used` records, each with room for `spare` * used more."""
    size = 2 * (used + int(spare * used)) * record.WIDTH
    return aligned(size, np.float32).reshape(-1, record.WIDTH)


def build(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None,
    lanes: DTypeLike = np.float32,
) -> tuple[TreeArrays, NDArray[np.float64]]:  # fmt: skip
    """Build a tree over primitives; return it and its bounds in the world, shape (2, 3).

    `quality` is one of QUALITIES; `progress` gets (primitives done, all). `lanes` is the type of
    the numbers in triangle groups: int16 for compact ones.
    """
    check_option("quality", quality, QUALITIES)
    if quality != "high" and count_of(primitives) < FEWEST_SHARED:
        threads = 1
    binary, frame, bounds, records = _build_binary(primitives, quality, threads, progress)
    nodes = widen(binary, WIDTH if isinstance(primitives, Triangles) else 1, threads, records)
    root = binary.bounds[0].reshape(2, 3) if len(binary.links) else np.zeros((2, 3))
    frame = np.vstack([frame, root])
    # Free the binary tree before groups are made, which take the memory of the records.
    del binary, root
    groups = pack(primitives, nodes, frame, threads, lanes, records)
    return frozen(TreeArrays(nodes, groups, primitives, frame)), owned(bounds)


def build_binary(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[Nodes, NDArray[np.float64], NDArray[np.float64]]:
    """Build a binary tree; return it, its local frame (2, 3), and its bounds in the world (2, 3).

    Bounds are NaN if no primitive can be hit. The other arguments are as in `build`.
    """
    return _build_binary(primitives, quality, threads, progress)[:3]


def _build_binary(
    primitives: Primitives, quality: str, threads: int, progress: Progress | None
) -> tuple[Nodes, NDArray[np.float64], NDArray[np.float64], NDArray[np.float32] | None]:
    """Return what `build_binary` does, and the memory of the records if it can be `reused`."""
    spatial = isinstance(primitives, Triangles) and quality == "high"
    prepared = prepare(primitives, threads, sbvh.BUDGET if spatial else 0.0)
    records, count, frame, bounds, boxes = prepared
    if progress is not None:
        progress(0, count)
    if isinstance(primitives, Triangles) and spatial:
        nodes = sbvh.build(
            primitives, records, count, frame, boxes, threads=threads, progress=progress
        )
    elif isinstance(primitives, Triangles):
        nodes = binned_sah.build(records, boxes, threads=threads, progress=progress)
    else:
        # Other primitives are tested one by one, whatever the quality.
        nodes = binned_sah.build(
            records, threads=threads, progress=progress, group_bits=0, max_leaf=MAX_LEAF_ROWS
        )
    # Smaller memory is freed when this function returns, and is likely to be allocated next anyway.
    return nodes, frame, bounds, records if records.nbytes >= LARGE else None


def pack(
    primitives: Primitives, nodes: WideNodes, frame: NDArray[np.float64], threads: int,
    lanes: DTypeLike = np.float32, memory: NDArray[Any] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return the triangle groups of all leaves, flat; empty for primitives other than triangles.

    `lanes` is the type of their numbers, int16 for compact groups. `memory` is an array that is no
    longer needed, whose memory they may take.
    """
    if not isinstance(primitives, Triangles) or len(nodes.ids) == 0:
        return aligned(0, lanes)
    points, faces = primitives
    size = len(nodes.rows) * GROUP_SIZE
    groups = aligned(size, lanes) if memory is None else reused(memory, size, lanes)
    rows, frame = kernel_input(nodes.rows), kernel_input(frame)
    share(
        len(rows), chunk_size(PACK_CHUNK, threads),
        lambda begin, end: pack_triangles(points, faces, rows, frame, begin, end, groups), threads,
    )  # fmt: skip
    return groups


def in_full(arrays: TreeArrays) -> TreeArrays:
    """Return a tree with full triangle groups: the tree itself unless its groups are compact."""
    # The full tree of a compact one is made once, and kept in its attribute `_full`.
    if not arrays.compact:
        return arrays
    known: TreeArrays | None = vars(arrays).get("_full")
    if known is None:
        groups = pack(arrays.primitives, arrays.nodes, arrays.frame, thread_count(None))
        known = vars(arrays).setdefault("_full", frozen(arrays._replace(groups=groups)))
    return known


def without_hidden(arrays: TreeArrays) -> TreeArrays:
    """Return a tree without the faces whose bits are all 0, which no mask selects, in full groups.

    A kernel that takes no mask then sees the faces that the mask of all bits selects.
    """
    data, ids = arrays.nodes.data, arrays.nodes.ids
    hidden = (arrays.face_bits == 0) & (ids >= 0) if len(arrays.face_bits) else np.zeros(0, bool)
    if not hidden.any():
        return in_full(arrays)
    nodes = WideNodes(data, kernel_input(np.where(hidden, np.int32(-1), ids)))
    groups = pack(arrays.primitives, nodes, arrays.frame, thread_count(None))
    return frozen(arrays._replace(nodes=nodes, groups=groups, face_bits=NO_BITS))


@warms("builders")
def _warm() -> None:
    """Compile the builders of every quality."""
    # More triangles than one thread builds alone, and more in one cell of a grid, too.
    count = 2 * SMALLEST_TASK
    points = np.random.default_rng(0).random((3 * count, 3))
    points[: 2 * count] *= 1e-3
    # Needles across space, which planes cut.
    points[2 * count + 4 :: 3] = points[2 * count + 2 : -2 : 3] + 1e-3
    faces = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    triangles = frozen_primitives(Triangles(points, faces))
    for quality in QUALITIES:
        arrays, _ = build(triangles, quality, 1, None)
    # As devices have them.
    binary_nodes(arrays.nodes, np.zeros(len(arrays.nodes.ids) + 1, np.int64), 0, 0)
    _, frame, _ = build_binary(triangles, "medium", 1, None)
    lower, upper, _ = world_bounds(triangles)
    local_boxes(lower, upper, frame)
