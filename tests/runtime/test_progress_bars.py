"""The argument `progress`: functions, True, bars of tqdm; in every query that has it."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Camera, Scene
from bvh.pictures import render
from bvh.runtime.progress_bars import heard
from meshes.sphere import geodesic_sphere


class Bar:
    """A bar with tqdm's interface, that remembers what became of it."""

    made: list[Bar] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.total, self.n, self.closed = None, 0, False
        self.made.append(self)

    def update(self, n: int) -> None:
        assert not self.closed
        self.n += n

    def refresh(self) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bars() -> list[Bar]:
    """Return the bars that are made in a test."""
    Bar.made.clear()
    return Bar.made


Ask = Callable[[Any], object]


def pair_of_boxes() -> Scene:
    """Return a scene of two boxes that meet."""
    scene, shifted = Scene(), np.eye(4)
    shifted[0, 3] = 0.5
    scene.add_many(BVH.from_mesh(trimesh.creation.box()), [np.eye(4), shifted])
    return scene


def questions(tmp_path: Path) -> dict[str, Ask]:
    """Return everything public that takes progress, asked with it."""
    vertices, faces = geodesic_sphere(6)
    tree, scene = BVH.from_triangles(vertices, faces), Scene()
    scene.add(tree)
    boxes = np.zeros((3, 3)), np.ones((3, 3))
    camera = Camera.framing(tree.bounds, width=40, height=30)
    rays, points = (np.full((300, 3), 3.0), -np.ones((300, 3))), np.full((300, 3), 0.1)
    planes = camera.frustum(10, 10, 20, 20)
    read = trimesh.Scene(trimesh.Trimesh(vertices, faces))
    read.export(tmp_path / "ball.glb")
    asked: dict[str, Ask] = {
        "from_triangles": lambda p: BVH.from_triangles(vertices, faces, progress=p),
        "from_mesh": lambda p: BVH.from_mesh((vertices, faces), progress=p),
        "from_file": lambda p: BVH.from_file(tmp_path / "ball.glb", progress=p),
        "from_boxes": lambda p: BVH.from_boxes(*boxes, progress=p),
        "from_obbs": lambda p: BVH.from_obbs(*boxes, np.tile(np.eye(4), (3, 1, 1)), progress=p),
        "from_points": lambda p: BVH.from_points(vertices, progress=p),
        "from_segments": lambda p: BVH.from_segments(vertices, vertices + 1.0, progress=p),
        "from_spheres": lambda p: BVH.from_spheres(vertices, 0.1, progress=p),
        "from_capsules": lambda p: BVH.from_capsules(vertices, vertices + 1, 0.1, progress=p),
        "from_heightfield": lambda p: BVH.from_heightfield(np.zeros((5, 5)), progress=p),
        "relation": lambda p: tree.relation(tree, np.eye(4)[None], progress=p),
        "penetration": lambda p: tree.penetration(tree, np.diag([2.0, 2, 2, 1])[None], progress=p),
        "overlap_volume": lambda p: tree.overlap_volume(tree, np.eye(4)[None], progress=p),
        "relations": lambda p: pair_of_boxes().relations(progress=p),
        "interferences": lambda p: pair_of_boxes().interferences(progress=p),
        "refit": lambda p: tree.refit(vertices, progress=p),
        "from_trimesh": lambda p: Scene.from_trimesh(read, progress=p),
        "load_scene": lambda p: bvh.load_scene(tmp_path / "ball.glb", progress=p),
        "render": lambda p: render(tree, camera, progress=p),
        "partition": lambda p: bvh.partition(
            (vertices, faces), mkdtemp(dir=tmp_path), memory="50MB", progress=p
        ),
    }
    asked |= {
        "distance_to": lambda p: tree.distance_to(tree, progress=p),
        "clearances": lambda p: scene.clearances(progress=p),
        "collisions": lambda p: scene.collisions(progress=p),
    }
    for what in (tree, scene):
        kind = type(what).__name__
        asked |= {
            f"{kind}.closest_hit": lambda p, w=what: w.closest_hit(*rays, progress=p),
            f"{kind}.counters": lambda p, w=what: w.closest_hit(*rays, counters=True, progress=p),
            f"{kind}.any_hit": lambda p, w=what: w.any_hit(*rays, progress=p),
            f"{kind}.visible": lambda p, w=what: w.visible(*rays, progress=p),
            f"{kind}.all_hits": lambda p, w=what: w.all_hits(*rays, progress=p),
            f"{kind}.count_hits": lambda p, w=what: w.count_hits(*rays, progress=p),
            f"{kind}.closest_point": lambda p, w=what: w.closest_point(points, progress=p),
            f"{kind}.nearest": lambda p, w=what: w.closest_point(points, k=2, progress=p),
            f"{kind}.distance": lambda p, w=what: w.distance(points, progress=p),
            f"{kind}.signed_distance": lambda p, w=what: w.signed_distance(points, progress=p),
            f"{kind}.contains": lambda p, w=what: w.contains(points, progress=p),
            f"{kind}.winding": lambda p, w=what: w.contains(points, method="winding", progress=p),
            f"{kind}.overlap_box": lambda p, w=what: w.overlap_box([0] * 3, [1] * 3, progress=p),
            f"{kind}.overlap_sphere": lambda p, w=what: w.overlap_sphere([0] * 3, 1, progress=p),
            f"{kind}.overlap_frustum": lambda p, w=what: w.overlap_frustum(planes, progress=p),
            f"{kind}.overlap_tree": lambda p, w=what: w.overlap_tree(tree, progress=p),
            f"{kind}.self_overlaps": lambda p, w=what: w.self_overlaps(progress=p),
        }
    return asked


def test_every_question_moves_a_bar(tmp_path: Path, bars: list[Bar]) -> None:
    """A bar to its end, and one that is made of a class, which is closed then."""
    for name, ask in questions(tmp_path).items():
        bars.clear()
        ask(Bar)
        assert len(bars) == 1 and bars[0].closed, name
        assert bars[0].n == bars[0].total, name
        mine = Bar()
        ask(mine)
        assert not mine.closed and mine.n == mine.total == bars[0].total, name
        # A bar that has been used goes on from where it is.
        ask(mine)
        assert mine.n == mine.total == 2 * bars[0].total, name
        ask(False)


def test_nothing_that_takes_progress_is_left_out(tmp_path: Path) -> None:
    """Every public function with such an argument is asked above."""
    asked = {name.rpartition(".")[2] for name in questions(tmp_path)}
    asked |= {"winding_number", "from_custom", "warmup", "picker"}
    for owner in (BVH, Scene, bvh, bvh.pictures):
        for name in dir(owner):
            member = getattr(owner, name)
            if name.startswith("_") or not callable(member) or isinstance(member, type):
                continue
            try:
                parameters = inspect.signature(member).parameters
            except ValueError:
                continue
            assert "progress" not in parameters or name in asked, name


def test_bars_are_closed_when_work_ends_early(bars: list[Bar]) -> None:
    """By an error or by Ctrl-C; those of others stay as they are."""
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), heard(Bar):
            raise error
    assert [bar.closed for bar in bars] == [True, True]
    mine = Bar()
    with pytest.raises(KeyboardInterrupt), heard(mine):
        raise KeyboardInterrupt
    assert not mine.closed


def test_what_is_no_progress() -> None:
    """Is refused by name, and before the work is begun."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    for bad in (1, 0.5, "yes", [print], object()):
        with pytest.raises(TypeError, match=r"progress must be a function \(done, total\), True"):
            tree.closest_hit(np.ones((5, 3)), -np.ones((5, 3)), progress=bad)
    heard_of: list[Any] = []
    tree.closest_hit(*np.ones((2, 5, 3)), progress=lambda *call: heard_of.append(call))
    assert heard_of[-1] == (5, 5)
    with heard(None) as none, heard(False) as off, heard(np.bool_(False)) as numpy_off:
        assert none is off is numpy_off is None


def test_bars_of_tqdm(bars: list[Bar]) -> None:
    """The real ones: an instance, the class, and what their lines say in the end."""
    tqdm = pytest.importorskip("tqdm").tqdm
    tree, file = BVH.from_triangles(*geodesic_sphere(6)), io.StringIO()
    rays = np.full((1000, 3), 3.0), -np.ones((1000, 3))
    with tqdm(file=file, ascii=True, desc="rays") as bar:
        tree.closest_hit(*rays, progress=bar)
        assert (bar.n, bar.total) == (1000, 1000)
    assert "rays: 100%" in file.getvalue() and "1000/1000" in file.getvalue()
    hits = tree.closest_hit(*rays, progress=tqdm)
    assert np.array_equal(hits.t, tree.closest_hit(*rays).t)


@pytest.mark.parametrize("missing", [(), ("rich",), ("rich", "tqdm")])
def test_true_is_what_is_installed(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rich before tqdm; without both, the error tells what to install."""
    for name in {"rich", "tqdm"} - set(missing):
        pytest.importorskip(name)
    for name in missing:
        for module in [m for m in sys.modules if m.partition(".")[0] == name] + [name]:
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("FORCE_COLOR", "1")
    tree = BVH.from_triangles(*geodesic_sphere(6))
    rays = np.full((1000, 3), 3.0), -np.ones((1000, 3))
    if len(missing) == 2:
        with pytest.raises(ImportError, match=r'pip install "raybvh\[cli\]"'):
            tree.closest_hit(*rays, progress=True)
        return
    tree.closest_hit(*rays, progress=True)
    out, err = capfd.readouterr()
    assert "100%" in err and out == ""


def test_warming_up(monkeypatch: pytest.MonkeyPatch, bars: list[Bar]) -> None:
    """A function hears the part that is compiled; a bar how many are left."""
    recipes = {"a": lambda: None, "b": lambda: None}
    monkeypatch.setattr("bvh.runtime.jit.all_recipes", lambda: recipes)
    monkeypatch.setattr("bvh.runtime.compiler.kernel_cache.prune_cache", list)
    calls: list[Any] = []
    bvh.warmup(lambda *call: calls.append(call))
    assert calls == [("a", 0, 2), ("b", 1, 2), ("", 2, 2)]
    bvh.warmup(progress=Bar)  # type: ignore[arg-type]
    assert bars[0].n == bars[0].total == 2 and bars[0].closed
