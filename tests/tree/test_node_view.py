"""`tree.nodes`: the nodes of trees as arrays, and traversals over them as users write them."""

from __future__ import annotations

import doctest
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.tree.build import QUALITIES
from tests.cases.saved_trees import KINDS, tree_of
from tests.cases.soups import soup

Rng = np.random.Generator
PAGE = Path(bvh.__file__).parent / "docs" / "custom.md"


def items(nodes: Any, row: int) -> np.ndarray:
    """Return the children, or primitives, of a node."""
    some = np.arange(nodes.begin[row], nodes.end[row])
    return nodes.prim_id[some] if nodes.is_leaf[row] else some


def check(tree: BVH) -> None:
    """Check the structure of the nodes, and that boxes contain what is below them."""
    nodes = tree.nodes
    assert nodes is tree.nodes and not any(array.flags.writeable for array in nodes)
    below = [items(nodes, row) for row in range(len(nodes.begin))]
    inner = np.flatnonzero(~nodes.is_leaf)
    children = np.concatenate([below[row] for row in inner])
    assert np.array_equal(np.sort(children), np.arange(1, len(below)))
    for row in inner:
        assert (below[row] > row).all()
        assert (nodes.lower[below[row]] >= nodes.lower[row]).all()
        assert (nodes.upper[below[row]] <= nodes.upper[row]).all()
    leaves = np.flatnonzero(nodes.is_leaf)
    assert sum(len(below[row]) for row in leaves) == len(nodes.prim_id)
    stats = tree.stats()
    assert len(leaves) == stats.leaves and len(inner) == stats.nodes
    assert len(np.unique(nodes.prim_id)) == stats.primitives - stats.ignored


def lowest_and_highest(tree: BVH) -> tuple[np.ndarray, np.ndarray]:
    """Return the union of the boxes of each primitive's leaves."""
    nodes, n = tree.nodes, len(tree)
    lower, upper = np.full((n, 3), np.inf), np.full((n, 3), -np.inf)
    for row in np.flatnonzero(nodes.is_leaf):
        np.minimum.at(lower, items(nodes, row), nodes.lower[row])
        np.maximum.at(upper, items(nodes, row), nodes.upper[row])
    return lower, upper


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quality", QUALITIES)
def test_structure(kind: str, quality: str, rng: Rng) -> None:
    """Children come after parents and within them, primitives are in leaves; so after refits."""
    tree = tree_of(kind, rng, 2_000, quality)
    check(tree)
    if kind == "triangles":
        before = tree.nodes
        tree.refit(tree.vertices[:, ::-1] * 3.0)
        assert tree.nodes is not before
        check(tree)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150, 1e-300, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1e7, -1e300])
@pytest.mark.parametrize("quality", QUALITIES)
def test_boxes_contain_their_triangles(scale: float, shift: float, quality: str, rng: Rng) -> None:
    """At any size and offset: coordinates are compared as doubles, which is exact."""
    vertices, faces = soup(rng, 500, 0.1)
    tree = BVH.from_triangles(vertices * scale + shift, faces, quality=quality, warn=False)
    check(tree)
    corners, (lower, upper) = tree.vertices[tree.faces], lowest_and_highest(tree)
    assert (corners.min(axis=1) >= lower).all() and (corners.max(axis=1) <= upper).all()
    assert (tree.nodes.lower[0] <= tree.bounds[0]).all()
    assert (tree.nodes.upper[0] >= tree.bounds[1]).all()


def test_each_point_of_a_split_triangle_is_in_a_leaf(rng: Rng) -> None:
    """Points of triangles, as fractions, in trees of quality "high"."""
    tree = tree_of("triangles", rng, 3_000, "high")
    nodes, corners = tree.nodes, tree.vertices[tree.faces]
    ids, counts = np.unique(nodes.prim_id, return_counts=True)
    split = ids[counts > 1]
    assert len(split)
    owners: dict[int, list[int]] = {}
    for row in np.flatnonzero(nodes.is_leaf):
        for face in items(nodes, row):
            owners.setdefault(int(face), []).append(int(row))
    for face, weights in zip(rng.choice(split, 200), rng.integers(0, 64, (200, 3)), strict=True):
        total = int(weights.sum()) or 1
        point = (
            [
                sum(Fraction(corners[face, k, axis]) * int(weights[k]) for k in range(3)) / total
                for axis in range(3)
            ]
            if weights.any()
            else [Fraction(x) for x in corners[face, 0]]
        )
        assert any(
            all(nodes.lower[row, a] <= point[a] <= nodes.upper[row, a] for a in range(3))
            for row in owners[int(face)]
        )  # fmt: skip


def nearest() -> Any:
    """Return the function of the page."""
    test = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, "page", None, 0)
    names: dict[str, Any] = {"np": np, "bvh": bvh}
    (source,) = [each.source for each in test.examples if each.source.startswith("def nearest(")]
    exec(source, names)
    return names["nearest"]


@pytest.mark.parametrize("quality", QUALITIES)
def test_the_traversal_of_the_page(quality: str, rng: Rng) -> None:
    """It finds what brute force finds: random rays, and rays aimed at vertices and edges."""
    vertices, faces = soup(rng, 300, 0.3)
    tree = BVH.from_triangles(vertices, faces, quality=quality)
    corners = tree.vertices[tree.faces]
    origins = 2.0 * rng.standard_normal((300, 3))
    aims = rng.random((300, 3))
    aims[:100] = corners[rng.integers(0, 300, 100), 0]
    some = corners[rng.integers(0, 300, 100)]
    aims[100:200] = 0.5 * some[:, 0] + 0.5 * some[:, 1]
    t, prim_id = nearest()(tree, origins, aims - origins)
    every = bvh.ray_triangle(
        origins[:, None], (aims - origins)[:, None], *corners.swapaxes(0, 1)
    ).t  # fmt: skip
    assert np.array_equal(t, every.min(axis=1))
    assert np.array_equal(prim_id, np.where(np.isinf(t), -1, every.argmin(axis=1)))
    assert 100 < (prim_id >= 0).sum() < 300


def test_trees_without_nodes() -> None:
    """There are no rows, of the usual types."""
    none = BVH.from_triangles(np.zeros((0, 3)), [], warn=False)
    one = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    for array, usual in zip(none.nodes, one.nodes, strict=True):
        assert len(array) == 0 and array.dtype == usual.dtype
    assert none.nodes.lower.shape == (0, 3)


def test_pickles_and_memory(rng: Rng) -> None:
    """Pickles do not hold the arrays; `nbytes` counts them."""
    tree = tree_of("triangles", rng, 500)
    size, pickled = tree.nbytes, pickle.dumps(tree)
    bytes_of_nodes = sum(array.nbytes for array in tree.nodes)
    assert tree.nbytes == size + bytes_of_nodes
    assert pickle.dumps(tree) == pickled
    again = pickle.loads(pickled)
    assert all(np.array_equal(a, b) for a, b in zip(again.nodes, tree.nodes, strict=True))
