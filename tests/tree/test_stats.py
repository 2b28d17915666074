"""Figures of trees, against their definitions."""

from __future__ import annotations

import pickle
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.tree.build import QUALITIES
from tests.cases.saved_trees import KINDS, tree_of
from tests.cases.soups import FLAT, soup
from tests.oracles import storage as oracle_storage

Rng = np.random.Generator


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quality", QUALITIES)
def test_histograms(kind: str, quality: str, rng: Rng) -> None:
    """They count every leaf once."""
    tree = tree_of(kind, rng, 3_000, quality)
    stats = tree.stats()
    levels, sizes = oracle_storage.depths(tree)
    assert stats.leaf_depths == tuple(np.bincount(levels).tolist())
    assert stats.leaf_sizes == tuple(np.bincount(sizes).tolist())
    assert sum(stats.leaf_depths) == sum(stats.leaf_sizes) == stats.leaves
    assert (len(stats.leaf_depths), len(stats.leaf_sizes)) == (
        stats.depth + 1,
        stats.largest_leaf + 1,
    )
    held = sum(k * n for k, n in enumerate(stats.leaf_sizes))
    assert stats.ignored > 0 and held >= 3_000 - stats.ignored
    assert held == 3_000 - stats.ignored or (kind, quality) == ("triangles", "high")
    assert stats.bytes_per_primitive == stats.bytes / 3_000


def test_figures_of_small_trees() -> None:
    """None, one, and nothing that can be hit."""
    none = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)).stats()
    assert (none.leaf_depths, none.leaf_sizes, none.bytes_per_primitive) == ((), (), 0)
    one = BVH.from_triangles(FLAT, [[0, 1, 2]]).stats()
    assert (one.leaf_depths, one.leaf_sizes) == ((0, 1), (0, 1))
    lost = BVH.from_triangles(FLAT * np.nan, [[0, 1, 2]]).stats()
    assert (lost.leaves, lost.ignored) == (0, 1)
    assert BVH.from_triangles(np.zeros((1, 3)), [[0, 0, 0]]).stats().leaves == 1


def arrays_in(table: Any) -> list[np.ndarray]:
    """Return the arrays in nested tuples."""
    if isinstance(table, np.ndarray):
        return [table]
    return (
        [array for part in table for array in arrays_in(part)] if isinstance(table, tuple) else []
    )


def test_memory_counts_what_queries_keep(rng: Rng) -> None:
    """Tables for winding numbers and distances, bits, axes of shapes, arrays before a refit."""
    for kind in ("triangles", "boxes", "obbs", "custom"):
        fresh = tree_of(kind, rng, 500)
        assert fresh.nbytes == fresh.stats().bytes > 0
    vertices, faces = soup(rng, 2_000, 0.1)
    tree = BVH.from_triangles(vertices, faces, groups=rng.integers(1, 4, 2_000))
    size = built = tree.nbytes
    assert size == tree.stats().bytes

    def grown(*arrays: Any) -> int:
        return int(sum(array.nbytes for array in arrays))

    for mask, key in ((None, -1), (1, 1)):
        tree.winding_number([0.0, 0.0, 0.0], mask=mask)
        for table in ("_winding_terms", "_boundary_of"):
            size += grown(*arrays_in(vars(tree.arrays)[table][key]))
        if mask is not None:
            size += grown(tree._grouped_arrays().face_bits)
        assert tree.nbytes == size
    tree.distance_to(tree, np.eye(4), max_distance=1.0)
    tables = vars(tree.arrays)["_distances"]
    row, boxes = tables.row_and_boxes
    size += grown(tables.lowest, row, boxes)
    assert tree.nbytes == size and boxes.nbytes > 0
    tree.closest_hit(vertices[:9], -vertices[:9], mask=np.ones(9, np.int64))
    assert tree.nbytes == size
    # Other masks take the place of those that were first.
    for mask in range(1, 40):
        tree.winding_number([0.0, 0.0, 0.0], mask=mask)
    assert tree.nbytes < size + 4 * built
    scene = bvh.Scene()
    scene.add(tree)
    stats = scene.stats()
    assert stats.bytes == tree.nbytes and scene.nbytes == stats.bytes + stats.instance_bytes
    scene.winding_number([0.0, 0.0, 0.0])
    (flat,) = scene.view().one_trees.values()
    assert scene.nbytes == tree.nbytes + stats.instance_bytes + flat.nbytes
    scene.closest_point([0.0, 0.0, 0.0])
    assert scene.nbytes > tree.nbytes + stats.instance_bytes + flat.nbytes
    tree.refit(vertices + 1.0)
    # The arrays before it are counted; what queries have kept ends with the arrays that it is of.
    assert 1.5 * built < tree.nbytes < 2.5 * built
    # Nothing of it is in a pickle.
    assert pickle.loads(pickle.dumps(tree)).nbytes == built
    balls = BVH.from_spheres(vertices, 0.01)
    before = balls.nbytes
    balls.distance_to(BVH.from_spheres([[0.0, 0.0, 0.0]], 0.01))
    assert balls.nbytes > before + grown(vars(balls.arrays)["_axes"].nodes.data)


def test_text(rng: Rng) -> None:
    """A line for each figure."""
    tree = tree_of("triangles", rng)
    text = str(tree.stats())
    for words in ("primitives      200, 3 of them ignored", "SAH cost", "leaves by depth"):
        assert words in text
    empty = str(BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)).stats())
    assert "leaves by size  none" in empty
    assert set(asdict(tree.stats())) >= {"leaf_depths", "sah_cost"}
    assert isinstance(tree.stats(), bvh.TreeStats)
