"""Refit: the boxes of all nodes again, from below, for primitives that have moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.builders.records import join, load_bounds, nothing, store_bounds
from bvh.jit import entry, inlined
from bvh.nodes import Nodes, is_leaf
from bvh.workers import share

# Nodes that a thread takes at a time.
CHUNK = 8192


@inlined
def join_children(bounds, links, node):
    """Set the box of an inner node to that of its children."""
    child = np.int64(links[node, 0])
    store_bounds(bounds, node, join(load_bounds(bounds, child), load_bounds(bounds, child + 1)))


@entry
def _bound_leaves(boxes, links, order, begin, end, bounds):
    """Bound the leaves among the nodes begin..end."""
    for node in range(begin, end):
        if is_leaf(links, node):
            box = nothing()
            first = np.int64(links[node, 0])
            for i in range(first, first + links[node, 1]):
                box = join(box, load_bounds(boxes, np.int64(order[i])))
            store_bounds(bounds, node, box)


@entry
def _bound_inner(links, bounds):
    """Bound inner nodes, whose children come after them."""
    for node in range(len(links) - 1, -1, -1):
        if not is_leaf(links, node):
            join_children(bounds, links, node)


def refit(nodes: Nodes, boxes: NDArray[np.float32], threads: int = 1) -> Nodes:
    """Return the tree with its nodes bounded anew.

    Parameters
    ----------
    nodes : Nodes
        A tree whose children have higher numbers than their parents, as all builders make it.
    boxes : ndarray of float32, shape (n, 6)
        Lower and upper corner of each primitive, in the frame that the tree is to have.
    threads : int
        Threads to use.

    Returns
    -------
    Nodes
        With the links and the order of the given tree. Where that has split primitives, their
        whole boxes are taken: the tree stays right, but not as tight as it was built.
    """
    boxes, links, order = kernel_input(boxes), kernel_input(nodes.links), kernel_input(nodes.order)
    bounds = np.empty((len(links), 6), np.float32)

    def leaves(begin: int, end: int) -> None:
        _bound_leaves(boxes, links, order, begin, end, bounds)

    if len(bounds):
        share(len(bounds), CHUNK, leaves, threads)
        _bound_inner(links, bounds)
    return Nodes(bounds, links, order)
