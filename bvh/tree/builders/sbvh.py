"""Builder with spatial splits (Stich, Friedrich and Dietrich 2009, "Spatial splits in bounding
volume hierarchies").

Where the halves of the cheapest split of a range overlap, planes of space are tried as well: a
triangle that crosses the plane goes to both sides, each time with the box of its part there. A
budget limits the number of pieces: every range has capacity for its share and divides it between
its halves, so that the tree does not depend on threads. Pieces in the same leaf become one again.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.memory import Shelf, aligned
from bvh.runtime.threads import Progress
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.binned_sah import MAX_LEAF, Limits, subtree_builder
from bvh.tree.builders.bins import BINS, GROUP_BITS, new_sides
from bvh.tree.builders.grid import bound_all
from bvh.tree.builders.shared_splits import LEAST_CHUNK, Shared, split_top
from bvh.tree.builders.space import Spatial
from bvh.tree.nodes import Nodes, is_leaf, link_leaf
from bvh.tree.primitives import Triangles

# Pieces that may be added, as a share of the number of triangles.
BUDGET = 0.3
# Planes are tried if the surface of the halves' overlap is at least this share of the root's.
OVERLAP = 1e-3


@entry
def _merge(links, order, out):
    """Copy ids from `order` to `out` without duplicates within a leaf; return their number."""
    # `links` of leaves, which refer to `order`, are changed to refer to `out`.
    used = 0
    for node in range(len(links)):
        if not is_leaf(links, node):
            continue
        first = np.int64(links[node, 0])
        begin = used
        for i in range(first, first + links[node, 1]):
            duplicate = False
            for j in range(begin, used):
                duplicate = duplicate or out[j] == order[i]
            if not duplicate:
                out[used] = order[i]
                used += 1
        link_leaf(links, node, begin, used - begin)
    return used


def build(
    triangles: Triangles, records: NDArray[np.float32], count: int, frame: NDArray[np.float64],
    boxes: NDArray[np.float32] | None = None, *, threads: int = 1, progress: Progress | None = None,
) -> Nodes:  # fmt: skip
    """Build a tree with spatial splits over `count` triangles.

    The first `count` rows of `records` are the triangles' records in the local frame. All rows are
    overwritten; half of them are the capacity for triangles and pieces. `boxes` (2, 8) are the box
    of all records and that of their doubled centres, if they are known.
    """
    capacity = len(records) // 2
    if count == 0:
        return subtrees.no_nodes()
    deepest, grain = subtrees.deepest_level(count), subtrees.task_size(count)
    box = bound_all(records, count, threads) if boxes is None else boxes
    # The size of the root's box: records store minus the lower corner.
    x, y, z = (box[0, record.UPPER : record.UPPER + 3] + box[0, :3]).tolist()
    overlap = np.float32(OVERLAP * (x * y + y * z + z * x))
    order = aligned(capacity, np.int32)

    def new_spatial() -> Spatial:
        return Spatial(
            triangles, frame, overlap, record.new(3 * BINS), np.empty(6 * BINS, np.int32),
            np.empty((3, 3)),
        )  # fmt: skip

    subtree = subtree_builder(records, Limits(deepest, GROUP_BITS, MAX_LEAF), new_spatial)

    def report(done: int, _: int) -> None:
        # `done` counts pieces, of which there may be more than triangles.
        if progress is not None:
            progress(min(done, count), count)

    shared = Shared(
        records, capacity, Shelf(new_spatial), deepest, max(grain, LEAST_CHUNK), threads,
        new_sides(BINS),
    )  # fmt: skip
    links, tasks = split_top(shared, count, box, grain)
    nodes = subtrees.build_tasks(links, tasks, order, subtree, threads, report)
    merged = aligned(len(order), np.int32)
    return nodes._replace(order=merged[: _merge(nodes.links, order, merged)].copy())
