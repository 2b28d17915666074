"""Charts of trees: their figures node by node, the files they are written to, the command."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.pictures.charts import anatomy_of
from bvh.runtime.arguments import number_of
from bvh.runtime.simd import WIDTH
from meshes.sphere import geodesic_sphere
from tests.commands import Run
from tests.oracles.pictures import half_surface, walk


def test_charts_are_at_hand() -> None:
    """`bvh.pictures.charts.chart` needs no import but that of bvh, which needs no matplotlib."""
    code = "import bvh, sys; print(bvh.pictures.charts.chart.__name__, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["chart", "False"]


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
        BVH.from_triangles(flat, faces, quality="low"),
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


def test_charts_can_be_drawn(rng: np.random.Generator, tmp_path: Path) -> None:
    """Of every kind of tree; the title is told, and six panels have names."""
    pytest.importorskip("matplotlib")
    from bvh.pictures.charts import chart

    for k, tree in enumerate(trees(rng)):
        figure = chart(tree, "a $title" if k else None)
        texts = [text.get_text() for text in figure.texts]
        assert texts[0] == ("a $title" if k else number_of(len(tree), "triangles", ","))
        assert f"{number_of(tree.stats().nodes, 'nodes', ',')} of {WIDTH}" in texts[1]
        assert len(figure.axes) == 6
        assert len({axis.get_title(loc="left") for axis in figure.axes}) == 6
        figure.savefig(tmp_path / f"{k}.svg")
        assert (tmp_path / f"{k}.svg").read_text().rstrip().endswith("</svg>")


def test_command(run: Run, tmp_path: Path) -> None:
    """A mesh, a saved tree, and the largest tree of a scene or another."""
    pytest.importorskip("matplotlib")
    small, large = (BVH.from_triangles(*geodesic_sphere(n)) for n in (2, 5))
    scene = Scene()
    for tree in (small, large, small):
        scene.add(tree)
    scene.save(tmp_path / "scene.bvh")
    small.save(tmp_path / "small.bvh")
    for given, options, told in (
        ("small.bvh", (), f"{len(small)} triangles"),
        ("scene.bvh", (), f"tree 1 of 2, {len(large)} triangles"),
        ("scene.bvh", ("--tree", 0), f"tree 0 of 2, {len(small)} triangles"),
        ("scene.bvh", ("--flatten", "--title", "all"), f"{2 * len(small) + len(large)} triangles"),
    ):
        code, out, err = run("plot", given, "-o", "a.png", *options)
        assert (code, err) == (0, "") and told in out, (out, err)
        assert Path("a.png").read_bytes()[1:4] == b"PNG"
    for line, told in (
        ("scene.bvh -o a.png --tree 2", "--tree must be below 2, got 2"),
        ("small.bvh -o a.png --tree 0", "--tree goes with a scene"),
        ("small.bvh -o a.unknown", "unknown chart format '.unknown'"),
        ("small.bvh -o no/a.png", "no such folder"),
        ("missing.bvh -o a.png", "missing.bvh"),
    ):
        code, out, err = run("plot", *line.split())
        assert (code, out) == (2, "") and told in err and err.count("\n") == 1


def test_without_matplotlib(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what to install; all else works."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    BVH.from_triangles(*geodesic_sphere(1)).save(tmp_path / "a.bvh")
    code, out, err = run("plot", "a.bvh", "-o", "a.png")
    assert (code, out) == (2, "") and 'pip install "raybvh[plot]"' in err
    assert bvh.__version__ and not Path("a.png").exists()


def test_titles_and_half_files(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dollar is a dollar; and whatever happens, the old chart stays as it was."""
    pytest.importorskip("matplotlib")
    BVH.from_triangles(*geodesic_sphere(2)).save(tmp_path / "a$\\b$.bvh")
    assert run("plot", "a$\\b$.bvh", "-o", "a.svg")[0] == 0
    before = (tmp_path / "a.svg").read_bytes()

    def interrupt(figure: Any, stream: Any, **_: Any) -> None:
        stream.write(b"half")
        raise OSError("no more room")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupt)
    code, _, err = run("plot", "a$\\b$.bvh", "-o", "a.svg")
    assert code == 2 and "no more room" in err
    assert (tmp_path / "a.svg").read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_only_trees() -> None:
    """A scene has no chart, but its trees have."""
    pytest.importorskip("matplotlib")
    from bvh.pictures.charts import chart

    with pytest.raises(TypeError, match="tree must be a BVH, got Scene"):
        chart(Scene())  # type: ignore[arg-type]
