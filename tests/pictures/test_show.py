"""What notebooks show; pictures as files and as numbers; normals at corners."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Camera, Scene
from bvh.pictures import Picture, render
from bvh.pictures.shading import DATA
from bvh.pictures.surfaces import CREASE, MAX_FACES, corner_normals
from meshes.sphere import geodesic_sphere
from tests.commands import Run

SIZE = {"width": 48, "height": 32}


@pytest.fixture
def scene() -> Scene:
    """Return two balls."""
    tree, scene = BVH.from_triangles(*geodesic_sphere(3)), Scene()
    for x in (-1.2, 1.2):
        matrix = np.eye(4)
        matrix[0, 3] = x
        scene.add(tree, matrix)
    return scene


@pytest.fixture
def camera(scene: Scene) -> Camera:
    """Return a camera that sees both."""
    return Camera.framing(scene.bounds, [0, 1, -0.3], **SIZE)


def test_hits(scene: Scene, camera: Camera) -> None:
    """Misses are sky; near is lighter than far; faces and instances have their colours."""
    pytest.importorskip("PIL")
    hits = scene.closest_hit(*camera.rays(), counters=True)
    sky = bvh.show(Scene().closest_hit(*camera.rays())).pixels
    for by in ("t", "prim_id", "instance_id", "cost"):
        picture = bvh.show(hits, by=by)
        more = f", white for {picture.hottest:.0f} visits and more" if by == "cost" else ""
        assert repr(picture) == f"Picture(48 x 32 pixels of {by}{more})"
        assert (picture.pixels[~hits.mask] == sky[~hits.mask]).all() == (by != "cost")
    colours = bvh.show(hits, by="instance_id").pixels
    for number in (0, 1):
        assert len(np.unique(colours[hits.instance_id == number], axis=0)) == 1
    light = bvh.show(hits).pixels.astype(int).sum(axis=-1)
    near, far = np.quantile(hits.t[hits.mask], [0.1, 0.9])
    assert light[hits.t < near].min() > light[hits.mask & (hits.t > far)].max()
    # What has one distance only, or one far outlier, has colours, too.
    one = hits[:1, 24:25]
    assert bvh.show(one).pixels.shape == (1, 1, 3)


def test_trees_scenes_and_pictures(scene: Scene, camera: Camera) -> None:
    """Rendered small from where all is seen, or as a camera sees it."""
    pytest.importorskip("PIL")
    shown = bvh.show(scene, width=60, height=40)
    assert shown.pixels.shape == (40, 60, 3) and len(np.unique(shown.pixels)) > 50
    assert np.array_equal(
        bvh.show(scene, camera, shade="id").pixels, render(scene, camera, "id", samples=2).pixels
    )
    assert bvh.show(scene[0].child, shade="normals").shade == "normals"
    assert bvh.show(shown) is shown


def test_notebooks(scene: Scene, camera: Camera) -> None:
    """PNG and HTML; wide pictures are shown smaller, and nothing else changes."""
    image = pytest.importorskip("PIL.Image")
    picture = render(scene, camera)
    shown = image.open(io.BytesIO(picture._repr_png_()))
    assert np.array_equal(np.asarray(shown), picture.pixels)
    page = picture._repr_html_()
    assert 'src="data:image/png;base64,' in page and "48 x 32 pixels of normals" in page
    wide = Picture(np.zeros((10, 3000, 3), np.uint8), shade="<b>")
    assert image.open(io.BytesIO(wide._repr_png_())).width == 640
    assert "<b>" not in wide._repr_html_()
    assert image.open(io.BytesIO(wide.png())).size == (3000, 10)


def test_what_cannot_be_shown(scene: Scene, camera: Camera, monkeypatch: Any) -> None:
    """The message names the argument, or what to install."""
    pytest.importorskip("PIL")
    rays = camera.rays()
    hits = scene.closest_hit(*rays)
    for flat in (hits[0], scene.closest_hit(rays[0][0, 0], rays[1][0, 0]), hits[:0]):
        with pytest.raises(ValueError, match=r"hits must have the shape \(height, width\)"):
            bvh.show(flat)
    with pytest.raises(ValueError, match="counters"):
        bvh.show(hits, by="cost")
    with pytest.raises(ValueError, match="by must be 't', 'prim_id', 'instance_id' or 'cost', got"):
        bvh.show(hits, by="u")
    with pytest.raises(ValueError, match="hits of a scene"):
        bvh.show(scene[0].child.closest_hit(*rays), by="instance_id")
    with pytest.raises(ValueError, match="nothing to look at"):
        bvh.show(Scene())
    for other in (None, 1, rays, np.zeros((3, 3)), camera):
        with pytest.raises(TypeError, match="what must be"):
            bvh.show(other)
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"raybvh\[cli\]"):
        bvh.show(scene)


def test_importing_is_light() -> None:
    """The package brings neither pillow nor matplotlib."""
    code = "import sys, bvh, bvh.pictures; print('PIL' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_data(scene: Scene, camera: Camera) -> None:
    """Numbers are those of the rays through the centres of pixels, however many samples."""
    hits = scene.closest_hit(*camera.rays(), counters=True)
    mask = hits.mask
    for samples in (1, 2):
        for threads in (1, 3):
            found = render(scene, camera, data=DATA, samples=samples, threads=threads).data
            assert set(found) == set(DATA)
            assert np.array_equal(found["depth"], hits.t) and found["depth"].dtype == np.float64
            for name, field in (("id", "prim_id"), ("instance", "instance_id"), ("leaf", "leaf")):
                assert np.array_equal(found[name], getattr(hits, field))
                assert found[name].dtype == np.int32
            assert np.array_equal(found["uv"][..., 0], hits.u, equal_nan=True)
            assert np.isnan(found["normals"][~mask]).all() and (found["ao"][~mask] == 1).all()
            assert np.allclose(np.linalg.norm(found["normals"][mask], axis=1), 1.0)
            origins, ways = camera.rays()
            places = (origins + hits.t[..., None] * ways)[mask]
            assert np.allclose(found["position"][mask], places, atol=1e-12)
            assert ((found["normals"] * ways).sum(axis=-1)[mask] < 0).all()
            assert np.array_equal(found["cost"] > 0, hits.nodes + hits.tests > 0)
            assert ((found["shadow"] >= 0) & (found["shadow"] <= 1)).all()
    only = render(scene, camera, data="depth").data
    assert list(only) == ["depth"]


def test_textures() -> None:
    """Texture coordinates are blended in the face, on the side of the leaf that has them."""
    trimesh = pytest.importorskip("trimesh")
    mesh = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], process=False)
    uv = np.array([[0.1, 0.2], [3.1, 0.2], [0.1, -0.8]])
    mesh.visual = trimesh.visual.TextureVisuals(uv=uv)
    scene = Scene()
    scene.add(mesh)
    scene.add(BVH.from_triangles(mesh.vertices + [0, 0, -1], mesh.faces))
    view = Camera.orthographic([0.5, 0.5, 9], [0.5, 0.5, 0], [0, 1, 0], 2.0, 30, 20)
    hits = scene.closest_hit(*view.rays())
    found = render(scene, view, "uv", data="uv")
    first = hits.leaf == 0
    assert first.any()
    u, v = hits.u[first][:, None], hits.v[first][:, None]
    assert np.allclose(found.data["uv"][first], (1 - u - v) * uv[0] + u * uv[1] + v * uv[2])
    assert len(np.unique(found.pixels[first], axis=0)) > 20
    below = render(scene[1].child, view, data="uv")
    assert np.array_equal(below.data["uv"][first], np.hstack([u, v]))


def test_textures_that_are_missing(tmp_path: Path, run: Run) -> None:
    """The message says what is; a mesh without any is grey beside one that has some."""
    trimesh = pytest.importorskip("trimesh")
    view = Camera.orthographic([0.5, 0.5, 9], [0.5, 0.5, 0], [0, 1, 0], 2.0, 30, 20)
    triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), [[0, 1, 2]]
    tree, scene = BVH.from_triangles(*triangle), Scene()
    scene.add(tree)
    for source, what in ((tree, "a tree has any"), (scene, "no mesh of the scene has any")):
        with pytest.raises(ValueError, match=f'"uv" needs texture coordinates .*{what}'):
            render(source, view, "uv")
    mesh = trimesh.Trimesh(triangle[0] + [0, 0, -1], triangle[1], process=False)
    mesh.export(tmp_path / "plain.ply")
    code, _, err = run("render", "plain.ply", "-o", "a.png", "--shade", "uv")
    assert code == 2 and "needs texture coordinates" in err
    mesh.visual = trimesh.visual.TextureVisuals(uv=np.eye(3)[:, :2])
    scene.add(mesh)
    mask = scene.closest_hit(*view.rays()).mask
    assert np.all(render(scene, view, "uv").pixels[mask] == 128)


def test_numbers_in_files(run: Run, tmp_path: Path) -> None:
    """`bvh render -o x.npy` writes what the picture stands for; pixels where that is nothing."""
    pytest.importorskip("PIL")
    tree = BVH.from_triangles(*geodesic_sphere(3))
    tree.save(tmp_path / "ball.bvh")
    view = Camera.framing(tree, **SIZE)
    for shade in ("depth", "id", "normals", "cost", "ao", "shadow", "clay"):
        code, _, err = run("render", "ball.bvh", "-o", "a.npy", "--size", "48x32", "--shade", shade)
        assert (code, err) == (0, "")
        picture = render(tree, view, shade, data=(shade,) if shade in DATA else ())
        wanted = picture.data.get(shade, picture.pixels)
        assert np.array_equal(np.load("a.npy"), wanted, equal_nan=wanted.dtype.kind == "f")
    assert np.isinf(render(tree, view, data="depth").data["depth"]).any()
    for options, told in (
        (("--lamp", "1,2"), "--lamp"),
        (("--lamp", "0,0,0"), "lamp must not be zero"),
        (("--softness", "91"), "softness"),
        (("--reach", "0"), "reach"),
        (("--reach", "nan"), "reach"),
        (("--light-rays", "0"), "light_rays must be"),
    ):
        code, _, err = run("render", "ball.bvh", "-o", "a.png", *options)
        assert code == 2 and told in err


def test_no_half_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens, the old file stays as it was and nothing else is left behind."""
    pytest.importorskip("PIL")
    picture = Picture(np.zeros((4, 4, 3), np.uint8))
    for name in ("a.png", "a.npy"):
        picture.save(tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"a.png", "a.npy"}

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for name, place in (("a.png", "PIL.Image.Image.save"), ("a.npy", "numpy.save")):
        with monkeypatch.context() as patched:
            patched.setattr(place, interrupt)
            with pytest.raises(KeyboardInterrupt):
                picture.save(tmp_path / name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    # Through a link to what it points at.
    (tmp_path / "link.png").symlink_to("b.png")
    picture.save(tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "b.png").read_bytes() == before["a.png"]
    with pytest.raises(OSError, match=os.fspath(tmp_path)):
        (tmp_path / "folder.png").mkdir()
        picture.save(tmp_path / "folder.png")


def test_interrupted(scene: Scene, camera: Camera) -> None:
    """Ctrl-C is heard between bands."""

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for threads in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            render(scene, camera, "clay", threads=threads, progress=interrupt)


def test_creases(rng: np.random.Generator) -> None:
    """Balls are smooth, cubes sharp; copies of vertices do not matter, nor bad faces."""
    vertices, faces = geodesic_sphere(6)
    normals, index = corner_normals(vertices, faces)
    away = (normals[index] * vertices[faces]).sum(axis=-1)
    assert index.shape == faces.shape and away.min() > 0.999
    apart, own = corner_normals(
        vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3)
    )
    assert np.allclose(apart[own], normals[index])
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    cube = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
                     [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])  # fmt: skip
    normals, index = corner_normals(corners, cube)
    a, b, c = np.moveaxis(corners[cube], 1, 0)
    assert np.allclose(normals[index], np.cross(b - a, c - a)[:, None])
    # Two faces that meet at an angle a little smaller, and a little larger.
    for angle, smooth in ((CREASE - 1, True), (CREASE + 1, False)):
        turn = np.radians(angle)
        points = [[0, 0, 0], [0, 1, 0], [-1, 0, 0], [np.cos(turn), 0, np.sin(turn)]]
        normals, index = corner_normals(np.array(points), np.array([[0, 1, 2], [0, 3, 1]]))
        assert np.allclose(normals[index][0, 0], normals[index][1, 0]) == smooth
    wild = rng.normal(size=(30, 3))
    wild[3], wild[7] = np.nan, np.inf
    faces = rng.integers(0, 30, (200, 3))
    found = corner_normals(wild, faces)
    assert np.isfinite(found[0]).all() and len(corner_normals(np.empty((0, 3)), faces[:0])[0]) == 0
    fan = np.array([[0, 1 + k, 2 + k] for k in range(MAX_FACES + 20)])
    assert np.isfinite(corner_normals(rng.normal(size=(MAX_FACES + 30, 3)), fan)[0]).all()
