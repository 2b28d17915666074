"""Pictures: what is in which pixel, and what a picture can be written to."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import bvh
from bvh import BVH, Camera
from bvh.pictures.colours import HEAT, ramp
from bvh.pictures.picture import Picture, with_legend
from bvh.pictures.rendering import render
from bvh.pictures.shading import DATA, SHADES
from bvh.runtime.jit import notice
from meshes.sphere import geodesic_sphere

SQUARE = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
HALVES = np.array([[0, 1, 2], [0, 2, 3]])
SIZE = {"width": 48, "height": 32}

# Trees have no texture coordinates.
OF_TREES = tuple(shade for shade in SHADES if shade != "uv")


@pytest.fixture
def sphere() -> BVH:
    """Return a ball of 180 faces."""
    return BVH.from_triangles(*geodesic_sphere(3))


@pytest.fixture
def camera(sphere: BVH) -> Camera:
    """Return a camera that sees all of it."""
    return Camera.framing(sphere.bounds, **SIZE)


def test_ids(sphere: BVH, camera: Camera) -> None:
    """Each face has a colour of its own, and is where `closest_hit` finds it."""
    picture = render(sphere, camera, "id")
    ids = sphere.closest_hit(*camera.rays()).prim_id
    assert picture.pixels.shape == (32, 48, 3) and picture.pixels.dtype == np.uint8
    assert picture.rays == 32 * 48 and picture.seconds > 0.0
    seen = np.unique(ids[ids >= 0])
    assert len(seen) > 50
    colours = [np.unique(picture.pixels[ids == i], axis=0) for i in seen]
    assert all(len(found) == 1 for found in colours)
    assert len(np.unique(np.concatenate(colours), axis=0)) == len(seen)


def test_sky(sphere: BVH, camera: Camera) -> None:
    """It is the same behind every mesh and in every shade, and depends on the row alone."""
    nothing = render(BVH.from_triangles([], []), camera).pixels
    assert np.all(nothing == nothing[:, :1]) and len(np.unique(nothing[:, 0], axis=0)) > 5
    mask = sphere.closest_hit(*camera.rays()).mask
    for shade in set(OF_TREES) - {"cost"}:
        pixels = render(sphere, camera, shade, ground=False).pixels
        assert np.array_equal(pixels[~mask], nothing[~mask])
        assert (pixels[mask] != nothing[mask]).any(axis=-1).mean() > 0.95


def test_cost(sphere: BVH, camera: Camera) -> None:
    """The brighter, the dearer; what misses everything is black; some of the rays are white."""
    hits = sphere.closest_hit(*camera.rays(), counters=True)
    assert hits.nodes is not None
    pixels = render(sphere, camera, "cost").pixels.astype(int)
    assert np.all(pixels[hits.nodes == 0] == pixels[0, 0]) and pixels[0, 0].sum() < 20
    dear, cheap = hits.nodes + hits.tests >= 20, hits.nodes + hits.tests < 5
    assert pixels[dear].sum(axis=1).min() > pixels[cheap].sum(axis=1).max()
    white = (pixels == np.round(255 * HEAT[-1])).all(axis=2).mean()
    assert white > 0.002


def test_costs_are_compared_on_one_scale(sphere: BVH, camera: Camera) -> None:
    """What is white can be told; twice as much of it is what half the cost looks like."""
    picture = render(sphere, camera, "cost", samples=2, data="cost")
    hottest = picture.hottest
    assert hottest is not None and f"white for {hottest:.4g} visits and more" in repr(picture)
    again = render(sphere, camera, "cost", samples=2, hottest=hottest)
    assert np.array_equal(again.pixels, picture.pixels) and again.hottest == hottest
    darker = render(sphere, camera, "cost", hottest=2 * hottest).pixels.astype(int)
    plain = render(sphere, camera, "cost", data="cost", hottest=hottest)
    wanted = np.round(255 * ramp(plain.data["cost"] / (2 * hottest), HEAT))
    assert np.abs(darker - wanted).max() <= 1
    assert render(sphere, camera, "clay").hottest is None
    for bad in (0, -1, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"hottest must be (above 0 and finite|a number)"):
            render(sphere, camera, "cost", hottest=bad)


def test_costs_have_a_legend(sphere: BVH) -> None:
    """In the corner of a picture with room for it, from black to white; nowhere else."""
    camera = Camera.framing(sphere.bounds, width=400, height=300)
    picture = render(sphere, camera, "cost")
    told = with_legend(picture)
    changed = (told.pixels != picture.pixels).any(axis=2)
    assert changed.any() and not changed[:240].any() and not changed[:, 320:].any()
    strip = max(told.pixels[240:], key=lambda row: int((np.diff(row.sum(axis=1)) > 0).sum()))
    ends = np.round(255 * HEAT[[0, -1]])
    assert all((strip == end).all(axis=1).any() for end in ends)
    assert told.hottest == picture.hottest and told.pixels.dtype == np.uint8
    for size in ({"width": 200, "height": 300}, {"width": 400, "height": 90}):
        small = render(sphere, camera.resized(**size), "cost")
        assert with_legend(small) is small
    wide = camera.resized(1000, 2000)
    assert with_legend(render(sphere, wide, "cost")).pixels.shape == (2000, 1000, 3)
    clay = render(sphere, camera, "clay")
    assert with_legend(clay) is clay


@pytest.mark.filterwarnings("error", "ignore:.*will find nothing:bvh.BVHWarning")
@pytest.mark.parametrize("shade", OF_TREES)
def test_meshes_of_nothing(shade: str, camera: Camera) -> None:
    """Without faces, with faces that no ray can hit, and with some of them."""
    sky = render(BVH.from_triangles([], []), camera, shade).pixels
    for vertices, faces in (
        (SQUARE, []),
        (SQUARE * np.nan, HALVES),
        (np.zeros((3, 3)), [[0, 1, 2]]),
        (SQUARE + [0, 0, np.inf], HALVES),
    ):
        assert np.array_equal(
            render(BVH.from_triangles(vertices, faces), camera, shade).pixels, sky
        )
    vertices = np.vstack([SQUARE, [[np.nan, 0, 0], [np.inf, 1, 1]]])
    down = Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], **SIZE)
    some = BVH.from_triangles(vertices, [*HALVES, [0, 1, 4], [0, 5, 2]])
    whole = BVH.from_triangles(SQUARE, HALVES)
    assert np.array_equal(render(some, down, shade).pixels, render(whole, down, shade).pixels)


@pytest.mark.parametrize("shade", OF_TREES)
def test_samples(shade: str, sphere: BVH) -> None:
    """Four samples a pixel are the mean of a picture of twice the size; costs, before colours."""
    make = {"eye": [3, 1, 2], "target": [0, 0, 0]}
    large = Camera.look_at(**make, width=96, height=64)
    shown = render(sphere, large, shade, data="cost")
    fine = shown.pixels.astype(float)
    mean = fine.reshape(32, 2, 48, 2, 3).mean(axis=(1, 3))
    picture = render(sphere, Camera.look_at(**make, **SIZE), shade, samples=2)
    if shade == "cost":
        costs = shown.data["cost"].reshape(32, 2, 48, 2).mean(axis=(1, 3))
        assert picture.hottest == max(1.0, np.ceil(np.quantile(costs, 0.99)))
        mean = 255.0 * ramp(costs / picture.hottest, HEAT)
    # Those to the lamp and to the sky come on top.
    assert (picture.rays > 4 * 32 * 48) == (shade in ("clay", "material", "ao", "shadow"))
    # Each of the four was rounded, and so was their mean.
    assert np.abs(picture.pixels - mean).max() <= 1.0
    assert np.abs(picture.pixels - fine[::2, ::2]).max() > 20.0


def test_depth(rng: np.random.Generator) -> None:
    """What is farther away is darker."""
    heights = np.sort(rng.uniform(-3, 3, 8))
    # A staircase of narrow strips, seen from above.
    vertices = [SQUARE * [0.05, 1, 1] + [0.2 * i - 0.7, 0, h] for i, h in enumerate(heights)]
    tree = BVH.from_triangles(np.concatenate(vertices), np.concatenate(
        [HALVES + 4 * i for i in range(8)]))  # fmt: skip
    for kind, opening in (
        (Camera.look_at, {"fov_y": 2}),
        (Camera.orthographic, {"view_height": 0.2}),
    ):
        view = kind([0, 0, 9], [0, 0, 0], [0, 1, 0], width=200, height=20, **opening)
        ids = tree.closest_hit(*view.rays()).prim_id
        pixels = render(tree, view, "depth").pixels
        levels = [np.unique(pixels[ids // 2 == i]) for i in range(8)]
        assert all(len(level) == 1 for level in levels)
        values = np.concatenate(levels).astype(int)
        # Higher strips are nearer.
        order = np.diff(values)[np.diff(heights) > 0.05]
        assert len(order) > 2 and np.all(order > 0) and values[-1] - values[0] > 150


def test_normals_face_the_camera() -> None:
    """Both sides of a face have the colour of the normal that points to the eye."""
    tree = BVH.from_triangles(SQUARE, HALVES)
    for height, blue in ((3, 255), (-3, 0)):
        view = Camera.look_at([0, 0, height], [0, 0, 0], [0, 1, 0], 20, 8, 8)
        pixels = render(tree, view, "normals").pixels.reshape(-1, 3)
        assert np.all(np.abs(pixels.astype(int) - [128, 128, blue]) <= 1)


def test_clay_has_shadows() -> None:
    """A plate between the floor and the lamp makes the floor darker."""
    view = Camera.look_at([0, 0, 9], [0, 0, 0], [0, 1, 0], 10, 16, 16)
    floor = BVH.from_triangles(SQUARE * 9, HALVES)
    # The lamp is behind the camera, up and to the left.
    lamp = 0.9 * view.up - 0.75 * view.right - 0.8 * view.forward
    plate = 9 * SQUARE + 20 * lamp
    both = BVH.from_triangles(np.vstack([SQUARE * 9, plate]), np.vstack([HALVES, HALVES + 4]))
    assert not both.any_hit(*view.rays(), t_max=0.5).any()
    bright, dark = (render(tree, view, "clay").pixels.astype(int) for tree in (floor, both))
    assert np.all(bright > dark + 20)


@pytest.mark.parametrize("shade", OF_TREES)
def test_threads_and_bands_do_not_matter(
    shade: str, sphere: BVH, camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture is the same; progress never goes back and ends at the total."""
    wanted = render(sphere, camera, shade, samples=2, threads=1).pixels
    for band in (1, 48 * 4 * 5, 1 << 18):
        monkeypatch.setattr("bvh.pictures.rendering.BAND_RAYS", band)
        calls: list[tuple[int, int]] = []
        picture = render(sphere, camera, shade, samples=2, threads=2,
                         progress=lambda *call, calls=calls: calls.append(call))  # fmt: skip
        assert np.array_equal(picture.pixels, wanted)
        assert calls == sorted(calls) and calls[-1] == (48 * 32 * 4, 48 * 32 * 4)
        assert {total for _, total in calls} == {48 * 32 * 4}


@pytest.mark.filterwarnings("error")
def test_boxes(camera: Camera) -> None:
    """Trees over boxes look as they do in a scene, in all shades and numbers."""
    low, turn = np.array([[-1.0, -1, -1], [0, 0, 0]]), np.eye(4)[[1, 2, 0, 3]]
    for tree in (
        BVH.from_boxes(low, low + [0.5, 1, 1]),
        BVH.from_obbs(low, low + [0.5, 1, 1], np.stack([turn, turn])),
    ):
        scene = bvh.Scene()
        scene.add(tree)
        for shade in OF_TREES:
            alone = render(tree, camera, shade, data=DATA, reach=1e308)
            among = render(scene, camera, shade, data=set(DATA), reach=1e308)
            if shade != "cost":
                assert np.array_equal(alone.pixels, among.pixels)
            for name in set(DATA) - {"cost"}:
                assert np.array_equal(alone.data[name], among.data[name], equal_nan=name != "id")


@numba.njit
def never(prim_id, origin, direction, t_min, t_max, data):  # type: ignore[no-untyped-def]
    """Return a miss."""
    return np.inf, 0.0, 0.0


def test_refused(sphere: BVH, camera: Camera) -> None:
    """The message names the argument."""
    for shade in ("shiny", "", None, 1, "NORMALS"):
        with pytest.raises(ValueError, match="shade"):
            render(sphere, camera, shade)
    for samples in (0, -1, 1.5, "2", None):
        with pytest.raises((TypeError, ValueError), match="samples"):
            render(sphere, camera, samples=samples)
    custom = BVH.from_custom(np.zeros((1, 3)), np.ones((1, 3)), never)
    with pytest.raises(ValueError, match="custom primitives have no normals"):
        render(custom, camera)
    for name, arguments in (
        ("source", (None, camera)),
        ("camera", (sphere, None)),
        ("data", (sphere, camera, "clay")),
    ):
        with pytest.raises(TypeError, match=f"{name} must be"):
            render(*arguments, data=3 if name == "data" else ())  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="threads"):
        render(sphere, camera, threads=0)


def picture() -> Picture:
    """Return a small one."""
    return Picture(np.arange(60, dtype=np.uint8).reshape(4, 5, 3), 20, 0.1)


def test_saving(tmp_path: Path) -> None:
    """The ending tells the format; str and Path are the same."""
    image = pytest.importorskip("PIL.Image")
    for path in (tmp_path / "a.png", str(tmp_path / "b.png"), tmp_path / "c.bmp"):
        picture().save(path)
        assert np.array_equal(np.asarray(image.open(path)), picture().pixels)
    # Of the latter, pillow knows the names, and writes no colours.
    for name in ("picture.unknown", "picture", "picture.xbm", "picture.hdf", "picture.palm"):
        path = tmp_path / name
        with pytest.raises(ValueError, match=str(path)):
            picture().save(path)
    with pytest.raises(OSError, match="no"):
        picture().save(tmp_path / "no" / "a.png")


def test_without_pillow(
    sphere: BVH, camera: Camera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures can be made, and saving says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    made: Any = render(sphere, camera)
    with pytest.raises(ImportError, match=r"raybvh\[cli\]"):
        made.save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == [] and bvh.__version__


def test_compiling_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of a picture are those of a clock that stands still meanwhile."""
    tree = BVH.from_triangles([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    camera = Camera.framing(tree, width=8, height=8)
    cast = BVH.closest_hit

    def closest_hit(*rays: Any, **options: Any) -> Any:
        notice.begin("line")
        time.sleep(0.3)
        notice.end()
        return cast(*rays, **options)

    monkeypatch.setattr(BVH, "closest_hit", closest_hit)
    monkeypatch.setattr(notice, "enabled", False)
    began = time.perf_counter()
    picture = render(tree, camera, threads=1)
    assert picture.seconds + 0.3 <= time.perf_counter() - began
