"""Charts of trees: their figures node by node, and the program that draws them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.anatomy import anatomy_of, chart, main
from bvh import BVH, Scene
from bvh.runtime.arguments import number_of
from bvh.runtime.simd import WIDTH
from meshes.sphere import geodesic_sphere
from tests.oracles.pictures import half_surface, walk


def trees(rng: np.random.Generator) -> list[BVH]:
    """Return trees of all kinds, of nothing, of one thing, and of a few thousand."""
    low = rng.normal(size=(700, 3))
    high = low + rng.uniform(0, 0.5, (700, 3))
    corners = rng.normal(size=(900, 3))
    faces = np.arange(900).reshape(-1, 3)
    flat = corners * [1, 1, 0]
    return [
        BVH.from_triangles(*geodesic_sphere(9)),
        BVH.from_triangles(corners, faces, quality="high"),
        BVH.from_triangles(flat, faces),
        BVH.from_triangles(corners[:3], faces[:1]),
        BVH.from_triangles(np.repeat([[1.0, 2.0, 3.0]], 60, axis=0), np.arange(60).reshape(-1, 3)),
        BVH.from_triangles([], []),
        BVH.from_boxes(low, high),
        BVH.from_obbs(low, high, np.repeat(np.eye(4)[None], 700, axis=0)),
    ]


def test_figures(rng: np.random.Generator) -> None:
    """Every figure is the sum over nodes, one by one, in exact arithmetic."""
    for tree in trees(rng):
        found, stats = anatomy_of(tree), tree.stats()
        assert found.nodes.sum() == stats.nodes and found.leaves.sum() == stats.leaves
        assert tuple(found.leaves[found.leaves.nonzero()]) == tuple(
            count for count in stats.leaf_depths if count
        )
        assert tuple(found.leaf_sizes.tolist()) == stats.leaf_sizes
        assert sum(found.memory.values()) == stats.bytes
        total = float(found.node_cost.sum() + found.leaf_cost.sum())
        assert total == pytest.approx(stats.sah_cost, rel=1e-12)
        nodes = walk(tree)
        fill = np.bincount([len(node["children"]) for node in nodes], minlength=WIDTH + 1)
        assert np.array_equal(found.fill, fill) and len(found.fill) == WIDTH + 1
        if stats.nodes == 0:
            assert len(found.overlap) == len(found.node_cost) == 0
            continue
        whole = half_surface(tree.arrays.frame[2:4].reshape(-1).astype(np.float32))
        levels = len(found.nodes)
        common, surface = [Fraction(0)] * levels, [Fraction(0)] * levels
        costs = np.zeros((2, levels))
        costs[0, 0] = 1.0
        for node in nodes:
            below, children = node["level"] + 1, node["children"]
            for k, child in enumerate(children):
                area = half_surface(child["box"])
                surface[below] += area
                share = float(area / whole) if whole else 1.0
                costs[int(child["leaf"]), below] += share * child.get("rows", 1)
                for other in children[:k]:
                    low = np.maximum(child["box"][:3], other["box"][:3])
                    high = np.minimum(child["box"][3:], other["box"][3:])
                    if (low <= high).all():
                        common[below] += half_surface(np.concatenate([low, high]))
        overlap = [float(c / s) if s else 0.0 for c, s in zip(common, surface, strict=True)]
        assert np.allclose(found.overlap, overlap, rtol=1e-6, atol=1e-9)
        assert np.allclose([found.node_cost, found.leaf_cost], costs, rtol=1e-6)


@pytest.mark.long
def test_charts_can_be_drawn(rng: np.random.Generator, tmp_path: Path) -> None:
    """Of every kind of tree; the title is told, and six panels have names."""
    pytest.importorskip("matplotlib")
    for k, tree in enumerate(trees(rng)):
        figure = chart(tree, "a $title" if k else None)
        texts = [text.get_text() for text in figure.texts]
        assert texts[0] == ("a $title" if k else number_of(len(tree), "triangles", ","))
        assert f"{number_of(tree.stats().nodes, 'nodes', ',')} of {WIDTH}" in texts[1]
        assert len(figure.axes) == 6
        assert len({axis.get_title(loc="left") for axis in figure.axes}) == 6
        figure.savefig(tmp_path / f"{k}.svg")
        assert (tmp_path / f"{k}.svg").read_text().rstrip().endswith("</svg>")


def test_program(tmp_path: Path) -> None:
    """A mesh in, a picture out."""
    pytest.importorskip("matplotlib")
    vertices, faces = geodesic_sphere(3)
    np.savez(tmp_path / "ball.npz", vertices=vertices, faces=faces)
    main([str(tmp_path / "ball.npz"), "-o", str(tmp_path / "a.png"), "--quality", "high"])
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"


def test_only_trees() -> None:
    """A scene has no chart, but its trees have."""
    pytest.importorskip("matplotlib")
    with pytest.raises(TypeError, match="tree must be a BVH, got Scene"):
        chart(Scene())  # type: ignore[arg-type]
