"""The audit of trees: it finds every kind of corruption."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH
from bvh.runtime.simd import WIDTH
from bvh.tree.build import build_binary
from bvh.tree.nodes import Nodes, local_boxes
from bvh.tree.primitives import world_bounds
from bvh.tree.stats import check, check_wide
from bvh.tree.wide_nodes import WideNodes, lanes_of
from tests.cases.binary_trees import check_nodes
from tests.cases.soups import soup

# One wrong entry each, and what the audit says; `leaf` is the fullest one.
CORRUPTIONS = {
    "links[inner, 0] = inner": "parent",
    "links[inner, 0] = 0": "parent",
    "links[inner, 0] = links[0, 0]": "parent",
    "links[inner, 0] = len(links) - 1": "outside",
    "links[inner, 0] = 2**31 - 1": "outside",
    "links[inner, 0] = -1": "negative",
    "links[leaf, 1] = -1": "negative",
    "links[leaf, 0] = len(order)": "outside",
    "links[leaf, 1] = 2**31 - 1": "outside",
    "links[leaf, 1] -= 1": "primitive",
    "order[0] = order[1]": "primitive",
    "order[0] = 10**6": "primitive",
    "order[0] = -1": "primitive",
    "bounds[1, 3] = 2": "node 1 sticks out",
    "bounds[2, 1] = -2": "node 2 sticks out",
    "bounds[2, 4] = nan": "sticks out",
    "bounds[0, 0] = nextafter(bounds[0, 0], bounds[0, 3])": "sticks out",
    "bounds[leaf, 5] = nextafter(bounds[leaf, 5], bounds[leaf, 2])": "sticks out",
    "bounds[leaf, 2] = nextafter(bounds[leaf, 2], bounds[leaf, 5])": "sticks out",
}


def boxes_of(tree: BVH) -> tuple[np.ndarray, np.ndarray]:
    """Return the local boxes of a tree's primitives, and the ids of all."""
    lower, upper, _ = world_bounds(tree.arrays.primitives)
    return local_boxes(lower, upper, tree.arrays.frame), np.arange(len(tree), dtype=np.int32)


@pytest.mark.parametrize("change", CORRUPTIONS)
def test_the_audit_of_binary_trees_finds(change: str, rng: np.random.Generator) -> None:
    """Every kind of corruption."""
    tree = BVH.from_triangles(*soup(rng, 200, 0.5))
    boxes, ids = boxes_of(tree)
    made, _, _ = build_binary(tree.arrays.primitives, "medium", 1, None)
    nodes = Nodes(*(array.copy() for array in made))
    check_nodes(nodes, boxes, ids)
    places = {
        "inner": np.flatnonzero(nodes.links[1:, 1] == 0)[0] + 1,
        "leaf": nodes.links[:, 1].argmax(),
    }
    exec(change, vars(np) | nodes._asdict() | places)
    with pytest.raises(ValueError, match=CORRUPTIONS[change]):
        check_nodes(nodes, boxes, ids)


def test_the_audit_finds_what_no_single_entry_shows() -> None:
    """A cycle away from the root, and a tree that is missing."""
    boxes = np.tile(np.array([-1, -1, -1, 1, 1, 1], np.float32), (5, 1))
    # The root is a leaf; 1 and 3 are each other's parents, 2 and 4 leaves.
    links = np.array([[0, 1], [3, 0], [1, 1], [1, 0], [2, 1]], np.int32)
    order, parts = np.arange(3, dtype=np.int32), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="root"):
        check_nodes(Nodes(boxes, links, order, parts), boxes[:3], order)
    with pytest.raises(ValueError, match="3 primitives"):
        check_nodes(Nodes(boxes[:0], links[:0], order[:0], parts), boxes[:3], order)


# The same for wide nodes: lane k of node p is the last inner child, l of node q the last leaf.
WIDE_CORRUPTIONS = {
    "codes[p, k] = 0": "no parent",
    "codes[p, k] = p": "no parent",
    "codes[p, k] = len(codes)": "no parent",
    "codes[p, k] = 2**31 - 1": "no parent",
    "codes[p, k] = codes[0, inner[0]][0]": "no parent",
    "codes[p, k], codes[0, inner[0].argmax()] = codes[0, inner[0].argmax()], p": "no parent",
    "codes[p, k] = ~(8 * len(ids))": "no parent",
    "boxes[p, 0, k] = inf": "no parent",
    "codes[q, l] = ~(8 * len(ids))": "outside",
    "codes[q, l] = -(2**31)": "outside",
    "codes[q, l] -= 1": "(?:row of primitives|outside)",
    "codes[q, l] += 8": "row of primitives",
    "codes[q, l] = codes[leaf][codes[leaf] != codes[q, l]][0]": "row of primitives",
    "boxes[q, 3, l] = -inf": "row of primitives",
    "ids[0, 0] = ids[1, 0]": "primitive is in no leaf",
    "ids[0, 0] = 10**6": "primitive is in no leaf",
    "ids[0, 0] = -1": "primitive is in no leaf",
    "ids[where(ids < 0)[0][0], -1] = ids[where(ids < 0)[0][0], 0]": "in a leaf twice",
    "boxes[p, 0, k] = nextafter(boxes[p, 0, k], boxes[p, 3, k])": "sticks out of its parent",
    "boxes[p, 4, k] = nextafter(boxes[p, 4, k], boxes[p, 1, k])": "sticks out of its parent",
    "boxes[q, 2, l] = nextafter(boxes[q, 2, l], boxes[q, 5, l])": "sticks out of its leaves",
    "boxes[q, 5, l] = nextafter(boxes[q, 5, l], boxes[q, 2, l])": "sticks out of its leaves",
    "orders[q, 0] ^= 1": "visiting order",
    "orders[p, -1] ^= 1 << 15": "visiting order",
    "orders[q] = 0": "visiting order",
}


@pytest.mark.parametrize("change", WIDE_CORRUPTIONS)
def test_the_audit_finds(change: str, rng: np.random.Generator) -> None:
    """Every kind of corruption."""
    tree = BVH.from_triangles(*soup(rng, 2_000, 0.5))
    boxes, ids = boxes_of(tree)
    nodes = WideNodes(*(array.copy() for array in tree.arrays.nodes))
    check_wide(nodes, boxes, ids)
    view = lanes_of(nodes.data)
    p, k = np.argwhere(view.inner)[-1]
    q, l = np.unravel_index(np.where(view.leaf, ~view.codes, -1).argmax(), view.leaf.shape)  # noqa: E741
    places = {"ids": nodes.ids, "p": p, "k": k, "q": q, "l": l}
    with np.errstate(invalid="ignore"):
        exec(change, vars(np) | view._asdict() | places)
        with pytest.raises(ValueError, match=WIDE_CORRUPTIONS[change]):
            check_wide(nodes, boxes, ids)


def test_the_audit_finds_what_is_not_in_the_nodes(rng: np.random.Generator) -> None:
    """A tree that is missing, and copies of triangles that are none."""
    tree = BVH.from_triangles(*soup(rng, 200))
    boxes, ids = boxes_of(tree)
    with pytest.raises(ValueError, match="200 primitives are in no leaf"):
        check_wide(WideNodes(*(array[:0] for array in tree.arrays.nodes)), boxes, ids)
    groups = tree.arrays.groups.copy()
    check(tree.arrays._replace(groups=groups))
    for place in (0, 7 * WIDTH, 9 * WIDTH, len(groups) - 1):
        spoiled = groups.copy()
        spoiled.view(np.int32)[place] ^= 1
        with pytest.raises(ValueError, match="differs from its triangles"):
            check(tree.arrays._replace(groups=spoiled))
