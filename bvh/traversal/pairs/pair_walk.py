"""Walk through pairs of subtrees of two trees: the stack, the task, and the loop of both searches.

A search is of two trees, the *sides*; names with 2 are those of the second. A subtree is given by
its code, of a node (0 or more) or a leaf (below 0), and the position of its box, which is that of
its parent times WIDTH plus its lane there; the root has 0 for both. An entry of the stack is five
numbers: a key, by which a search may order or drop pairs, and code and box of both sides. The class
of a search defines how a pair is visited, and when the search pauses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, field, shifted
from bvh.runtime.tuple_references import Pointer, as_pointers
from bvh.traversal.pairs.pair_frames import SIDE_SIZE
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers
from bvh.tree.wide_nodes import STACK, child_code, node_at

ENTRY = 5
# Opening a pair pops one entry and pushes up to WIDTH**2 where opening a node pushes WIDTH; a path
# of pairs opens each side at most as often as a ray does.
PAIRS_STACK = ENTRY * (WIDTH + 2) * STACK

# (key, code, box, code2, box2) of an entry.
entry, set_entry = field(np.int64, *range(ENTRY))


class PairTask(NamedTuple):
    """The trees, maps, stack and state of a search through two trees, inside kernels."""

    tree: TreePointers
    tree2: TreePointers
    side: Pointer[np.float64]  # the map of the first tree: see `pair_frames`
    side2: Pointer[np.float64]
    # For closest pairs alone (see `tree.rows`): the lowest id below each box of the first tree, and
    # the oriented boxes of both.
    lowest: Pointer[np.int32]
    boxes: Pointer[np.float32]
    boxes2: Pointer[np.float32]
    stack: Pointer[np.int64]
    search: Any


@inlined
def task_of(row, row2, sides, stack, search):
    """Return the `PairTask` of a search through two trees over triangles.

    `row` and `row2` are the trees' rows, each a `TriangleRow`; `sides` are the maps of both, each
    SIDE_SIZE numbers (see `pair_frames`), and `stack` is the memory for subtrees to be visited. The
    class of `search`, which defines the functions of the search, is in SEARCHES.
    """
    words, words2 = tree_rows.row_at(row.address), tree_rows.row_at(row2.address)
    return PairTask(
        as_pointers(row), as_pointers(row2), sides, shifted(sides, SIDE_SIZE),
        tree_rows.lowest(words), tree_rows.boxes(words), tree_rows.boxes(words2), stack, search,
    )  # fmt: skip


@inlined
def push(stack, top, key, child, child2):
    """Push two subtrees, each as (code, position of its box), with a key; return the new height."""
    set_entry(stack, top, (key, child[0], child[1], child2[0], child2[1]))
    return top + ENTRY


@inlined
def push_roots(stack):
    """Store the pair of roots, of codes 0, as the stack's only entry; return the stack's height."""
    set_entry(stack, np.int64(0), (0, 0, 0, 0, 0))
    return np.int64(ENTRY)


@inlined
def child_of(blocks, code, box, lane):
    """Return (code, position of the box) of the child in a lane of a node of a tree.

    `blocks` are the tree's nodes, `code` the node's code, and `box` the position of its box. A leaf
    counts as its own child: its own `code`, which is negative, and `box` are returned.
    """
    if code < 0:
        return code, box
    return child_code(blocks, node_at(code) + lane), code * WIDTH + lane


# Functions (visit, pauses), by the class of a search; files of searches add theirs.
SEARCHES: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


@by_type(inline=True)
def visit(search, task, top, pair):
    """Open a pair of subtrees, or test the faces of two leaves; return the stack's new height.

    The class of `search` chooses the function, at compile time. `pair` is the entry (key, code,
    box, code2, box2), already popped from the stack, whose height then is `top`.
    """
    return SEARCHES[search.instance_class][0]


@by_type(inline=True)
def pauses(search):
    """Return whether a search must pause before the next pair; its class chooses the function."""
    return SEARCHES[search.instance_class][1]


@inlined
def walk(task, top, steps):
    """Visit up to `steps` pairs from the top of the stack; return (stack's height, steps left).

    `task` is a `PairTask`, and `top` the stack's height in numbers, ENTRY for each pair. The walk
    ends early if the stack is empty or the search pauses.
    """
    while top > 0 and steps > 0 and not pauses(task.search):
        top -= ENTRY
        steps -= 1
        top = visit(task.search, task, top, entry(task.stack, top))
    return top, steps
