"""Pictures of scenes, and picks in them: those of the flattened mesh, with instances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Camera, Scene
from bvh.pictures.colours import instance_colours
from bvh.pictures.rendering import render
from bvh.pictures.shading import SHADES
from bvh.pictures.surfaces import Surfaces
from meshes.sphere import geodesic_sphere
from tests.cases.scans import SCANS

ROOT = Path(__file__).parents[2]
SIZE = {"width": 64, "height": 48}
MIRROR = np.diag([-1.0, 1.0, 1.0, 1.0])
CURSORS = 200


def model(name: str) -> Path:
    """Return the path of a model; skip where it is not at hand."""
    for folder in (ROOT / "meshes", SCANS):
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"no {name}")


def moved(x: float, y: float, z: float, linear: np.ndarray | None = None) -> np.ndarray:
    """Return a transform."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.eye(3) if linear is None else linear
    matrix[:3, 3] = x, y, z
    return matrix


@pytest.fixture
def scene(rng: np.random.Generator) -> Scene:
    """Return turned, mirrored and nested balls of two kinds."""
    coarse, fine = (BVH.from_triangles(*geodesic_sphere(n)) for n in (2, 4))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    inner, scene = Scene(), Scene()
    inner.add(coarse, moved(0, 0, 1.2, 0.5 * turn), name="small")
    inner.add(fine, MIRROR, name="large")
    scene.add(fine, moved(-2.5, 0, 0, turn), name="left")
    scene.add(inner, moved(1, 0, 0) @ MIRROR, name="pair")
    scene.add(coarse, moved(3.5, 1, 0, -turn), name="right")
    return scene


def flat_tree(scene: Scene) -> BVH:
    """Return the tree of the flattened scene."""
    return BVH.from_triangles(*scene.flattened()[:2])


def close_by(bounds: np.ndarray, up: list[int]) -> Camera:
    """Return a camera whose picture is nearly filled by a box."""
    camera = Camera.framing(bounds, up=up, **SIZE)
    middle = bounds.mean(axis=0)
    corners = np.stack(np.meshgrid(*bounds.T), axis=-1).reshape(-1, 3) - middle
    half = camera.half_height * np.array([camera.width / camera.height, 1.0])
    across = np.abs(corners @ np.stack([camera.right, camera.up], axis=1)) / half
    back = 1.06 * float((across.max(axis=1) - corners @ camera.forward).max())
    return replace(camera, eye=middle - back * camera.forward)


@pytest.mark.parametrize("shade", ["normals", "clay", "ao", "shadow"])
def test_scenes_look_like_their_meshes(shade: str, scene: Scene) -> None:
    """Whatever is turned, mirrored or nested."""
    tree = flat_tree(scene)
    for up in ([0, 0, 1], [0, 1, 0]):
        camera = close_by(scene.bounds, up)
        options = {"samples": 2, "ground": False, "data": "ao"}
        got, wanted = (render(one, camera, shade, **options) for one in (scene, tree))
        assert got.rays == wanted.rays >= 4 * 64 * 48
        # Points on moved faces are rounded otherwise: one ray to the sky of the 16 of a sample may
        # differ, and two of the 64 of a pixel, in few of all pixels.
        bound = 1 if shade in ("normals", "shadow") else 8
        off = np.abs(got.pixels.astype(int) - wanted.pixels).max(axis=2)
        assert off.max() <= bound and np.mean(off > 1) < 0.01
        assert np.abs(got.data["ao"] - wanted.data["ao"]).max() <= 1 / 16
        assert len(np.unique(got.pixels.reshape(-1, 3), axis=0)) > 50


def test_depth(scene: Scene) -> None:
    """It fades from the nearest to the farthest corner of the bounds."""
    camera = Camera.framing(scene.bounds, **SIZE)
    hits = flat_tree(scene).closest_hit(*camera.rays())
    corners = np.stack(np.meshgrid(*scene.bounds.T), axis=-1).reshape(-1, 3)
    near, far = np.quantile((corners - camera.eye) @ camera.forward, [0.0, 1.0])
    wanted = 255 * (1.0 - 0.85 * (hits.t[hits.mask] - near) / (far - near))
    got = render(scene, camera, "depth").pixels[hits.mask]
    assert np.abs(got - wanted[:, None]).max() <= 1.0 and np.ptp(got) > 80


def test_instances_have_colours(scene: Scene) -> None:
    """One each, told apart by its hue; those of a nested scene share one."""
    camera = Camera.framing(scene.bounds, [0, 1, -0.3], **SIZE)
    hits = scene.closest_hit(*camera.rays())
    pixels = render(scene, camera, "instance").pixels / 255.0
    assert set(np.unique(hits.instance_id)) == {-1, 0, 1, 2}
    for number in range(3):
        seen = pixels[hits.instance_id == number]
        colour = instance_colours(np.array([number]))[0]
        assert np.allclose(seen / seen.max(axis=1, keepdims=True), colour / colour.max(), atol=0.02)
    assert len({*hits.leaf[hits.instance_id == 1].tolist()}) == 2
    colours = instance_colours(np.arange(48))
    assert np.array_equal(instance_colours(np.array([7, 40])), colours[[7, 40]])
    apart = np.abs(colours[:, None] - colours).max(axis=-1) + np.eye(48)
    assert apart.min() > 0.03 and colours.min() >= 0.0 and colours.max() <= 1.0


def test_ids_tell_leaves_apart(scene: Scene) -> None:
    """The same face has another colour in another leaf."""
    camera = Camera.framing(scene.bounds, **SIZE)
    hits = scene.closest_hit(*camera.rays())
    pixels = render(scene, camera, "id").pixels
    codes = hits.leaf.astype(np.int64) * 1000 + hits.prim_id
    seen = np.unique(codes[hits.mask])
    colours = [np.unique(pixels[codes == code], axis=0) for code in seen]
    assert all(len(found) == 1 for found in colours)
    assert len(np.unique(np.concatenate(colours), axis=0)) == len(seen) > 100


def test_numbers_of_nothing(scene: Scene) -> None:
    """A camera that sees none of the meshes of a scene gets misses."""
    assert len(scene.leaves.trees) > 1
    away = Camera.look_at([0, 0, 1e6], [0, 0, 2e6], [0, 1, 0], **SIZE)
    picture = render(scene, away, "clay", data=("normals", "position", "uv", "id"))
    assert np.isnan(picture.data["position"]).all() and np.isnan(picture.data["uv"]).all()
    assert (picture.data["id"] == -1).all()


def test_cost(scene: Scene) -> None:
    """Black where a ray visits nothing, brighter where it visits more."""
    camera = Camera.framing(scene.bounds, **SIZE)
    hits = scene.closest_hit(*camera.rays(), counters=True)
    pixels = render(scene, camera, "cost").pixels.astype(int).sum(axis=-1)
    cost = hits.nodes + hits.tests
    assert pixels[cost > np.quantile(cost, 0.95)].min() > pixels[cost <= 1].max(initial=0)


def test_what_is_hidden_is_not_shown(scene: Scene) -> None:
    """And a scene of nothing is all sky."""
    camera = Camera.framing(scene.bounds, **SIZE)
    sky = render(BVH.from_triangles([], []), camera).pixels
    scene.set_visible(scene.ids, False)
    for shade in set(SHADES) - {"cost", "uv"}:
        assert np.array_equal(render(scene, camera, shade).pixels, sky)
        assert np.array_equal(render(Scene(), camera, shade).pixels, sky)


@pytest.mark.parametrize("shade", ["normals", "clay", "instance"])
def test_boxes(shade: str) -> None:
    """Boxes, and oriented boxes, look like the triangles that they are made of."""
    low, high = np.array([[-1.0, -0.5, -0.3]]), np.array([[0.5, 0.7, 1.0]])
    mesh = trimesh.creation.box(bounds=[low[0], high[0]])
    shear = moved(0.2, 0.1, 0, np.array([[1, 0.4, 0], [0, 1, 0], [0.3, 0, 1.2]]))
    turn = moved(1, 2, 3, trimesh.transformations.euler_matrix(0.1, 0.5, 0.7)[:3, :3])
    pictures = []
    camera = Camera.look_at([6, -5, 6], [1, 2, 3], **SIZE)
    for tree, matrix in (
        (BVH.from_triangles(mesh.vertices, mesh.faces), turn @ shear),
        (BVH.from_boxes(low, high), turn @ shear),
        (BVH.from_obbs(low, high, shear[None]), turn),
    ):
        scene = Scene()
        scene.add(tree, matrix)
        pictures.append(render(scene, camera, shade, ground=False).pixels.astype(int))
    if shade == "clay":
        # The mesh is smooth, and boxes are flat.
        del pictures[0]
    for picture in pictures[1:]:
        assert np.abs(picture - pictures[0]).max() <= 2


def test_smooth_normals_of_the_mesh(rng: np.random.Generator) -> None:
    """Those that it brings, moved by the inverse transpose, towards the camera."""
    mesh = trimesh.creation.icosphere(subdivisions=1)
    wanted = mesh.vertices / np.linalg.norm(mesh.vertices, axis=1, keepdims=True)
    mesh.vertex_normals = wanted
    linear = rng.normal(size=(3, 3))
    scene = Scene()
    for sign in (1.0, -1.0):
        scene.add(mesh, moved(1, 2, 3, sign * linear))
    surfaces, faces = Surfaces(scene), np.arange(len(mesh.faces))
    third = np.full(len(faces), 1 / 3)
    for leaf in (0, 1):
        leaves = np.full(len(faces), leaf)
        points = np.zeros((len(faces), 3))
        corners = scene.flattened()[0][leaf * len(mesh.vertices) :][mesh.faces]
        crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        flat = crossed / np.linalg.norm(crossed, axis=1, keepdims=True)
        smooth = surfaces._smooth_surface(leaves, faces, third, third, flat, points)[0]
        inverse = np.linalg.inv(scene[leaf].transform[:3, :3])
        truth = wanted[mesh.faces].mean(axis=1) @ inverse
        truth /= np.linalg.norm(truth, axis=1, keepdims=True)
        agree = np.abs((truth * smooth).sum(axis=1))
        assert np.allclose(agree, 1.0, atol=1e-9) and ((smooth * flat).sum(axis=1) > 0).all()


def test_our_scene_stands_upright() -> None:
    """In a GLB file y is up, and columns stand along it."""
    scene = Scene.from_trimesh(trimesh.load(model("instanced.glb"), process=False))
    columns = [one for one in scene if one.name.startswith("column_")]
    assert scene.up == "y" and len(columns) == 16
    for one in columns:
        # Its geometry is a column along z.
        along = one.transform[:3, 2]
        assert along[1] > 0.5 and np.allclose(along[[0, 2]], 0.0)
    assert scene.bounds[1, 1] - scene.bounds[0, 1] < 5.0


@pytest.mark.parametrize("name", ["instanced.glb", "CesiumMilkTruck.glb", "Duck.glb"])
@pytest.mark.parametrize("kind", ["perspective", "orthographic"])
def test_picks_are_those_of_the_dumped_scene(
    name: str, kind: str, rng: np.random.Generator
) -> None:
    """Name and face of each pick: the first of all triangles that trimesh dumps."""
    loaded = trimesh.load(model(name), process=False)
    scene = Scene.from_trimesh(loaded)
    nodes = [one.name for one in scene]
    up = [0, 1, 0]
    camera = Camera.framing(scene.bounds, rng.normal(size=3), up=up)
    if kind == "orthographic":
        middle, height = scene.bounds.mean(axis=0), np.ptp(scene.bounds, axis=0).max()
        camera = Camera.orthographic(camera.eye, middle, up, height)
    # In the part of the picture where there is something.
    x, y, _ = camera.project(scene.flattened()[0])
    x, y = rng.uniform(x.min(), x.max(), CURSORS), rng.uniform(y.min(), y.max(), CURSORS)
    origins, directions = (np.broadcast_to(a, (CURSORS, 3)) for a in camera.ray(x, y))
    first = np.full((len(nodes), CURSORS), np.inf)
    faces = np.zeros((len(nodes), CURSORS), np.int64)
    times = []
    for k, part in enumerate(loaded.dump()):
        corners = np.asarray(part.triangles, np.float64)
        _, t, _, _ = bvh.ray_triangle(
            origins[:, None], directions[:, None], corners[:, 0], corners[:, 1], corners[:, 2]
        )
        times.append(t)
        faces[k], first[k] = t.argmin(axis=1), t.min(axis=1)
    hit = strict = 0
    for i in range(CURSORS):
        pick, k = scene.pick(camera, x[i], y[i]), int(first[:, i].argmin())
        if not np.isfinite(first[k, i]):
            assert pick is None
            continue
        hit += 1
        assert pick is not None and abs(pick.t - first[k, i]) <= 1e-9 * pick.t
        if (pick.name, pick.prim_id) == (nodes[k], faces[k, i]):
            strict += 1
            continue
        # Faces in one place: the dump is rounded in another way.
        own = times[nodes.index(pick.name)][i, pick.prim_id]
        assert abs(own - first[k, i]) <= 1e-12 * own
    assert hit >= CURSORS // 10 and strict >= 0.95 * hit
    print(f"{name}: {strict} of {hit} picks have the same name and face")
