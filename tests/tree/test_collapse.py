"""Collapse: wide nodes of least area, numbered the same for any threads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bvh.runtime.simd import WIDTH
from bvh.tree.build import build_binary
from bvh.tree.builders.subtrees import batches_of
from bvh.tree.collapse import SMALLEST_TASK, widen
from bvh.tree.nodes import Nodes
from bvh.tree.wide_nodes import half_areas, lanes_of
from tests.tree.test_builders import random, triangles_of


def least_area(nodes: Nodes) -> float:
    """Return the least area in sum of the wide nodes that a tree can be collapsed to."""
    areas = half_areas(nodes.bounds)

    @cache
    def below(node: int, lanes: int) -> float:
        """Return the least area of the wide nodes of a subtree that takes so many lanes."""
        if nodes.links[node, 1] > 0:
            return 0.0
        return min(areas[node] + opened(node, WIDTH), opened(node, lanes))

    def opened(node: int, lanes: int) -> float:
        left = int(nodes.links[node, 0])
        shares = range(1, lanes)
        return min((below(left, k) + below(left + 1, lanes - k) for k in shares), default=np.inf)

    return float(areas[0]) + opened(0, WIDTH)


@pytest.mark.parametrize("n", [20, 300, 3_000])
def test_the_area_is_the_least(n: int, rng: np.random.Generator) -> None:
    """That of all ways to collapse, but for rounding and the little that each node costs."""
    nodes, _, _ = build_binary(triangles_of(random(rng, n)), "medium", 1, None)
    view = lanes_of(widen(nodes, WIDTH).data)
    bounds = np.moveaxis(view.boxes, 1, 2)
    found = half_areas(nodes.bounds[:1])[0] + half_areas(bounds[view.inner]).sum()
    assert found == pytest.approx(least_area(nodes), rel=1e-3)


def test_numbers_of_nodes(rng: np.random.Generator) -> None:
    """Siblings are neighbours, children come after their parents, for any number of threads."""
    mesh = random(rng, 3 * WIDTH * SMALLEST_TASK)
    nodes, _, _ = build_binary(triangles_of(mesh), "medium", 2, None)
    made = widen(nodes, WIDTH)
    assert len(made.ids) > 2 * SMALLEST_TASK
    view = lanes_of(made.data)
    for node, (codes, inner) in enumerate(zip(view.codes, view.inner, strict=True)):
        children = codes[inner]
        assert (np.diff(children) == 1).all() and (children > node).all()
    for threads in (2, 5):
        other = widen(nodes, WIDTH, threads)
        assert other.data.tobytes() == made.data.tobytes()
        assert other.ids.tobytes() == made.ids.tobytes()


def test_batches() -> None:
    """Runs of tasks cover the list, each of about the size asked for, or of one task."""
    sizes = np.array([5, 5, 100, 1, 1, 1])
    batches = batches_of(sizes, 10)
    assert [i for begin, end in batches for i in range(begin, end)] == list(range(6))
    assert batches_of(sizes[:0], 10) == [(0, 0)]
