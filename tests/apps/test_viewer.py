"""What the page in the browser is told: its coordinates, cameras, drawings, boxes and panel."""

from __future__ import annotations

import math
import threading
import time
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Scene
from bvh.apps.viewer import readouts
from bvh.apps.viewer.box_overlay import BoxLevels, largest
from bvh.apps.viewer.drawing import (
    PageFrame,
    corners_of,
    drawing_of,
    edges_of,
    face_triangles,
    surface_of,
)
from bvh.apps.viewer.readouts import cursor_of, picture_text, watching_html
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.session import Session
from bvh.apps.viewer.tracing import RESTING, Latest, Tracer, reduced
from bvh.picking.projected import BOX_FACES
from bvh.pictures import render
from bvh.pictures.colours import HEAT
from bvh.pictures.drawn_shapes import faces_of_each
from bvh.runtime.arguments import grouped
from bvh.runtime.simd import WIDTH
from tests.oracles.viewer import boxes_at, pixel_ray

BALL = trimesh.creation.icosphere(subdivisions=2)


def turned(wxyz: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a quaternion."""
    return np.asarray(trimesh.transformations.quaternion_matrix(wxyz)[:3, :3])


def far_away(value: Any, exact: Any, scale: float) -> float:
    """Return the largest difference from exact numbers, in shares of a scale."""
    pairs = zip(np.ravel(value).tolist(), np.ravel(exact).tolist(), strict=True)
    return max(abs(float(Fraction(a) - b)) for a, b in pairs) / scale


@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_the_camera_is_that_of_the_page(rng: np.random.Generator, offset: float) -> None:
    """Rays of pixels are those of exact arithmetic, and the eye is where it is in the world."""
    for _ in range(40):
        lower = offset + rng.normal(size=3)
        frame = PageFrame.around(np.array([lower, lower + rng.uniform(1e-3, 1e3, 3)]))
        wxyz, position = rng.normal(size=4), rng.normal(size=3)
        fov, width, height = rng.uniform(0.1, 2.5), *rng.integers(1, 2000, 2).tolist()
        camera = frame.camera(wxyz, position, fov, width, height)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        origin, direction = camera.ray(x, y)
        exact = pixel_ray(wxyz, math.tan(fov / 2.0), width, height, x, y)
        size = math.sqrt(float(sum(part * part for part in exact)))
        assert far_away(direction, exact, size) < 1e-14
        world = [
            Fraction(p) / Fraction(frame.scale) + Fraction(c)
            for p, c in zip(position.tolist(), frame.centre.tolist(), strict=True)
        ]
        assert far_away(origin, world, max(abs(float(part)) for part in world)) < 3e-16


def test_the_camera_turns_as_its_quaternion(rng: np.random.Generator) -> None:
    """It looks along its z, with y down."""
    frame = PageFrame.around(np.array([[-1.0] * 3, [1.0] * 3]))
    for wxyz in rng.normal(size=(20, 4)):
        camera = frame.camera(wxyz, np.zeros(3), 0.9, 40, 30)
        axes = np.stack([camera.right, -camera.up, camera.forward], axis=1)
        np.testing.assert_allclose(axes, turned(wxyz), atol=1e-14)


@pytest.mark.parametrize("size", [1e-140, 1e-3, 1.0, 7.0, 1e140])
def test_the_page_is_of_size_one(rng: np.random.Generator, size: float) -> None:
    """The scene fits the page, by a power of two, and points come back."""
    bounds = size * np.sort(rng.normal(size=(2, 3)), axis=0)
    frame = PageFrame.around(bounds)
    assert 1.0 <= np.abs(frame.to_page(bounds)).max() <= 2.0
    assert math.frexp(frame.scale)[0] == 0.5
    np.testing.assert_allclose(frame.to_world(frame.to_page(bounds)), bounds, rtol=1e-12)
    empty = PageFrame.around(np.full((2, 3), np.nan))
    assert (empty.scale, empty.centre.tolist()) == (1.0, [0.0, 0.0, 0.0])


def test_clicks_pick_what_their_ray_hits(rng: np.random.Generator) -> None:
    """A pick by a ray of the page is the nearest hit, and t the distance."""
    scene = Scene()
    shift = trimesh.transformations.translation_matrix([4e6, 0, 9])
    scene.add(BVH.from_mesh(BALL), shift)
    frame = PageFrame.around(scene.bounds)
    for _ in range(50):
        origin = 5.0 * rng.normal(size=3)
        direction = (rng.normal(size=3) - origin) * rng.uniform(0.1, 9.0)
        camera = frame.ray_camera(origin, direction)
        pick = scene.pick(camera, 0.5, 0.5)
        hit = scene.closest_hit(frame.to_world(origin), camera.ray(0.5, 0.5)[1])
        assert (pick is None) == (hit.prim_id < 0)
        if pick is not None:
            assert (pick.prim_id, pick.t) == (hit.prim_id, hit.t)
            away = float(np.linalg.norm(pick.position - camera.eye))
            assert pick.t == pytest.approx(away, rel=1e-9)


def test_boxes_by_level(rng: np.random.Generator) -> None:
    """Boxes of each level are those that following children finds; beyond the last are none."""
    corners = 1e3 + rng.normal(size=(300, 1, 3)) + 0.1 * rng.normal(size=(300, 3, 3))
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(900).reshape(-1, 3))
    levels = BoxLevels(tree.arrays)
    assert levels.depth >= 2
    for level in range(levels.depth + 2):
        exact = sorted(boxes_at(tree.arrays, level))
        found = levels.boxes(level)
        assert len(found) == len(exact) and (len(found) > 0) == (level <= levels.depth)
        rounded = sorted([[float(v) for end in box for v in end] for box in exact])
        ours = np.reshape(sorted(found.reshape(-1, 6).tolist()), (-1, 6))
        np.testing.assert_allclose(ours, np.reshape(rounded, (-1, 6)), rtol=1e-15)
    whole = levels.boxes(0)[0]
    assert (whole[0] <= tree.bounds[0]).all() and (whole[1] >= tree.bounds[1]).all()
    empty = BoxLevels(BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)).arrays)
    assert empty.depth == -1 and len(empty.boxes(0)) == 0 and len(empty.boxes(1)) == 0


def test_edges_and_largest(rng: np.random.Generator) -> None:
    """A box has twelve edges, each along an axis; of many boxes the largest are kept, in order."""
    lower = rng.normal(size=(50, 3))
    boxes = np.stack([lower, lower + rng.uniform(0.1, 2.0, (50, 3))], axis=1)
    lines = edges_of(corners_of(boxes)).reshape(50, 12, 2, 3)
    along = lines[:, :, 1] - lines[:, :, 0]
    assert ((along != 0.0).sum(axis=2) == 1).all()
    assert [len({tuple(sorted(map(tuple, edge))) for edge in box.tolist()}) for box in lines] == (
        [12] * 50
    )
    x, y, z = (boxes[:, 1] - boxes[:, 0]).T
    ranks = np.argsort(-(x * y + y * z + z * x))[:7]
    assert np.array_equal(largest(boxes, 7), boxes[np.sort(ranks)])
    assert largest(boxes, 50) is boxes


def mixed_scene() -> Scene:
    """Return balls that are turned, mirrored and sheared, boxes, and what is not visible."""
    scene, tree = Scene(), BVH.from_mesh(BALL)
    turn = trimesh.transformations.rotation_matrix(1.0, [1, 2, 3], [1, 0, 0])
    scene.add(tree, turn, name="turned")
    scene.add(tree, turn @ np.diag([-2.0, 1.0, 0.5, 1.0]), name="mirrored")
    shear = np.eye(4)
    shear[0, 1], shear[2, 3] = 0.7, 1e3
    scene.add(tree, shear, name="sheared")
    scene.add(BVH.from_boxes([[0, 0, 0]], [[1, 2, 3]]), turn, name="box")
    scene.add(tree, visible=False)
    return scene


def world_triangles(scene: Scene, leaf: int) -> np.ndarray:
    """Return the faces of a leaf, moved."""
    leaves = scene.leaves
    points, faces = surface_of(leaves.trees[leaves.tree_of[leaf]])
    matrix = leaves.matrices[leaf]
    return (points @ matrix[:, :3].T + matrix[:, 3])[faces.astype(int)]


def test_what_is_drawn_is_what_there_is() -> None:
    """Parts, placed as the browser places them, are the visible faces of the scene."""
    scene = mixed_scene()
    frame = PageFrame.around(scene.bounds)
    drawing = drawing_of(scene, frame)
    assert drawing.left_out == 0 and len(drawing.boxes) == 0
    drawn = []
    for part in drawing.parts:
        for turn, place, scale in zip(*part.copies[:3], strict=True):
            page = part.vertices * scale @ turned(turn).T + place
            drawn.append(page[part.faces.astype(int)])
    wanted = [frame.to_page(world_triangles(scene, leaf)) for leaf in range(4)]
    assert sorted(map(len, drawn)) == sorted(map(len, wanted)) == [12, 320, 320, 320]
    for faces in wanted:
        assert (
            min(np.abs(faces - other).max() for other in drawn if len(other) == len(faces)) < 1e-6
        )
    # The mirrored and the turned ball share a mesh; instances have colours of their own.
    assert sorted(len(part.copies.places) for part in drawing.parts) == [1, 1, 2]
    colours = np.concatenate([part.copies.colours for part in drawing.parts])
    assert len(np.unique(colours, axis=0)) == 4


def test_nothing_is_left_out_silently() -> None:
    """What is too much is left out whole, counted, and stood for by boxes."""
    scene = mixed_scene()
    frame = PageFrame.around(scene.bounds)
    drawing = drawing_of(scene, frame, 100)
    assert [len(part.faces) for part in drawing.parts] == [12]
    assert drawing.left_out == 3 * len(BALL.faces) and drawing.boxes.shape == (3, 8, 3)
    for leaf, corners in enumerate(drawing.boxes):
        points = frame.to_page(world_triangles(scene, leaf)).reshape(-1, 3)
        assert (points.min(axis=0) >= corners.min(axis=0) - 1e-9).all()
        assert (points.max(axis=0) <= corners.max(axis=0) + 1e-9).all()
    # Many copies of what is small are too much to draw, too.
    crowd = Scene()
    crowd.add_many(BVH.from_mesh(BALL), np.tile(np.eye(4), (100, 1, 1)))
    assert drawing_of(crowd, frame, 3999).left_out == 32_000
    assert drawing_of(crowd, frame, 4000).left_out == 0


def test_surfaces() -> None:
    """Faces that nothing can hit are not drawn; boxes have twelve, seen from outside."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 0, 0]])
    vertices, faces = surface_of(BVH.from_triangles(points, [[0, 1, 3], [0, 1, 2]]))
    assert np.isfinite(vertices).all() and faces.tolist() == [[0, 1, 2]]
    boxes = BVH.from_boxes([[0, 0, 0], [5, 5, 5]], [[1, 2, 3], [6, 6, 6]])
    mesh = trimesh.Trimesh(*surface_of(boxes), process=False)
    assert mesh.is_watertight and mesh.volume == pytest.approx(7.0)
    sides = face_triangles(boxes, np.array([1]))
    assert sides.shape == (len(BOX_FACES), 3, 3) and sides.min() == 5.0 and sides.max() == 6.0
    frame = PageFrame.around(np.full((2, 3), np.nan))
    assert drawing_of(Scene(), frame).parts == []


def test_costs() -> None:
    """The map holds what each ray visits; its colours run from the coldest to the hottest."""
    scene = mixed_scene()
    frame = PageFrame.around(scene.bounds)
    camera = frame.camera([1, 0, 0, 0], [0, 0, -4], 0.9, 40, 30)
    picture = render(scene, camera, "cost", data="cost", threads=1)
    hits: Any = scene.closest_hit(*camera.rays(), counters=True)
    costs, hottest = picture.data["cost"], picture.hottest
    assert np.array_equal(costs, hits.nodes + hits.tests / WIDTH)
    assert hottest == max(1.0, np.ceil(np.quantile(costs, 0.99)))
    assert (picture.pixels[costs >= hottest] == np.round(255 * HEAT[-1])).all()
    assert np.array_equal(bvh.show(hits, by="cost").pixels, picture.pixels)
    assert f"{hottest:.0f}+" in picture_text((40, 30), 1200, 0.1, 0.2, hottest)

    def refuse(*_: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        render(scene, camera, "cost", threads=1, progress=refuse)


def test_framing_a_rotated_instance() -> None:
    """All corners of its box count: the diagonal alone would be a line after this rotation."""
    scene, framed = Scene(), []
    turn = trimesh.transformations.rotation_matrix(np.pi / 4, [0, 0, 1])
    number = scene.add(trimesh.creation.box([2.0, 2.0, 0.5]), turn)
    session = SimpleNamespace(
        scene=scene, updated_scene=nullcontext,
        views=SimpleNamespace(look=lambda _, bounds: framed.append(bounds)),
    )  # fmt: skip
    Session._frame_instance(session, number)  # type: ignore[arg-type]
    np.testing.assert_allclose(framed[0], np.array([[-1], [1]]) * [2**0.5, 2**0.5, 0.25])


def test_the_latest_counts() -> None:
    """Whoever asks while work is under way has it done once more, in all."""
    inside, go_on, done = threading.Event(), threading.Event(), []

    def work() -> None:
        done.append(len(done))
        inside.set()
        assert go_on.wait(60)

    latest = Latest(work)
    worker = threading.Thread(target=latest)
    worker.start()
    assert inside.wait(60)
    for _ in range(5):
        latest()
    assert not latest.wait(0.0)
    go_on.set()
    worker.join()
    assert done == [0, 1] and latest.wait(0.0)

    def fail() -> None:
        raise KeyError

    failing = Latest(fail)
    for _ in range(2):
        with pytest.raises(KeyError):
            failing()
    assert failing.wait(0.0)


def test_pictures_get_finer() -> None:
    """A coarse picture comes first, however slow; a fine one after it; none after the close."""
    scene = mixed_scene()
    camera = PageFrame.around(scene.bounds).camera([1, 0, 0, 0], [0, 0, -4], 0.9, 400, 300)
    shown: list[Any] = []
    fine = threading.Event()

    def show(pixels: Any, told: str) -> None:
        shown.append(None if pixels is None else pixels.shape)
        if shown[-1] == (300, 400, 3):
            fine.set()

    def slow() -> Any:
        # The fine picture is asked for meanwhile.
        time.sleep(2 * RESTING)
        return camera

    tracer = Tracer(SceneCopy(scene), slow, show, 1)
    tracer._seconds_per_pixel = 1.0
    tracer.choose("normals")
    assert shown[0] == (86, 115, 3)
    assert fine.wait(120)
    tracer.choose(None)
    assert shown[-1] is None
    before = len(shown)
    tracer.moved()
    assert len(shown) == before
    tracer.close()
    tracer.choose("cost")
    assert len(shown) == before
    assert reduced(400, 300, 10**9) == (400, 300) and reduced(3, 1000, 1) == (1, 18)


def test_a_shade_that_shows_nothing_any_more() -> None:
    """Once the mesh with texture coordinates was gone, each move of the camera was an error."""
    look: Any = trimesh.visual
    mesh, scene, shown = trimesh.creation.box(), Scene(), []
    mesh.visual = look.TextureVisuals(uv=np.zeros((8, 2)))
    number = scene.add(mesh)
    scene.add(BVH.from_mesh(BALL))
    camera = bvh.Camera.look_at([3.0, 2.0, 1.0], [0.0, 0.0, 0.0], width=40, height=30)
    tracer = Tracer(SceneCopy(scene), lambda: camera, lambda pixels, _: shown.append(pixels), 1)
    tracer.choose("uv")
    assert shown[-1] is not None
    scene.remove(number)
    tracer.moved()
    assert shown[-1] is None
    tracer.close()


def test_panel() -> None:
    """Names are shown as they are, numbers where tests find them."""
    scene = Scene()
    scene.add(BVH.from_mesh(BALL), name="<b>&")
    camera = PageFrame.around(scene.bounds).camera([1, 0, 0, 0], [0, 0, -4], 0.9, 40, 30)
    pick = scene.pick(camera, 20.25, 15.5)
    assert pick is not None
    told = readouts.picked(pick, 1e-5, many=True)
    assert "Instance" not in readouts.picked(pick, 1e-5)
    assert 'id="bvh-face" ' in told and f">{pick.prim_id}</td>" in told
    assert "0  &lt;b&gt;&amp;<" in told and "10 µs" in told
    assert "Nothing there" in readouts.picked(None, 0.0) and "2 s" in readouts.picked(None, 2.0)
    found = scene.pick_rect(camera, 0, 0, 40, 30)
    assert ">320</b> faces of" in readouts.selected(found, 0.1, 320)
    assert "the first 7 are drawn" in readouts.selected(found, 0.1, 7)
    assert "&lt;b&gt;&amp;" in readouts.hovered(pick, 1.0, 0.0)
    assert "&lt;x&gt;" in readouts.header("<x>", "", ["a < b"]) and "a &lt; b" in (
        readouts.header("", "", ["a < b"])
    )
    assert "5+" in readouts.picture_text((4, 3), 12, 1.0, 2.0, 5.0)
    assert grouped(1234567).replace("\N{NO-BREAK SPACE}", " ") == "1 234 567"
    assert cursor_of("12.5, -50 %") == (0.125, -0.5)
    assert cursor_of("") is cursor_of("1") is cursor_of("a, b") is cursor_of("1,2,3") is None
    assert "http" not in watching_html()


def test_round_shapes(rng: np.random.Generator) -> None:
    """Spheres and capsules of a scene are drawn round, closed, outward, and as copies."""
    p = rng.normal(size=(20, 3))
    p[3] = np.nan
    balls, limbs = BVH.from_spheres(p, 0.5), BVH.from_capsules(p, p + [0.0, 0.0, 2.0], 0.5)
    scene, half = Scene(), np.diag([0.5, 0.5, -0.5, 1.0])
    for tree in (balls, limbs):
        scene.add(tree)
        scene.add(tree, half)
    drawing = drawing_of(scene, PageFrame.around(scene.bounds))
    assert [len(part.copies.places) for part in drawing.parts] == [2, 2]
    assert drawing.left_out == 0
    assert all(part.smooth for part in drawing.parts)
    for tree, volume in ((balls, np.pi / 6.0), (limbs, np.pi / 6.0 + np.pi / 2.0)):
        points, faces = surface_of(tree)
        assert np.allclose(tree.distance(points), 0.0, atol=1e-12)
        corners = points[faces]
        made = np.linalg.det(corners - corners.mean(axis=(0, 1))).sum() / 6.0 / 19
        assert 0.9 * volume < made < volume
        marked = face_triangles(tree, np.array([5, 7]))
        assert tree.distance(marked.reshape(-1, 3)).max() == pytest.approx(0.005)
    assert faces_of_each(balls) * 19 == len(surface_of(balls)[1])
